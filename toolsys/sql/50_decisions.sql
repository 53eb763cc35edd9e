-- Decisions about held calls, and who stands behind them. Votes are the business of `approvals`; what they add up to is
-- recorded here, in the transaction that holds the request's lock.

-- The seats of those who approved and are still entitled to: active, and in the role of their seat. `votes` is a list of
-- {user, seat}; the role of a seat is its name with `_approver`.
CREATE OR REPLACE FUNCTION toolsys_seats_held(p_tenant text, p_votes jsonb) RETURNS jsonb LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN (SELECT coalesce(jsonb_agg(v->>'seat'), '[]') FROM jsonb_array_elements(p_votes) AS v
        WHERE EXISTS (SELECT 1 FROM memberships m JOIN auth_user u ON u.id = m.user_id
            WHERE m.tenant_id = p_tenant AND m.user_id = (v->>'user')::bigint AND u.is_active
              AND m.role = (v->>'seat') || '_approver'));
END $$;

-- Whether every seat that was asked for is still held.
CREATE OR REPLACE FUNCTION toolsys_seats_stand(p_tenant text, p_seats jsonb, p_votes jsonb)
RETURNS boolean LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN jsonb_array_length(toolsys_seats_held(p_tenant, p_votes)) >= jsonb_array_length(p_seats);
END $$;

-- The commit point of a decision: approved, rejected, or an approval taken back before its use. Compare-and-set on the
-- state that the votes were counted in; how long an approval stays usable, that the sweeper finds the call if the ring
-- is lost, and the event are one statement with it. Answers the claim epoch to ring with, or null: not in that state.
CREATE OR REPLACE FUNCTION toolsys_commit_decision(p_tenant text, p_request uuid, p jsonb)
RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
    r approval_requests;
    v tool_invocations;
    v_now timestamptz := clock_timestamp();
BEGIN
    ASSERT set_config('toolsys.tenant_id', p_tenant, true) = p_tenant;
    UPDATE approval_requests SET status = p->>'status', votes = p->'votes', decided_by_id = (p->>'user')::bigint,
        decided_at = v_now, rejection_code = p->>'rejection_code',
        consume_by = v_now + make_interval(secs => consume_seconds)
    WHERE tenant_id = p_tenant AND id = p_request AND status = p->>'from'
      AND (status <> 'pending' OR expires_at > v_now)
    RETURNING * INTO r;
    IF NOT FOUND THEN
        RETURN NULL;
    END IF;
    UPDATE tool_invocations SET dispatch_after = v_now
    WHERE tenant_id = p_tenant AND id = r.invocation_id RETURNING * INTO v;
    PERFORM toolsys_emit(v, 'approval.' || r.status, 'approval.' || r.status || ':' || r.id);
    RETURN jsonb_build_object('epoch', v.claim_epoch);
END $$;
