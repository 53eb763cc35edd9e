-- The commit points of the pipeline: one function, one transaction, one round trip each. Called by toolsys.store.
-- Each names its tenant first, compares status and claim epoch, writes the facts and their event together.
-- Times are clock_timestamp(): now() predates lock waits. The tenant is set in an expression, not a query: it is free.
-- Planning costs ten times what running costs: plans are made once a connection, and always by index.

-- Whoever locks more than one of them locks the run first, then the approval, then the call: who cancels holds the run and
-- marks its calls, who decides holds the approval and wakes its call, and a circle would cost one of them its commit.
CREATE OR REPLACE FUNCTION toolsys_lock_run_of(p_tenant text, p_id uuid) RETURNS void LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off AS $$
BEGIN
    PERFORM 1 FROM runs r WHERE r.tenant_id = p_tenant AND r.id = (
        SELECT i.run_id FROM tool_invocations i WHERE i.tenant_id = p_tenant AND i.id = p_id) FOR NO KEY UPDATE;
    PERFORM 1 FROM approval_requests a WHERE a.tenant_id = p_tenant AND a.invocation_id = p_id FOR NO KEY UPDATE;
END $$;

-- Steps 7, 8 and every refusal of a new call: the step row, decision, invocation, payload, approval and events.
CREATE OR REPLACE FUNCTION toolsys_commit_proposal(p_tenant text, p jsonb, p_body bytea, p_arguments bytea)
RETURNS jsonb LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off AS $$
DECLARE
    v_run runs;
    v_step run_steps;
    v tool_invocations;
    v_now timestamptz := clock_timestamp();
