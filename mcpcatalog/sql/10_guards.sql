-- Who may write which row of mcp_servers, and that the catalog is a history.

-- A stdio server is a child process in the worker's trust zone, and a reference outside the tenant's own store is a
-- secret of the deployment: such rows are the operators' alone. What a worker observes of one is not configuration.
CREATE OR REPLACE FUNCTION mcpcatalog_guard_stdio() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    observed CONSTANT text[] := ARRAY[
        'negotiated_revision', 'catalog_hash', 'discovered_fingerprint', 'last_discovered_at', 'list_changed_at', 'last_failed_at',
        'last_failure_code', 'last_failure_detail', 'consecutive_failures', 'server_claims', 'rejected_tools'];
BEGIN
    IF pg_has_role(current_user, 'toolsys_operator', 'MEMBER') THEN
        RETURN coalesce(NEW, OLD);
    END IF;
    IF coalesce(OLD.transport, '') <> 'stdio' AND coalesce(NEW.transport, '') <> 'stdio'
       AND coalesce(OLD.credential_ref, '') !~ '^(env|file):' AND coalesce(NEW.credential_ref, '') !~ '^(env|file):' THEN
        RETURN coalesce(NEW, OLD);
    END IF;
    IF TG_OP = 'UPDATE' AND to_jsonb(NEW) - observed = to_jsonb(OLD) - observed THEN
        RETURN NEW;
    END IF;
    RAISE EXCEPTION 'stdio servers and deployment credentials are configured by operators' USING ERRCODE = 'insufficient_privilege';
END $$;

CREATE TRIGGER guard_stdio BEFORE INSERT OR UPDATE OR DELETE ON mcp_servers
    FOR EACH ROW EXECUTE FUNCTION mcpcatalog_guard_stdio();

REVOKE UPDATE, DELETE, TRUNCATE ON mcp_tool_catalog FROM toolsys_app, toolsys_operator;
GRANT UPDATE (withdrawn_at) ON mcp_tool_catalog TO toolsys_app, toolsys_operator;
