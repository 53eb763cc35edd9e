-- Roles and privileges of a toolsys database. PostgreSQL 15 or newer. Safe to run again.
--
-- For an administrator, on a server of your own (a superuser, or any role with CREATEROLE that may administer the database):
--
--     createdb toolsys
--     psql -X -v ON_ERROR_STOP=1 -1 -d toolsys -f toolsys/sql/roles.sql
--     psql -d toolsys -c '\password toolsys_owner'       and the same for toolsys_app and toolsys_operator
--
-- Passwords are deliberately not in this file. The program then takes
--     DATABASE_URL           toolsys_app        web and workers; reads and writes rows of one tenant at a time
--     DATABASE_OPERATOR_URL  toolsys_operator   the operators' pages; crosses tenants by explicit policies
--     DATABASE_OWNER_URL     toolsys_owner      `manage.py migrate --database owner` only
-- toolsys_definer cannot log in: it owns the few SECURITY DEFINER functions that look before a tenant is known.
-- None of the four is superuser or BYPASSRLS; the program refuses to start otherwise.
-- Everything after the first statement is per database; toolsys_owner may run it in databases of its own (tests do).

DO $$
DECLARE
    name text;
BEGIN
    FOREACH name IN ARRAY ARRAY['toolsys_owner', 'toolsys_app', 'toolsys_operator', 'toolsys_definer'] LOOP
        IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = name) THEN
            EXECUTE format(
                'CREATE ROLE %I %s %s NOCREATEROLE', name,
                CASE WHEN name = 'toolsys_definer' THEN 'NOLOGIN' ELSE 'LOGIN' END,
                -- The owner makes the databases of the test suite.
                CASE WHEN name = 'toolsys_owner' THEN 'CREATEDB' ELSE 'NOCREATEDB' END);
        END IF;
    END LOOP;
    IF current_user <> 'toolsys_owner' THEN
        -- The owner hands functions over to the definer: ALTER FUNCTION ... OWNER TO toolsys_definer.
        GRANT toolsys_definer TO toolsys_owner;
        IF NOT (SELECT rolsuper FROM pg_roles WHERE rolname = current_user) THEN
            -- An administrator who is no superuser must be a member to give things to the owner.
            EXECUTE format('GRANT toolsys_owner TO %I', current_user);
        END IF;
    END IF;
END
$$;

DO $$
BEGIN
    EXECUTE format('ALTER DATABASE %I OWNER TO toolsys_owner', current_database());
    -- No temporary objects: they could shadow names inside a SECURITY DEFINER function.
    EXECUTE format('REVOKE ALL ON DATABASE %I FROM PUBLIC', current_database());
    EXECUTE format('GRANT CONNECT ON DATABASE %I TO toolsys_app, toolsys_operator', current_database());
END
$$;

ALTER SCHEMA public OWNER TO toolsys_owner;
REVOKE CREATE ON SCHEMA public FROM PUBLIC;
GRANT USAGE ON SCHEMA public TO toolsys_app, toolsys_operator;
-- The owner of a function needs CREATE on its schema at the moment it becomes the owner.
GRANT USAGE, CREATE ON SCHEMA public TO toolsys_definer;

ALTER DEFAULT PRIVILEGES FOR ROLE toolsys_owner IN SCHEMA public
    GRANT SELECT, INSERT, UPDATE, DELETE ON TABLES TO toolsys_app, toolsys_operator;
ALTER DEFAULT PRIVILEGES FOR ROLE toolsys_owner IN SCHEMA public
    GRANT USAGE, SELECT ON SEQUENCES TO toolsys_app, toolsys_operator;
