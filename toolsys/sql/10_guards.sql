-- Guards that tables hang on: append-only triggers, and the order of trust labels.

CREATE OR REPLACE FUNCTION toolsys_refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION '% is append-only', TG_TABLE_NAME USING ERRCODE = 'insufficient_privilege';
END $$;

-- The less trusted of two labels; the order is that of toolsys.domain.trust.TrustLevel.
CREATE OR REPLACE FUNCTION toolsys_lower_trust(a text, b text) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE WHEN coalesce(array_position(labels, a), 5) >= coalesce(array_position(labels, b), 5) THEN a ELSE b END
    FROM (SELECT ARRAY['platform', 'trusted_configuration', 'user', 'internal_tool', 'external_untrusted']) AS o(labels)
$$;

-- TS "Events and telemetry": identity and classification, never arguments, results or text from outside.
-- plpgsql keeps its plans for the connection; a plain SQL function would be planned at every call.
CREATE OR REPLACE FUNCTION toolsys_event(i tool_invocations) RETURNS jsonb LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN jsonb_build_object(
        'invocation_id', i.id, 'run_id', i.run_id, 'step_number', i.step_number, 'call_id', i.call_id,
        'tool_name', i.tool_name, 'tool_source', i.tool_source, 'tool_version', i.tool_version,
        'outcome_status', i.outcome_status, 'reason_code', i.reason_code, 'idempotency_class', i.idempotency_class,
        'effect_sent', i.effect_sent_at IS NOT NULL,
        'duration_ms', round(extract(epoch FROM i.completed_at - coalesce(i.started_at, i.created_at)) * 1000),
        'output_bytes', i.output_bytes, 'truncated', i.truncated, 'parallel_group', i.parallel_group);
END $$;

CREATE OR REPLACE FUNCTION toolsys_emit(i tool_invocations, p_type text, p_derivation text) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO tool_events (tenant_id, type, run_id, invocation_id, payload, derivation_key, created_at)
    VALUES (i.tenant_id, p_type, i.run_id, i.id, toolsys_event(i), p_derivation, clock_timestamp())
    ON CONFLICT (tenant_id, derivation_key) DO NOTHING;
END $$;

