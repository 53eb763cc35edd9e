-- What follows from a decision that has just been written: how long an approval stays usable, that the sweeper finds
-- the call if the ring is lost, and the event. Runs in the decision's own transaction.
CREATE OR REPLACE FUNCTION toolsys_record_decision(p_tenant text, p_request uuid) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    r approval_requests;
    v tool_invocations;
BEGIN
    UPDATE approval_requests SET consume_by = clock_timestamp() + make_interval(secs => consume_seconds)
    WHERE tenant_id = p_tenant AND id = p_request RETURNING * INTO r;
    UPDATE tool_invocations SET dispatch_after = clock_timestamp()
    WHERE tenant_id = p_tenant AND id = r.invocation_id RETURNING * INTO v;
    PERFORM toolsys_emit(v, 'approval.' || r.status, 'approval.decided:' || r.id);
END $$;
