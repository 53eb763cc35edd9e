-- The MCP face numbers the steps: a call that is known is found again, another one takes the next number. One lock on the
-- conversation's row, so that two of the same call at once are one. Nothing here writes an invocation.

CREATE OR REPLACE FUNCTION toolsys_number_call(p_tenant text, p_session uuid, p_id uuid, p_fingerprint text,
    p_request text, p_key text)
RETURNS jsonb LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off AS $$
DECLARE
    s mcp_client_sessions;
    c mcp_proposals;
BEGIN
    ASSERT set_config('toolsys.tenant_id', p_tenant, true) = p_tenant;
    SELECT * INTO s FROM mcp_client_sessions WHERE tenant_id = p_tenant AND id = p_session FOR NO KEY UPDATE;
    IF NOT FOUND OR s.closed_at IS NOT NULL THEN
        RETURN NULL;
    END IF;
    IF p_key IS NOT NULL THEN
        SELECT * INTO c FROM mcp_proposals WHERE tenant_id = p_tenant AND client_session_id = s.id AND client_key = p_key;
        IF c.fingerprint <> p_fingerprint THEN
            RETURN jsonb_build_object('conflict', 'key');
        END IF;
    ELSE
        -- The very request again, however its answer fared; else the same call, while nobody has its outcome.
        SELECT * INTO c FROM mcp_proposals WHERE tenant_id = p_tenant AND client_session_id = s.id
          AND p_request <> '' AND request_id = p_request AND fingerprint = p_fingerprint
        ORDER BY step_number DESC LIMIT 1;
        IF NOT FOUND THEN
            SELECT * INTO c FROM mcp_proposals WHERE tenant_id = p_tenant AND client_session_id = s.id
              AND fingerprint = p_fingerprint AND collected_at IS NULL
            ORDER BY step_number DESC LIMIT 1;
        END IF;
    END IF;
    IF c.id IS NULL THEN
        INSERT INTO mcp_proposals (id, tenant_id, created_at, client_session_id, run_id, step_number, fingerprint,
            request_id, client_key)
        VALUES (p_id, p_tenant, clock_timestamp(), s.id, s.run_id, s.next_step, p_fingerprint, p_request, p_key)
        RETURNING * INTO c;
        UPDATE mcp_client_sessions SET next_step = next_step + 1, last_call_at = clock_timestamp()
        WHERE tenant_id = p_tenant AND id = s.id;
    ELSIF p_request <> '' AND c.request_id <> p_request THEN
        UPDATE mcp_proposals SET request_id = p_request WHERE tenant_id = p_tenant AND id = c.id;
    END IF;
    RETURN jsonb_build_object('id', c.id, 'run_id', c.run_id, 'step_number', c.step_number);
END $$;

-- Committed before the last byte of the outcome leaves: the same call after it is a new one.
CREATE OR REPLACE FUNCTION toolsys_collect_call(p_tenant text, p_id uuid) RETURNS void LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off AS $$
BEGIN
    ASSERT set_config('toolsys.tenant_id', p_tenant, true) = p_tenant;
    UPDATE mcp_proposals SET collected_at = clock_timestamp()
    WHERE tenant_id = p_tenant AND id = p_id AND collected_at IS NULL;
END $$;

-- A proposal that was refused before anything was written gives its place back.
CREATE OR REPLACE FUNCTION toolsys_forget_call(p_tenant text, p_id uuid) RETURNS void LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off AS $$
BEGIN
    ASSERT set_config('toolsys.tenant_id', p_tenant, true) = p_tenant;
    DELETE FROM mcp_proposals c WHERE c.tenant_id = p_tenant AND c.id = p_id AND NOT EXISTS (
        SELECT 1 FROM run_steps st
        WHERE st.tenant_id = p_tenant AND st.run_id = c.run_id AND st.step_number = c.step_number);
END $$;
