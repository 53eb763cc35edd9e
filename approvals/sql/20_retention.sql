-- What the outbox no longer keeps: messages that were delivered or given up, with their attempts, oldest first. `due_at`
-- is when a message was last to be sent, by schedule or by hand. Sees every tenant, and returns a number only; never
-- takes what is younger than a day, whoever asks. A row that somebody sends again at this moment is passed over. The
-- time is the statement's, which an index can be searched by; `clock_timestamp` would be asked of every row.

CREATE OR REPLACE FUNCTION approvals_forget_deliveries(p_seconds float, p_limit int)
RETURNS bigint LANGUAGE sql SECURITY DEFINER
SET search_path = pg_catalog, public AS $$
    WITH over AS (
        SELECT d.tenant_id, d.id FROM public.notification_deliveries d
        WHERE d.status IN ('delivered', 'failed')
          AND d.due_at < statement_timestamp() - make_interval(secs => greatest(p_seconds, 86400))
        ORDER BY d.due_at LIMIT p_limit FOR UPDATE SKIP LOCKED),
    attempts AS (
        DELETE FROM public.notification_attempts a USING over
        WHERE a.tenant_id = over.tenant_id AND a.delivery_id = over.id),
    gone AS (
        DELETE FROM public.notification_deliveries d USING over
        WHERE d.tenant_id = over.tenant_id AND d.id = over.id RETURNING 1)
    SELECT count(*) FROM gone
$$;

ALTER FUNCTION approvals_forget_deliveries(float, int) OWNER TO toolsys_definer;
REVOKE ALL ON FUNCTION approvals_forget_deliveries(float, int) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION approvals_forget_deliveries(float, int) TO toolsys_app;