BEGIN
    ASSERT set_config('toolsys.tenant_id', p_tenant, true) = p_tenant;
    -- FOR SHARE: a cancellation that has returned is seen, one that comes later finds the row written here. What changes
    -- the run too takes its lock at once: two who share it could not both go on to change it.
    IF p->'row'->>'status' = 'waiting_for_approval' OR p->'row'->>'reason_code' = 'tool.policy_denied'
        OR p ? 'is_counted' THEN
        SELECT * INTO v_run FROM runs WHERE tenant_id = p_tenant AND id = (p->>'run_id')::uuid FOR NO KEY UPDATE;
    ELSE
        SELECT * INTO v_run FROM runs WHERE tenant_id = p_tenant AND id = (p->>'run_id')::uuid FOR SHARE;
    END IF;
    IF v_run.cancel_requested_at IS NOT NULL AND p->'row'->>'status' IN ('authorized', 'waiting_for_approval') THEN
        RETURN jsonb_build_object('stale', 'cancelled');
    END IF;
    -- Under the run's lock: of two calls that each read one left, one begins.
    IF p ? 'is_counted' AND v_run.calls_begun >= (v_run.budgets->>'calls')::int THEN
        RETURN jsonb_build_object('stale', 'budget');
    END IF;
    -- A grant stands in for people: one use of it, together with the intent. Locked before anything is written, so that
    -- a use is not taken where the call turns out to be known.
    IF p ? 'grant' AND NOT toolsys_lock_grant(p_tenant, (p->>'grant')::uuid) THEN
        RETURN jsonb_build_object('stale', 'grant');
    END IF;
    v_step := jsonb_populate_record(NULL::run_steps,
        p->'step' || jsonb_build_object('tenant_id', p_tenant, 'created_at', v_now));
    v_step.body := p_body;
    INSERT INTO run_steps SELECT v_step.* ON CONFLICT (tenant_id, run_id, step_number) DO NOTHING;
    IF NOT FOUND THEN
        SELECT * INTO v_step FROM run_steps
        WHERE tenant_id = p_tenant AND run_id = v_run.id AND step_number = (p->'step'->>'step_number')::int;
        IF v_step.body_hash <> p->'step'->>'body_hash' THEN
            RETURN jsonb_build_object('conflict', 'step');
        END IF;
    END IF;
    v := jsonb_populate_record(NULL::tool_invocations, p->'row' || jsonb_build_object(
        'tenant_id', p_tenant, 'created_at', v_now, 'step_id', v_step.id, 'origin_trust', v_step.origin_trust,
        'parallel_group', v_step.parallel_group, 'dispatch_after', v_now + make_interval(secs => (p->>'grace')::float),
        'identical_count', 1 + coalesce((SELECT n.identical_count FROM tool_invocations n
            WHERE n.tenant_id = p_tenant AND n.run_id = v_run.id
              AND n.normalized_arguments_hash = p->'row'->>'normalized_arguments_hash'
              AND n.tool_name = p->'row'->>'tool_name' ORDER BY n.id DESC LIMIT 1), 0),
        'authorized_at', CASE WHEN p->'row'->>'status' = 'authorized' THEN v_now END,
        'completed_at', CASE WHEN p->'row'->>'outcome_status' IS NOT NULL THEN v_now END));
    INSERT INTO tool_invocations SELECT v.* ON CONFLICT DO NOTHING;
    IF NOT FOUND THEN
        -- Somebody else wrote this call, and so this step, between our read and now.
        RETURN jsonb_build_object('duplicate', true);
    END IF;
    IF p ? 'is_counted' THEN
        UPDATE runs SET calls_begun = calls_begun + 1 WHERE tenant_id = p_tenant AND id = v_run.id;
    END IF;
    IF p ? 'decision' THEN
        INSERT INTO policy_decisions SELECT * FROM jsonb_populate_record(NULL::policy_decisions,
            p->'decision' || jsonb_build_object('tenant_id', p_tenant, 'created_at', v_now));
    END IF;
    IF p ? 'grant' THEN
        PERFORM toolsys_use_grant(p_tenant, (p->>'grant')::uuid, v.id);
    END IF;
    IF p_arguments IS NOT NULL THEN
        INSERT INTO invocation_payloads (id, tenant_id, invocation_id, kind, sealed, digest, created_at)
        VALUES (gen_random_uuid(), p_tenant, v.id, 'arguments', p_arguments, p->>'arguments_digest', v_now);
    END IF;
    IF v.status = 'authorized' THEN
        PERFORM toolsys_emit_two(v, 'tool.call.proposed', 'proposed:' || v.id,
            'tool.call.authorized', 'authorized:' || v.id);
    ELSIF v.status = 'waiting_for_approval' THEN
        INSERT INTO approval_requests SELECT * FROM jsonb_populate_record(NULL::approval_requests,
            p->'approval' || jsonb_build_object('tenant_id', p_tenant, 'created_at', v_now, 'invocation_id', v.id,
                'run_id', v.run_id, 'status', 'pending', 'expires_at', least(v_run.deadline_at,
                    v_now + make_interval(secs => (p->'approval'->>'expires_seconds')::float))));
        PERFORM toolsys_emit_two(v, 'tool.call.proposed', 'proposed:' || v.id,
            'approval.requested', 'approval.requested:' || v.id);
        PERFORM toolsys_run_waits(p_tenant, v.run_id);
    ELSE
        PERFORM toolsys_emit_two(v, 'tool.call.proposed', 'proposed:' || v.id,
            'tool.call.' || v.status, 'settled:' || v.id);
        PERFORM toolsys_close_step(p_tenant, v.step_id);
        PERFORM toolsys_break_run(v);
    END IF;
    RETURN jsonb_build_object('id', v.id);
END $$;

-- Step 8 of a held call: consume the approval and persist the intent, together or not at all. The database's epoch stays
-- that of the first writing: a row of an older one counts as sent until it ends, whoever dies after this commit.
CREATE OR REPLACE FUNCTION toolsys_commit_approved_intent(p_tenant text, p jsonb)
RETURNS jsonb LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off AS $$
DECLARE
    v tool_invocations;
    v_now timestamptz := clock_timestamp();
