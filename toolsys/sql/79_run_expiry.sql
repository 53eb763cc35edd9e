-- Runs whose deadline has passed and that nobody ended: their status says so, once every step of them has ended, which is
-- when its calls have. What they refuse, they refuse from their deadline on; this is for who reads them. Sees every tenant,
-- and returns a number only. Who has locked a run at this moment keeps it for the next time.
CREATE OR REPLACE FUNCTION toolsys_expire_runs(p_limit int)
RETURNS bigint LANGUAGE sql SECURITY DEFINER
SET search_path = pg_catalog, public AS $$
    WITH over AS (
        SELECT r.tenant_id, r.id FROM public.runs r
        WHERE r.deadline_at <= statement_timestamp() AND r.ended_at IS NULL
          AND r.status IN ('running', 'waiting_for_approval', 'waiting_for_user', 'waiting_for_child')
          AND NOT EXISTS (SELECT 1 FROM public.run_steps s
            WHERE s.tenant_id = r.tenant_id AND s.run_id = r.id AND s.completed_at IS NULL)
        ORDER BY r.deadline_at LIMIT p_limit FOR UPDATE OF r SKIP LOCKED),
    ended AS (
        UPDATE public.runs r SET status = 'expired', ended_at = r.deadline_at FROM over
        WHERE r.tenant_id = over.tenant_id AND r.id = over.id RETURNING 1)
    SELECT count(*) FROM ended
$$;

ALTER FUNCTION toolsys_expire_runs(int) OWNER TO toolsys_definer;
REVOKE ALL ON FUNCTION toolsys_expire_runs(int) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION toolsys_expire_runs(int) TO toolsys_app;
