-- Every enabled server of every tenant, ids only: a worker that starts looks at them before anybody asks.
CREATE OR REPLACE FUNCTION mcpcatalog_enabled_servers()
RETURNS TABLE (tenant_id text, server_id text) LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, public AS $$
    SELECT s.tenant_id, s.server_id FROM public.mcp_servers s WHERE s.enabled ORDER BY 1, 2
$$;

ALTER FUNCTION mcpcatalog_enabled_servers() OWNER TO toolsys_definer;
REVOKE ALL ON FUNCTION mcpcatalog_enabled_servers() FROM PUBLIC;
GRANT EXECUTE ON FUNCTION mcpcatalog_enabled_servers() TO toolsys_app, toolsys_operator;