BEGIN
    ASSERT set_config('toolsys.tenant_id', p_tenant, true) = p_tenant;
    PERFORM toolsys_lock_run_of(p_tenant, (p->>'id')::uuid);
    SELECT * INTO v FROM tool_invocations WHERE tenant_id = p_tenant AND id = (p->>'id')::uuid FOR UPDATE;
    IF v.status <> 'waiting_for_approval' OR v.cancel_requested_at IS NOT NULL THEN
        RETURN jsonb_build_object('stale', 'status');
    END IF;
    UPDATE approval_requests SET status = 'consumed', consumed_at = v_now
    WHERE tenant_id = p_tenant AND invocation_id = v.id AND status = 'approved' AND digest = p->>'digest'
      AND consume_by > clock_timestamp() AND toolsys_seats_stand(p_tenant, seats, votes);
    IF NOT FOUND THEN
        RETURN jsonb_build_object('stale', 'approval');
    END IF;
    INSERT INTO policy_decisions SELECT * FROM jsonb_populate_record(NULL::policy_decisions,
        p->'decision' || jsonb_build_object('tenant_id', p_tenant, 'created_at', v_now));
    UPDATE tool_invocations SET status = 'authorized', authorized_at = v_now,
        policy_decision_id = (p->'decision'->>'id')::uuid,
        authz_epoch = (p->>'authz_epoch')::bigint,
        dispatch_after = v_now + make_interval(secs => (p->>'grace')::float),
        step_trace = step_trace || coalesce(p->'trace', '[]')
    WHERE tenant_id = p_tenant AND id = v.id RETURNING * INTO v;
    PERFORM toolsys_emit(v, 'tool.call.authorized', 'authorized:' || v.id);
    PERFORM toolsys_run_waits(p_tenant, v.run_id);
    RETURN jsonb_build_object('id', v.id);
END $$;

-- Step 9. The answer says why nothing was claimed: lost (another owns it), spent, capped, cancelled, early. A claim does
-- not make a row of an older database epoch younger: who claims it may die before saying that it counts as sent.
CREATE OR REPLACE FUNCTION toolsys_commit_claim(p_tenant text, p_id uuid, p_epoch int, p_worker text,
    p_lease float, p_authz_epoch bigint, p_deadline timestamptz, p_max_claims int, p_cap int, p_group_cap int,
    p_decision jsonb)
RETURNS jsonb LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off AS $$
DECLARE
    v tool_invocations;
    v_now timestamptz := clock_timestamp();
BEGIN
    ASSERT set_config('toolsys.tenant_id', p_tenant, true) = p_tenant;
    UPDATE tool_invocations i SET status = 'running', claim_epoch = i.claim_epoch + 1, claimed_by = p_worker,
        lease_expires_at = clock_timestamp() + make_interval(secs => p_lease),
        operation_deadline = least(p_deadline, clock_timestamp() + make_interval(secs => i.timeout_seconds)),
        started_at = coalesce(i.started_at, v_now), authz_epoch = p_authz_epoch, dispatch_after = NULL,
        policy_decision_id = coalesce((p_decision->>'id')::uuid, i.policy_decision_id)
    WHERE i.tenant_id = p_tenant AND i.id = p_id AND i.claim_epoch = p_epoch AND i.claim_epoch < p_max_claims
      AND i.suspended_kind IS NULL AND i.cancel_requested_at IS NULL
      AND (i.status = 'authorized' OR (i.status = 'running' AND i.lease_expires_at <= clock_timestamp()))
      -- A further attempt waits as long as it was asked to, however often somebody rings.
      AND (i.not_before IS NULL OR i.not_before <= clock_timestamp())
      AND p_cap > (SELECT count(*) FROM tool_invocations o
          WHERE o.tenant_id = p_tenant AND o.status = 'running' AND o.lease_expires_at > v_now)
      AND (i.parallel_group IS NULL OR p_group_cap > (SELECT count(*) FROM tool_invocations o
          WHERE o.tenant_id = p_tenant AND o.run_id = i.run_id AND o.step_number = i.step_number
            AND o.status = 'running' AND o.lease_expires_at > v_now))
    RETURNING i.* INTO v;
    IF NOT FOUND THEN
        RETURN jsonb_build_object('refused', toolsys_why_unclaimed(p_tenant, p_id, p_epoch, p_max_claims));
    END IF;
    -- Every evaluation is kept, also the one that found nothing changed (DESIGN §5).
    IF p_decision IS NOT NULL THEN
        INSERT INTO policy_decisions SELECT * FROM jsonb_populate_record(NULL::policy_decisions,
            p_decision || jsonb_build_object('tenant_id', p_tenant, 'created_at', v_now));
    END IF;
    PERFORM toolsys_emit(v, 'tool.call.started', 'started:' || v.id || ':' || v.claim_epoch);
    RETURN jsonb_build_object('epoch', v.claim_epoch, 'operation_deadline', v.operation_deadline,
        'remaining', extract(epoch FROM v.operation_deadline - v_now), 'effect_sent_at', v.effect_sent_at,
        'attempt_number', v.attempt_number);
