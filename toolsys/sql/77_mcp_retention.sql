-- What the MCP face no longer remembers: calls whose outcome is old, and conversations that were silent as long and hold
-- no call any more. Sees every tenant, and returns numbers only; never takes what is younger than a day, whoever asks. A
-- call that is still under way is kept, so that the same call again is no second one. What somebody has locked at this
-- moment is passed over. The time is the statement's, which an index can be searched by.

CREATE OR REPLACE FUNCTION toolsys_forget_calls(p_seconds float, p_limit int)
RETURNS bigint LANGUAGE sql SECURITY DEFINER
SET search_path = pg_catalog, public AS $$
    WITH over AS (
        SELECT c.tenant_id, c.id FROM public.mcp_proposals c
        WHERE c.created_at < statement_timestamp() - make_interval(secs => greatest(p_seconds, 86400))
          AND NOT EXISTS (
            SELECT 1 FROM public.tool_invocations i
            WHERE i.tenant_id = c.tenant_id AND i.run_id = c.run_id AND i.step_number = c.step_number
              AND i.completed_at IS NULL)
        ORDER BY c.created_at LIMIT p_limit FOR UPDATE OF c SKIP LOCKED),
    gone AS (
        DELETE FROM public.mcp_proposals c USING over
        WHERE c.tenant_id = over.tenant_id AND c.id = over.id RETURNING 1)
    SELECT count(*) FROM gone
$$;

CREATE OR REPLACE FUNCTION toolsys_forget_conversations(p_seconds float, p_limit int)
RETURNS bigint LANGUAGE sql SECURITY DEFINER
SET search_path = pg_catalog, public AS $$
    WITH over AS (
        SELECT s.tenant_id, s.id FROM public.mcp_client_sessions s
        WHERE s.last_call_at < statement_timestamp() - make_interval(secs => greatest(p_seconds, 86400))
          AND NOT EXISTS (
            SELECT 1 FROM public.mcp_proposals c WHERE c.tenant_id = s.tenant_id AND c.client_session_id = s.id)
        ORDER BY s.last_call_at LIMIT p_limit FOR UPDATE OF s SKIP LOCKED),
    gone AS (
        DELETE FROM public.mcp_client_sessions s USING over
        WHERE s.tenant_id = over.tenant_id AND s.id = over.id RETURNING 1)
    SELECT count(*) FROM gone
$$;

ALTER FUNCTION toolsys_forget_calls(float, int) OWNER TO toolsys_definer;
ALTER FUNCTION toolsys_forget_conversations(float, int) OWNER TO toolsys_definer;
REVOKE ALL ON FUNCTION toolsys_forget_calls(float, int), toolsys_forget_conversations(float, int) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION toolsys_forget_calls(float, int), toolsys_forget_conversations(float, int) TO toolsys_app;
