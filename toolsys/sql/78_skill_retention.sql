-- Versions of skills that were withdrawn long ago, oldest first. Sees every tenant, and returns a number only; never takes
-- what was withdrawn less than a day ago, whoever asks. One that is offered again at this moment is locked by whoever
-- records that, and is passed over.

CREATE OR REPLACE FUNCTION toolsys_forget_skills(p_seconds float, p_limit int)
RETURNS bigint LANGUAGE sql SECURITY DEFINER
SET search_path = pg_catalog, public AS $$
    WITH over AS (
        SELECT k.tenant_id, k.id FROM public.skills k
        WHERE k.withdrawn_at < statement_timestamp() - make_interval(secs => greatest(p_seconds, 86400))
        ORDER BY k.withdrawn_at LIMIT p_limit FOR UPDATE SKIP LOCKED),
    gone AS (
        DELETE FROM public.skills k USING over WHERE k.tenant_id = over.tenant_id AND k.id = over.id RETURNING 1)
    SELECT count(*) FROM gone
$$;

ALTER FUNCTION toolsys_forget_skills(float, int) OWNER TO toolsys_definer;
REVOKE ALL ON FUNCTION toolsys_forget_skills(float, int) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION toolsys_forget_skills(float, int) TO toolsys_app;