END $$;

CREATE OR REPLACE FUNCTION toolsys_why_unclaimed(p_tenant text, p_id uuid, p_epoch int, p_max_claims int)
RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    v tool_invocations;
BEGIN
    SELECT * INTO v FROM tool_invocations WHERE tenant_id = p_tenant AND id = p_id FOR UPDATE;
    IF NOT FOUND OR v.claim_epoch <> p_epoch OR v.suspended_kind IS NOT NULL
        OR NOT (v.status = 'authorized' OR (v.status = 'running' AND v.lease_expires_at <= clock_timestamp())) THEN
        RETURN 'lost';
    ELSIF v.claim_epoch >= p_max_claims THEN
        RETURN 'spent';
    ELSIF v.cancel_requested_at IS NOT NULL THEN
        RETURN 'cancelled';
    ELSIF v.not_before > clock_timestamp() THEN
        RETURN 'early';
    END IF;
    UPDATE tool_invocations SET dispatch_after = clock_timestamp() + interval '1 second'
    WHERE tenant_id = p_tenant AND id = p_id;
    RETURN 'capped';
END $$;

-- The fence: nothing may leave the process before this has committed. Answers 'held', or what no longer matches.
CREATE OR REPLACE FUNCTION toolsys_commit_watermark(p_tenant text, p_id uuid, p_epoch int, p_authz_epoch bigint)
RETURNS text LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off AS $$
BEGIN
    ASSERT set_config('toolsys.tenant_id', p_tenant, true) = p_tenant;
    PERFORM toolsys_wait_for_changes(p_tenant);
    -- FOR SHARE: a switch or a cancellation that has returned is seen.
    PERFORM 1 FROM tenants WHERE id = p_tenant AND authz_epoch = p_authz_epoch FOR SHARE;
    IF NOT FOUND THEN
        RETURN 'authz_epoch';
    END IF;
    PERFORM 1 FROM runs r WHERE r.tenant_id = p_tenant AND r.cancel_requested_at IS NULL AND r.id = (
        SELECT i.run_id FROM tool_invocations i WHERE i.tenant_id = p_tenant AND i.id = p_id) FOR SHARE;
    IF NOT FOUND THEN
        RETURN 'cancelled';
    END IF;
    PERFORM 1 FROM tool_invocations WHERE tenant_id = p_tenant AND id = p_id AND cancel_requested_at IS NULL FOR UPDATE;
    IF NOT FOUND THEN
        RETURN 'cancelled';
    END IF;
    -- Last, when nothing is left to wait for: the application may not lock the platform's row.
    PERFORM 1 FROM platform_state WHERE is_execution_enabled;
    IF NOT FOUND THEN
        RETURN 'switch';
    END IF;
    UPDATE tool_invocations SET effect_sent_at = coalesce(effect_sent_at, clock_timestamp())
    WHERE tenant_id = p_tenant AND id = p_id AND claim_epoch = p_epoch AND status = 'running'
      AND lease_expires_at > clock_timestamp() AND operation_deadline > clock_timestamp();
    RETURN CASE WHEN FOUND THEN 'held' ELSE 'lost' END;
END $$;

