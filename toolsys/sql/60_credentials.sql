-- The only readers of sealed credentials. Each sees the tenant of the transaction and no other, and notes the use. This is the version that counts.

CREATE OR REPLACE FUNCTION toolsys_take_credential(p_name text)
RETURNS TABLE (id uuid, sealed bytea) LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, public AS $$
DECLARE
    v_tenant CONSTANT text := nullif(current_setting('toolsys.tenant_id', true), '');
    v_version public.credential_versions;
BEGIN
    SELECT v.* INTO v_version FROM public.credentials c
    JOIN public.credential_versions v ON v.tenant_id = c.tenant_id AND v.credential_id = c.id
    WHERE c.tenant_id = v_tenant AND c.name = p_name AND c.retired_at IS NULL
      AND v.version = c.current_version AND v.retired_at IS NULL AND v.sealed IS NOT NULL;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    -- At most once a minute: many connections of one credential must not queue for its row.
    UPDATE public.credential_versions u SET last_used_at = clock_timestamp()
    WHERE u.id = v_version.id
      AND coalesce(u.last_used_at, '-infinity') < clock_timestamp() - interval '1 minute';
    RETURN QUERY SELECT v_version.id, v_version.sealed;
END $$;

ALTER FUNCTION toolsys_take_credential(text) OWNER TO toolsys_definer;
REVOKE ALL ON FUNCTION toolsys_take_credential(text) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION toolsys_take_credential(text) TO toolsys_app;

-- One version that is still live, whether it counts or not: for a person who wants to know what a server says to it.
CREATE OR REPLACE FUNCTION toolsys_take_credential_version(p_name text, p_version integer)
RETURNS TABLE (id uuid, sealed bytea) LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, public AS $$
DECLARE
    v_tenant CONSTANT text := nullif(current_setting('toolsys.tenant_id', true), '');
    v_version public.credential_versions;
BEGIN
    SELECT v.* INTO v_version FROM public.credentials c
    JOIN public.credential_versions v ON v.tenant_id = c.tenant_id AND v.credential_id = c.id
    WHERE c.tenant_id = v_tenant AND c.name = p_name AND c.retired_at IS NULL
      AND v.version = p_version AND v.retired_at IS NULL AND v.sealed IS NOT NULL;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    UPDATE public.credential_versions u SET last_used_at = clock_timestamp()
    WHERE u.id = v_version.id
      AND coalesce(u.last_used_at, '-infinity') < clock_timestamp() - interval '1 minute';
    RETURN QUERY SELECT v_version.id, v_version.sealed;
END $$;

ALTER FUNCTION toolsys_take_credential_version(text, integer) OWNER TO toolsys_definer;
REVOKE ALL ON FUNCTION toolsys_take_credential_version(text, integer) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION toolsys_take_credential_version(text, integer) TO toolsys_app;
