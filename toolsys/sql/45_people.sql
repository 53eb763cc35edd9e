-- Whoever is deactivated, or comes back, changes what their votes are worth: in every tenant that they belong to.
-- A trigger that looks before a tenant is known, so it runs as the definer role. It locks the tenants in order, as the
-- platform's switch does.
CREATE OR REPLACE FUNCTION toolsys_raise_epochs_of_person() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, public AS $$
BEGIN
    PERFORM public.toolsys_lock_tenant(found.tenant_id) FROM (
        SELECT DISTINCT m.tenant_id FROM public.memberships m WHERE m.user_id = NEW.id ORDER BY 1) AS found;
    UPDATE public.tenants t SET authz_epoch = t.authz_epoch + 1
    WHERE t.id IN (SELECT m.tenant_id FROM public.memberships m WHERE m.user_id = NEW.id);
    RETURN NULL;
END $$;

ALTER FUNCTION toolsys_raise_epochs_of_person() OWNER TO toolsys_definer;
REVOKE ALL ON FUNCTION toolsys_raise_epochs_of_person() FROM PUBLIC;
GRANT EXECUTE ON FUNCTION toolsys_raise_epochs_of_person() TO toolsys_app, toolsys_operator;