-- The heartbeat: renews live leases only, until the operation deadline. What ends at the deadline is recorded after it:
-- a renewal reaches two seconds past it for that, or each timed-out call would meet a sweep of its own lease. A row that
-- somebody holds is passed over until the next beat: whoever cancels a run holds many, and would be met in a circle, and
-- one that is held for long must not cost the others their leases.
CREATE OR REPLACE FUNCTION toolsys_renew(p_tenant text, p_ids uuid[], p_epochs int[], p_lease float)
RETURNS SETOF uuid LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off AS $$
BEGIN
    ASSERT set_config('toolsys.tenant_id', p_tenant, true) = p_tenant;
    RETURN QUERY
    UPDATE tool_invocations n
    SET lease_expires_at = greatest(n.lease_expires_at, least(
        clock_timestamp() + make_interval(secs => p_lease), n.operation_deadline + interval '2 seconds'))
    FROM (SELECT i.id FROM unnest(p_ids, p_epochs) AS held(id, epoch)
        JOIN tool_invocations i ON i.tenant_id = p_tenant AND i.id = held.id
        WHERE i.claim_epoch = held.epoch AND i.status = 'running'
          AND i.lease_expires_at > clock_timestamp() AND i.operation_deadline > clock_timestamp()
        FOR NO KEY UPDATE OF i SKIP LOCKED) AS free
    WHERE n.tenant_id = p_tenant AND n.id = free.id
    RETURNING n.id;
END $$;

-- A worker gives back a claim: what it has not sent in this attempt (a lost fence, a drain), or what has failed in a way
-- that permits another attempt, which it then counts. A watermark of an earlier attempt stays.
CREATE OR REPLACE FUNCTION toolsys_commit_release(p_tenant text, p_id uuid, p_epoch int, p_wait float,
    p_attempt int, p_error jsonb, p_trace jsonb)
RETURNS boolean LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off AS $$
BEGIN
    ASSERT set_config('toolsys.tenant_id', p_tenant, true) = p_tenant;
    UPDATE tool_invocations SET status = 'authorized', claimed_by = NULL, lease_expires_at = NULL,
        operation_deadline = NULL, dispatch_after = clock_timestamp() + make_interval(secs => p_wait),
        not_before = clock_timestamp() + make_interval(secs => p_wait),
        attempt_number = p_attempt, error = p_error, step_trace = step_trace || p_trace
    WHERE tenant_id = p_tenant AND id = p_id AND claim_epoch = p_epoch AND status = 'running';
    RETURN FOUND;
END $$;

-- Step 13 and every other ending of a row that exists: compare-and-set on status and epoch, row and event together.
-- Who does not hold the claim may end a running row only when its lease has passed.
CREATE OR REPLACE FUNCTION toolsys_commit_settlement(p_tenant text, p jsonb, p_result bytea)
RETURNS boolean LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off AS $$
DECLARE
    v tool_invocations;
    v_now timestamptz;
    v_approval text;
