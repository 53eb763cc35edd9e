-- Reads of the call path: one snapshot, one round trip each. SECURITY INVOKER: row-level security applies.
-- Planning costs ten times what running costs: plans are made once a connection, and always by index.

-- What changes with every call. What changes only with the authorization epoch is toolsys_standing, kept by epoch.
CREATE OR REPLACE FUNCTION toolsys_facts(p_tenant text, p_run uuid, p_step int, p_call text)
RETURNS jsonb LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off AS $$
DECLARE
    v jsonb;
BEGIN
    ASSERT set_config('toolsys.tenant_id', p_tenant, true) = p_tenant;
    SELECT jsonb_build_object(
        'authz_epoch', t.authz_epoch, 'database_epoch', p.database_epoch, 'now', clock_timestamp(),
        'platform_enabled', p.is_execution_enabled, 'tenant_enabled', t.is_enabled,
        'tool_calling', t.is_tool_calling_enabled,
        'run', jsonb_build_object('id', r.id, 'status', r.status, 'deadline_at', r.deadline_at,
            'expired', r.deadline_at <= clock_timestamp(), 'cancelled', r.cancel_requested_at IS NOT NULL,
            'calls_left', CASE WHEN r.budgets ? 'calls' THEN greatest((r.budgets->>'calls')::int - r.calls_begun, 0) END,
            'manifest', r.manifest, 'delivered_trust', r.delivered_trust, 'session_id', r.session_id,
            -- What a breaker looks at, newest first; where that is too much, what alone stops a call goes before
            -- denials. Of findings the latest counts: what is known not to have happened alarms no more.
            'alarms', (SELECT coalesce(jsonb_agg(to_jsonb(a) ORDER BY a.id DESC), '[]') FROM (
                SELECT n.id, n.tool_name, n.normalized_arguments_hash AS arguments_hash, n.outcome_status,
                    n.reason_code, n.identical_count, n.step_number
                FROM tool_invocations n
                WHERE n.tenant_id = p_tenant AND n.run_id = p_run
                  AND (n.identical_count >= 4 OR n.status IN ('denied', 'uncertain'))
                  AND (n.status <> 'uncertain' OR (SELECT u.resolution FROM uncertain_resolutions u
                      WHERE u.tenant_id = p_tenant AND u.invocation_id = n.id
                      ORDER BY u.id DESC LIMIT 1) IS DISTINCT FROM 'not_happened')
                ORDER BY n.status = 'uncertain' DESC, n.identical_count >= 4 DESC, n.id DESC LIMIT 200) a),
            'previous_step', (SELECT max(b.step_number) FROM run_steps b
                WHERE b.tenant_id = p_tenant AND b.run_id = p_run AND b.step_number < p_step)),
        'step', (SELECT jsonb_build_object('id', st.id, 'body_hash', st.body_hash, 'origin_trust', st.origin_trust,
                'parallel_group', st.parallel_group)
            FROM run_steps st WHERE st.tenant_id = p_tenant AND st.run_id = p_run AND st.step_number = p_step),
        'invocation', (SELECT jsonb_build_object('id', i.id, 'status', i.status, 'tool_name', i.tool_name,
                'tool_version', i.tool_version, 'arguments_hash', i.normalized_arguments_hash,
                'idempotency_key', i.idempotency_key, 'side_effect', i.side_effect, 'risk', i.risk,
                'idempotency_class', i.idempotency_class, 'claim_epoch', i.claim_epoch, 'verdict', i.verdict,
                'lease_live', i.status = 'running' AND i.lease_expires_at > clock_timestamp(),
                'effect_sent_at', i.effect_sent_at, 'attempt_number', i.attempt_number,
                'outcome_status', i.outcome_status, 'reason_code', i.reason_code, 'suspended_kind', i.suspended_kind,
                'cancel_requested_at', i.cancel_requested_at,
                'old_epoch', i.database_epoch < p.database_epoch,
                'approval', (SELECT jsonb_build_object('id', ar.id, 'status', ar.status, 'digest', ar.digest,
                        'verdict', ar.verdict, 'expired', ar.expires_at <= clock_timestamp(),
                        'consumable', ar.status = 'approved' AND ar.consume_by > clock_timestamp(),
                        'seats', ar.seats, 'rejection_code', ar.rejection_code,
                        'held', toolsys_seats_held(p_tenant, ar.votes))
                    FROM approval_requests ar WHERE ar.tenant_id = p_tenant AND ar.invocation_id = i.id))
            FROM tool_invocations i WHERE i.tenant_id = p_tenant AND i.run_id = p_run
              AND i.step_number = p_step AND i.call_id = p_call))
    INTO v
    FROM runs r
    JOIN tenants t ON t.id = r.tenant_id
    CROSS JOIN platform_state p
    WHERE r.tenant_id = p_tenant AND r.id = p_run;
    RETURN v;
END $$;

-- Session, agent, principal and key: every change to one of them raises the authorization epoch, by trigger.
CREATE OR REPLACE FUNCTION toolsys_standing(p_tenant text, p_session uuid, p_key uuid)
RETURNS jsonb LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off AS $$
DECLARE
    v jsonb;
