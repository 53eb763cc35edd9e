-- Who may write which row of mcp_servers, and that the catalog is a history.

-- A stdio server is a child process in the worker's trust zone, and a reference outside the tenant's own store is a
-- secret of the deployment: such rows are the operators' alone. What a worker observes of one is not configuration.
CREATE OR REPLACE FUNCTION mcpcatalog_guard_stdio() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    observed CONSTANT text[] := ARRAY[
        'negotiated_revision', 'catalog_hash', 'discovered_fingerprint', 'last_discovered_at', 'list_changed_at', 'last_failed_at',
        'failed_fingerprint', 'last_failure_code', 'last_failure_detail', 'consecutive_failures', 'server_claims', 'rejected_tools'];
    -- What a server is believed to do: a tenant that could say so would grant itself what the classification withholds.
    classified CONSTANT text[] := ARRAY['side_effect', 'risk', 'idempotency', 'key_place', 'key_name', 'is_stateless',
        'classified_at'];
    strictest CONSTANT jsonb := '{"side_effect": "external_write", "risk": "high", "idempotency": "non_idempotent",
        "key_place": "none", "key_name": "", "is_stateless": false, "classified_at": null}';
    is_same boolean := false;
BEGIN
    IF pg_has_role(current_user, 'toolsys_operator', 'MEMBER') THEN
        RETURN coalesce(NEW, OLD);
    END IF;
    IF coalesce(OLD.transport, '') = 'stdio' OR coalesce(NEW.transport, '') = 'stdio'
       OR coalesce(OLD.credential_ref, '') ~ '^(env|file):' OR coalesce(NEW.credential_ref, '') ~ '^(env|file):' THEN
        IF TG_OP = 'UPDATE' AND to_jsonb(NEW) - observed = to_jsonb(OLD) - observed THEN
            RETURN NEW;
        END IF;
        RAISE EXCEPTION 'stdio servers and deployment credentials are configured by operators' USING ERRCODE = 'insufficient_privilege';
    END IF;
    IF TG_OP = 'DELETE' THEN
        RETURN OLD;
    END IF;
    IF TG_OP = 'UPDATE' THEN
        -- Another endpoint is another server: what was said of the one before does not hold.
        is_same := NEW.endpoint = OLD.endpoint AND NEW.server_id = OLD.server_id;
        IF NEW.required_scopes <> OLD.required_scopes THEN
            RAISE EXCEPTION 'servers are classified by operators' USING ERRCODE = 'insufficient_privilege';
        END IF;
    END IF;
    IF NOT (to_jsonb(NEW) @> strictest) AND NOT (is_same AND NOT EXISTS (
        SELECT 1 FROM unnest(classified) AS c(name) WHERE to_jsonb(NEW) -> c.name IS DISTINCT FROM to_jsonb(OLD) -> c.name)) THEN
        RAISE EXCEPTION 'servers are classified by operators' USING ERRCODE = 'insufficient_privilege';
    END IF;
    RETURN NEW;
END $$;

CREATE TRIGGER guard_stdio BEFORE INSERT OR UPDATE OR DELETE ON mcp_servers
    FOR EACH ROW EXECUTE FUNCTION mcpcatalog_guard_stdio();

REVOKE UPDATE, DELETE, TRUNCATE ON mcp_tool_catalog FROM toolsys_app, toolsys_operator;
GRANT UPDATE (withdrawn_at) ON mcp_tool_catalog TO toolsys_app, toolsys_operator;