BEGIN
    ASSERT set_config('toolsys.tenant_id', p_tenant, true) = p_tenant;
    -- Where the run or the approval changes too.
    IF p->>'from' = 'waiting_for_approval' OR (p->>'lowers_trust')::boolean OR p ? 'evidence'
        OR p->>'reason_code' = 'tool.policy_denied' THEN
        PERFORM toolsys_lock_run_of(p_tenant, (p->>'id')::uuid);
    END IF;
    UPDATE tool_invocations SET status = p->>'status', outcome_status = p->>'outcome_status',
        reason_code = p->>'reason_code', result = p->'result', error = p->'error',
        output_bytes = (p->>'output_bytes')::bigint, truncated = coalesce((p->>'truncated')::boolean, false),
        artifact_id = (p->>'artifact_id')::uuid, output_trust = p->>'output_trust', completed_at = clock_timestamp(),
        evidence_digest = p->>'evidence',
        policy_decision_id = coalesce((p->'decision'->>'id')::uuid, policy_decision_id),
        lease_expires_at = NULL, dispatch_after = NULL, step_trace = step_trace || coalesce(p->'trace', '[]')
    WHERE tenant_id = p_tenant AND id = (p->>'id')::uuid AND claim_epoch = (p->>'epoch')::int
      AND status = p->>'from'
      AND (status <> 'running' OR (p->>'holds_claim')::boolean OR lease_expires_at <= clock_timestamp())
    RETURNING * INTO v;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    v_now := v.completed_at;
    IF p ? 'decision' THEN
        INSERT INTO policy_decisions SELECT * FROM jsonb_populate_record(NULL::policy_decisions,
            p->'decision' || jsonb_build_object('tenant_id', p_tenant, 'created_at', v_now));
    END IF;
    IF p_result IS NOT NULL THEN
        INSERT INTO invocation_payloads (id, tenant_id, invocation_id, kind, sealed, digest, created_at)
        VALUES (gen_random_uuid(), p_tenant, v.id, 'result', p_result, p->>'result_digest', v_now);
    END IF;
    IF v.artifact_id IS NOT NULL THEN
        UPDATE artifacts SET adopted_at = v_now WHERE tenant_id = p_tenant AND invocation_id = v.id
            AND claim_epoch = v.claim_epoch;
    END IF;
    IF p->>'from' = 'waiting_for_approval' THEN
        UPDATE approval_requests SET status = CASE
                WHEN status = 'pending' AND expires_at <= v_now THEN 'expired'
                WHEN status IN ('pending', 'approved') THEN 'voided' ELSE status END,
            decided_at = coalesce(decided_at, v_now)
        WHERE tenant_id = p_tenant AND invocation_id = v.id AND status IN ('pending', 'approved')
        RETURNING status INTO v_approval;
        IF FOUND THEN
            PERFORM toolsys_emit(v, 'approval.' || v_approval, 'approval.ended:' || v.id);
        END IF;
        PERFORM toolsys_run_waits(p_tenant, v.run_id);
    END IF;
    IF v.evidence_digest IS NOT NULL AND v.identical_count > 1 THEN
        PERFORM toolsys_restart_count(v);
    END IF;
    -- Delivered trust only ever falls: who read it as low already need not lower it again.
    IF (p->>'lowers_trust')::boolean THEN
        UPDATE runs SET delivered_trust = v.output_trust WHERE tenant_id = p_tenant AND id = v.run_id
            AND delivered_trust <> toolsys_lower_trust(delivered_trust, v.output_trust);
    END IF;
    PERFORM toolsys_emit(v, CASE v.status WHEN 'succeeded' THEN 'tool.call.completed'
        ELSE 'tool.call.' || v.status END, 'settled:' || v.id);
    PERFORM toolsys_close_step(p_tenant, v.step_id);
    PERFORM toolsys_break_run(v);
    RETURN true;
END $$;

-- New evidence: the result shows something else than the identical call before it. 32 restarts a run at most.
CREATE OR REPLACE FUNCTION toolsys_restart_count(i tool_invocations) RETURNS void LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off AS $$
DECLARE
    v_last text;
BEGIN
    SELECT n.evidence_digest INTO v_last FROM tool_invocations n
    WHERE n.tenant_id = i.tenant_id AND n.run_id = i.run_id AND n.tool_name = i.tool_name AND n.id < i.id
      AND n.normalized_arguments_hash = i.normalized_arguments_hash AND n.evidence_digest IS NOT NULL
    ORDER BY n.id DESC LIMIT 1;
    IF v_last IS NULL OR v_last = i.evidence_digest THEN
        RETURN;
    END IF;
    UPDATE runs SET evidence_restarts = evidence_restarts + 1
    WHERE tenant_id = i.tenant_id AND id = i.run_id AND evidence_restarts < 32;
    IF FOUND THEN
        UPDATE tool_invocations SET identical_count = 1 WHERE tenant_id = i.tenant_id AND id = i.id;
    END IF;
END $$;

-- A write ran and its result cannot be stored: the run fails, and recovery ends the marked call as uncertain.
CREATE OR REPLACE FUNCTION toolsys_commit_unrecorded(p_tenant text, p_id uuid, p_epoch int)
RETURNS boolean LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off AS $$
DECLARE
    v_run uuid;
BEGIN
    ASSERT set_config('toolsys.tenant_id', p_tenant, true) = p_tenant;
    PERFORM toolsys_lock_run_of(p_tenant, p_id);
    UPDATE tool_invocations SET unrecorded_at = clock_timestamp()
    WHERE tenant_id = p_tenant AND id = p_id AND claim_epoch = p_epoch AND status = 'running'
    RETURNING run_id INTO v_run;
    IF v_run IS NULL THEN
        RETURN false;
    END IF;
    PERFORM toolsys_fail_run(p_tenant, v_run, 'audit.persistence_failed');
    RETURN true;
END $$;
