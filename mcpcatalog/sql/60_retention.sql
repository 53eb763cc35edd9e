-- What the catalog no longer keeps: changes that are old, oldest first, and with each the generation that it ended, unless
-- that is offered again, was left once more since, or stands in a set of tools that any session ever pinned: which schema
-- a call was validated against stays answerable. A discovery locks its server, and a server whose discovery is under way
-- is passed over. Sees every tenant, and returns a number only; never takes what is younger than a day, whoever asks.

CREATE OR REPLACE FUNCTION mcpcatalog_forget_changes(p_seconds float, p_limit int)
RETURNS bigint LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public AS $$
DECLARE
    c record;
    v_gone bigint := 0;
BEGIN
    FOR c IN
        SELECT h.id, h.tenant_id, h.server_id, h.old_hash FROM public.mcp_catalog_changes h
        WHERE h.created_at < statement_timestamp() - make_interval(secs => greatest(p_seconds, 86400))
        ORDER BY h.created_at LIMIT p_limit
    LOOP
        PERFORM 1 FROM public.mcp_servers s
        WHERE s.tenant_id = c.tenant_id AND s.server_id = c.server_id FOR NO KEY UPDATE SKIP LOCKED;
        CONTINUE WHEN NOT FOUND;
        DELETE FROM public.mcp_catalog_changes h WHERE h.tenant_id = c.tenant_id AND h.id = c.id;
        v_gone := v_gone + 1;
        DELETE FROM public.mcp_tool_catalog t
        WHERE t.tenant_id = c.tenant_id AND t.server_id = c.server_id AND t.catalog_hash = c.old_hash
          AND NOT EXISTS (
            SELECT 1 FROM public.mcp_servers s
            WHERE s.tenant_id = c.tenant_id AND s.server_id = c.server_id AND s.catalog_hash = c.old_hash)
          AND NOT EXISTS (
            SELECT 1 FROM public.mcp_catalog_changes h
            WHERE h.tenant_id = c.tenant_id AND h.server_id = c.server_id AND h.old_hash = c.old_hash)
          AND NOT EXISTS (
            SELECT 1 FROM public.tool_sets p
            WHERE p.tenant_id = c.tenant_id
              AND jsonb_path_query_array(p.tools, '$.*.version') @> to_jsonb(c.old_hash));
    END LOOP;
    RETURN v_gone;
END $$;

ALTER FUNCTION mcpcatalog_forget_changes(float, int) OWNER TO toolsys_definer;
REVOKE ALL ON FUNCTION mcpcatalog_forget_changes(float, int) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION mcpcatalog_forget_changes(float, int) TO toolsys_app;
