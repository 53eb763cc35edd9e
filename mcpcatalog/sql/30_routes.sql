-- Which worker holds a session's connection to a server that keeps state in it. The table's word counts; a worker that
-- has not renewed its lease holds nothing. Routes decide where a call is done, never whether: the claim is the fence.

-- Return who holds the route: whoever had it while they live, else the one who asks. A state that was lost with its
-- worker is an event, since the next call speaks to a server that has forgotten everything.
CREATE OR REPLACE FUNCTION mcpcatalog_take_route(p_tenant text, p_session uuid, p_server text, p_worker text)
RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    v mcp_routes;
BEGIN
    ASSERT set_config('toolsys.tenant_id', p_tenant, true) = p_tenant;
    INSERT INTO mcp_routes (id, tenant_id, session_id, server_id, worker, taken_at, created_at)
    VALUES (gen_random_uuid(), p_tenant, p_session, p_server, p_worker, clock_timestamp(), clock_timestamp())
    ON CONFLICT (tenant_id, session_id, server_id) DO NOTHING;
    IF FOUND THEN
        RETURN p_worker;
    END IF;
    SELECT * INTO v FROM mcp_routes
    WHERE tenant_id = p_tenant AND session_id = p_session AND server_id = p_server FOR UPDATE;
    IF NOT FOUND THEN
        RETURN p_worker;  -- given back between the two statements: the next call writes it down
    END IF;
    IF v.worker = p_worker OR EXISTS (
        SELECT 1 FROM mcp_workers w WHERE w.name = v.worker AND w.expires_at > clock_timestamp()) THEN
        RETURN v.worker;
    END IF;
    UPDATE mcp_routes SET worker = p_worker, taken_at = clock_timestamp() WHERE tenant_id = p_tenant AND id = v.id;
    INSERT INTO tool_events (tenant_id, type, payload, derivation_key, created_at)
    VALUES (p_tenant, 'mcp.server.disconnected', jsonb_build_object('server', p_server, 'session', p_session,
            'reason_code', 'tool.transport', 'is_state_lost', true),
        'mcp.server.disconnected:worker:' || v.id || ':' || v.taken_at, clock_timestamp())
    ON CONFLICT (tenant_id, derivation_key) DO NOTHING;
    RETURN p_worker;
END $$;

-- Renew a worker's lease. False: it had passed, so that others may have taken what this worker held.
CREATE OR REPLACE FUNCTION mcpcatalog_renew_worker(p_worker text, p_lease float)
RETURNS boolean LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public AS $$
DECLARE
    v_before timestamptz;
BEGIN
    SELECT w.expires_at INTO v_before FROM public.mcp_workers w WHERE w.name = p_worker FOR UPDATE;
    INSERT INTO public.mcp_workers AS w (name, expires_at)
    VALUES (p_worker, clock_timestamp() + make_interval(secs => p_lease))
    ON CONFLICT (name) DO UPDATE SET expires_at = excluded.expires_at;
    RETURN v_before IS NOT NULL AND v_before > clock_timestamp();
END $$;

-- A worker that stops is as good as dead: whoever takes its routes says that their state is lost. What the dead left is
-- forgotten after an hour: by then an idle connection would have been closed, with its state.
CREATE OR REPLACE FUNCTION mcpcatalog_release_worker(p_worker text)
RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public AS $$
BEGIN
    UPDATE public.mcp_workers w SET expires_at = clock_timestamp() WHERE w.name = p_worker;
    DELETE FROM public.mcp_routes r USING public.mcp_workers w
    WHERE w.name = r.worker AND w.expires_at < clock_timestamp() - interval '1 hour';
    DELETE FROM public.mcp_workers w WHERE w.expires_at < clock_timestamp() - interval '1 hour';
END $$;

ALTER FUNCTION mcpcatalog_renew_worker(text, float) OWNER TO toolsys_definer;
ALTER FUNCTION mcpcatalog_release_worker(text) OWNER TO toolsys_definer;
REVOKE ALL ON FUNCTION mcpcatalog_renew_worker(text, float), mcpcatalog_release_worker(text) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION mcpcatalog_renew_worker(text, float), mcpcatalog_release_worker(text)
    TO toolsys_app, toolsys_operator;
