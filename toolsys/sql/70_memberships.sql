-- Roles of the platform are given by operators: a tenant that could make its people operators would classify its own
-- servers.
CREATE OR REPLACE FUNCTION toolsys_guard_membership() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF pg_has_role(current_user, 'toolsys_operator', 'MEMBER')
       OR (coalesce(OLD.role, '') NOT IN ('operator', 'platform_auditor')
           AND coalesce(NEW.role, '') NOT IN ('operator', 'platform_auditor')) THEN
        RETURN coalesce(NEW, OLD);
    END IF;
    RAISE EXCEPTION 'roles of the platform are given by operators' USING ERRCODE = 'insufficient_privilege';
END $$;