-- A first commit has two things to say; one statement says them in order.
CREATE OR REPLACE FUNCTION toolsys_emit_two(i tool_invocations, p_first text, p_first_key text,
    p_second text, p_second_key text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    v_payload jsonb := toolsys_event(i);
    v_now timestamptz := clock_timestamp();
BEGIN
    INSERT INTO tool_events (tenant_id, type, run_id, invocation_id, payload, derivation_key, created_at)
    VALUES (i.tenant_id, p_first, i.run_id, i.id, v_payload, p_first_key, v_now),
           (i.tenant_id, p_second, i.run_id, i.id, v_payload, p_second_key, v_now)
    ON CONFLICT (tenant_id, derivation_key) DO NOTHING;
END $$;

-- A step ends when every call has a terminal row. The lock makes the count of a parallel group exact.
CREATE OR REPLACE FUNCTION toolsys_close_step(p_tenant text, p_step uuid) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    v run_steps;
BEGIN
    UPDATE run_steps SET completed_at = clock_timestamp()
    WHERE tenant_id = p_tenant AND id = p_step AND call_count = 1 AND completed_at IS NULL;
    IF FOUND THEN
        RETURN;
    END IF;
    SELECT * INTO v FROM run_steps WHERE tenant_id = p_tenant AND id = p_step FOR UPDATE;
    UPDATE run_steps SET completed_at = clock_timestamp()
    WHERE tenant_id = p_tenant AND id = p_step AND completed_at IS NULL AND v.call_count = (
        SELECT count(*) FROM tool_invocations i
        WHERE i.tenant_id = p_tenant AND i.run_id = v.run_id AND i.step_number = v.step_number
          AND i.status IN ('succeeded', 'failed', 'denied', 'uncertain'));
END $$;

-- A run waits for approval while any of its calls is held.
CREATE OR REPLACE FUNCTION toolsys_run_waits(p_tenant text, p_run uuid) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    v_status text;
BEGIN
    v_status := CASE WHEN EXISTS (
        SELECT 1 FROM tool_invocations
        WHERE tenant_id = p_tenant AND run_id = p_run AND status = 'waiting_for_approval')
        THEN 'waiting_for_approval' ELSE 'running' END;
    UPDATE runs SET status = v_status
    WHERE tenant_id = p_tenant AND id = p_run AND status IN ('running', 'waiting_for_approval')
      AND status <> v_status;
END $$;

CREATE OR REPLACE FUNCTION toolsys_fail_run(p_tenant text, p_run uuid, p_reason text) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    UPDATE runs SET status = 'failed', failure_reason_code = p_reason, ended_at = clock_timestamp()
    WHERE tenant_id = p_tenant AND id = p_run AND status NOT IN ('completed', 'failed', 'cancelled', 'expired');
END $$;

-- The third identical denial fails its run: toolsys.domain.repetition says which one that is.
CREATE OR REPLACE FUNCTION toolsys_break_run(i tool_invocations) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF i.reason_code = 'tool.policy_denied' THEN
        PERFORM toolsys_fail_run(i.tenant_id, i.run_id, i.reason_code);
    END IF;
END $$;

-- A row that one transaction after the other shares is never free for who would change it: under load a switch would wait
-- for ever. Who finds the tenant's row taken says so by a lock that keeps its order of arrival, and whoever would share
-- the row at a watermark stands behind that. Who has the row already says nothing: two who wait hold nothing of each
-- other's.
CREATE OR REPLACE FUNCTION toolsys_lock_tenant(p_tenant text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM 1 FROM public.tenants WHERE id = p_tenant FOR NO KEY UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
        PERFORM pg_advisory_xact_lock(1952542305, hashtext(p_tenant));
        PERFORM 1 FROM public.tenants WHERE id = p_tenant FOR NO KEY UPDATE;
    END IF;
END $$;

-- The watermark's side: stand behind every change that waits, of this tenant or of all, and keep no lock of it: the block
-- is rolled back, and its locks with it, whatever ends it.
CREATE OR REPLACE FUNCTION toolsys_wait_for_changes(p_tenant text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_advisory_xact_lock_shared(1952542305, 0);
    PERFORM pg_advisory_xact_lock_shared(1952542305, hashtext(p_tenant));
    RAISE EXCEPTION USING ERRCODE = 'TS000', MESSAGE = 'the locks are given back';
EXCEPTION
    WHEN SQLSTATE 'TS000' THEN RETURN;
END $$;

-- Whatever a verdict depends on raises its tenant's authorization epoch in the same transaction. A trigger, because a
-- forgotten bump would be a decision on stale facts.
CREATE OR REPLACE FUNCTION toolsys_raise_authz_epoch() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM toolsys_lock_tenant(coalesce(NEW.tenant_id, OLD.tenant_id));
    UPDATE tenants SET authz_epoch = authz_epoch + 1 WHERE id = coalesce(NEW.tenant_id, OLD.tenant_id);
    RETURN NULL;
END $$;

-- On the tenant itself, the switches raise it.
CREATE OR REPLACE FUNCTION toolsys_raise_own_epoch() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    NEW.authz_epoch := greatest(NEW.authz_epoch, OLD.authz_epoch + 1);
    RETURN NEW;
END $$;

-- The platform's switch raises every tenant's: it waits for each watermark that has passed its tenant's row and not
-- committed, so that nothing passes one after the switch has returned. Row-level security shows all tenants to operators
-- only; whoever else could write the platform's row must not believe that the switch was thrown. Who changes several
-- tenants locks them in the order of their ids, or two of them would wait in a circle.
CREATE OR REPLACE FUNCTION toolsys_raise_every_epoch() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NOT pg_has_role(current_user, 'toolsys_operator', 'MEMBER') THEN
        RAISE EXCEPTION 'the platform switch is thrown by operators' USING ERRCODE = 'insufficient_privilege';
    END IF;
    PERFORM pg_advisory_xact_lock(1952542305, 0);
    PERFORM 1 FROM tenants ORDER BY id FOR NO KEY UPDATE;
    UPDATE tenants SET authz_epoch = authz_epoch + 1;
    RETURN NULL;
END $$;