BEGIN
    ASSERT set_config('toolsys.tenant_id', p_tenant, true) = p_tenant;
    SELECT jsonb_build_object(
        'session', jsonb_build_object('id', s.id, 'sha', s.tool_schema_sha256, 'profile', s.profile,
            'environment', s.environment, 'closed', s.closed_at IS NOT NULL),
        'agent', jsonb_build_object('id', a.id, 'name', a.name, 'enabled', a.is_enabled, 'tools', a.enabled_tools),
        'principal', jsonb_build_object('id', q.id, 'external_id', q.external_id, 'scopes', q.scopes),
        'key', jsonb_build_object('id', k.id, 'scopes', k.scopes, 'revoked', k.revoked_at IS NOT NULL,
            'expires_at', k.expires_at))
    INTO v
    FROM agent_sessions s
    JOIN agents a ON a.tenant_id = s.tenant_id AND a.id = s.agent_id
    JOIN principals q ON q.tenant_id = s.tenant_id AND q.id = s.principal_id
    JOIN api_keys k ON k.tenant_id = s.tenant_id AND k.id = p_key
    WHERE s.tenant_id = p_tenant AND s.id = p_session;
    RETURN v;
END $$;

-- What a worker needs to re-enter the pipeline: the step of an invocation, its sealed body, where to go on, and the
-- facts of the call that it goes on with.
CREATE OR REPLACE FUNCTION toolsys_step_of(p_tenant text, p_step uuid, p_invocation uuid,
    OUT step jsonb, OUT body bytea, OUT facts jsonb) LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off AS $$
DECLARE
    st run_steps;
    v_call_id text;
    v_index int;
BEGIN
    ASSERT set_config('toolsys.tenant_id', p_tenant, true) = p_tenant;
    IF p_invocation IS NOT NULL THEN
        SELECT i.step_id, i.call_id, i.call_index INTO p_step, v_call_id, v_index
        FROM tool_invocations i WHERE i.tenant_id = p_tenant AND i.id = p_invocation;
    END IF;
    SELECT * INTO st FROM run_steps s WHERE s.tenant_id = p_tenant AND s.id = p_step;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    body := st.body;
    step := jsonb_build_object('id', st.id, 'run_id', st.run_id, 'number', st.step_number,
        'body_hash', st.body_hash, 'call_count', st.call_count, 'context_trust', st.context_trust,
        'origin_trust', st.origin_trust, 'parallel_group', st.parallel_group, 'correlation_id', st.correlation_id,
        'api_key_id', st.api_key_id, 'call_index', v_index,
        'calls', (SELECT coalesce(jsonb_agg(jsonb_build_object('id', c.id, 'index', c.call_index)), '[]')
            FROM tool_invocations c
            WHERE c.tenant_id = p_tenant AND c.run_id = st.run_id AND c.step_number = st.step_number));
    IF v_call_id IS NOT NULL THEN
        facts := toolsys_facts(p_tenant, st.run_id, st.step_number, v_call_id);
    END IF;
END $$;

CREATE OR REPLACE FUNCTION toolsys_outcome(i tool_invocations) RETURNS jsonb LANGUAGE sql STABLE AS $$
    SELECT jsonb_build_object('id', i.id, 'run_id', i.run_id, 'step_number', i.step_number, 'call_id', i.call_id,
        'tool_name', i.tool_name, 'tool_version', i.tool_version, 'status', i.status,
        'outcome_status', i.outcome_status, 'reason_code', i.reason_code, 'call_index', i.call_index,
        'idempotency_key', i.idempotency_key, 'attempt_number', i.attempt_number,
        'effect_sent', i.effect_sent_at IS NOT NULL, 'output_bytes', i.output_bytes, 'truncated', i.truncated,
        'artifact_id', i.artifact_id, 'output_trust', i.output_trust, 'origin_trust', i.origin_trust,
        'created_at', i.created_at, 'started_at', i.started_at, 'completed_at', i.completed_at,
        'identical_count', i.identical_count,
        'approval_id', (SELECT ar.id FROM approval_requests ar
            WHERE ar.tenant_id = i.tenant_id AND ar.invocation_id = i.id))
$$;

-- The rows of one step (or one invocation) with their sealed results, for rendering outcomes.
CREATE OR REPLACE FUNCTION toolsys_outcomes(p_tenant text, p_run uuid, p_step int, p_invocation uuid)
RETURNS TABLE (facts jsonb, result bytea) LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off AS $$
BEGIN
    ASSERT set_config('toolsys.tenant_id', p_tenant, true) = p_tenant;
    IF p_invocation IS NULL THEN
        RETURN QUERY
        SELECT toolsys_outcome(i), y.sealed FROM tool_invocations i
        LEFT JOIN invocation_payloads y ON y.tenant_id = p_tenant AND y.invocation_id = i.id AND y.kind = 'result'
        WHERE i.tenant_id = p_tenant AND i.run_id = p_run AND i.step_number = p_step
        ORDER BY i.call_index;
    ELSE
        RETURN QUERY
        SELECT toolsys_outcome(i), y.sealed FROM tool_invocations i
        LEFT JOIN invocation_payloads y ON y.tenant_id = p_tenant AND y.invocation_id = i.id AND y.kind = 'result'
        WHERE i.tenant_id = p_tenant AND i.id = p_invocation;
    END IF;
END $$;

-- The calls of one run, a page at a time, by their time-ordered ids.
CREATE OR REPLACE FUNCTION toolsys_run_calls(p_tenant text, p_run uuid, p_after uuid, p_limit int)
RETURNS TABLE (facts jsonb, result bytea) LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off AS $$
BEGIN
    ASSERT set_config('toolsys.tenant_id', p_tenant, true) = p_tenant;
    RETURN QUERY
    SELECT toolsys_outcome(i.row), y.sealed
    FROM (SELECT n AS row, n.id FROM tool_invocations n WHERE n.tenant_id = p_tenant AND n.run_id = p_run
            AND n.id > coalesce(p_after, '00000000-0000-0000-0000-000000000000')
          ORDER BY n.id LIMIT p_limit) AS i
    LEFT JOIN invocation_payloads y ON y.tenant_id = p_tenant AND y.invocation_id = i.id AND y.kind = 'result';
END $$;
