-- What must look before a tenant is known: narrow, owned by a NOLOGIN role, returning ids only.
-- FORCE filters the owner too, so each table has an explicit policy for the definer role.

-- An API key by its prefix and the digest of its secret.
CREATE OR REPLACE FUNCTION toolsys_find_api_key(p_prefix text, p_sha256 text)
RETURNS TABLE (tenant_id text, api_key_id uuid) LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, public AS $$
    SELECT k.tenant_id, k.id FROM public.api_keys k
    WHERE k.prefix = p_prefix AND k.secret_sha256 = p_sha256 AND k.revoked_at IS NULL
      AND (k.expires_at IS NULL OR k.expires_at > clock_timestamp())
$$;

-- The tenants of a person who has just logged in.
CREATE OR REPLACE FUNCTION toolsys_find_memberships(p_user bigint)
RETURNS TABLE (tenant_id text, role text) LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, public AS $$
    SELECT m.tenant_id, m.role FROM public.memberships m WHERE m.user_id = p_user ORDER BY 1, 2
$$;

-- The sweeper's questions. It decides nothing: it names what a worker should look at again.
-- The wait before a row is named again grows with the time that it has been due, from the grace to a minute. Not with
-- its age: what people took an hour to decide is then found as fast as what is new.
CREATE OR REPLACE FUNCTION toolsys_sweep(p_limit int, p_grace float)
RETURNS TABLE (kind text, tenant_id text, id uuid, epoch int) LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, public AS $$
BEGIN
    RETURN QUERY
    -- A claim clears `dispatch_after`: a lease that has passed is named at once, at each of the next few sweeps (whoever
    -- was rung for may die before it claims), and then less and less often.
    WITH due AS (
        SELECT i.id, i.lease_expires_at AS since FROM public.tool_invocations i
        WHERE i.status = 'running' AND i.lease_expires_at <= clock_timestamp() AND i.suspended_kind IS NULL
          AND (i.dispatch_after IS NULL OR i.dispatch_after <= clock_timestamp())
        ORDER BY i.lease_expires_at LIMIT p_limit FOR UPDATE OF i SKIP LOCKED)
    UPDATE public.tool_invocations i SET dispatch_after = clock_timestamp() + make_interval(
        secs => least(60, greatest(p_grace / 2, extract(epoch FROM clock_timestamp() - due.since) / 8)))
    FROM due WHERE i.id = due.id
    RETURNING 'lease'::text, i.tenant_id, i.id, i.claim_epoch;

    RETURN QUERY
    WITH due AS (
        SELECT i.id, CASE i.status WHEN 'authorized' THEN i.authorized_at
            ELSE coalesce(i.cancel_requested_at, a.decided_at, a.expires_at) END AS since
        FROM public.tool_invocations i
        LEFT JOIN public.approval_requests a ON a.tenant_id = i.tenant_id AND a.invocation_id = i.id
        WHERE i.dispatch_after <= clock_timestamp() AND (i.status = 'authorized' OR (
            i.status = 'waiting_for_approval' AND (a.status <> 'pending' OR a.expires_at <= clock_timestamp()
                OR i.cancel_requested_at IS NOT NULL)))
        ORDER BY i.dispatch_after LIMIT p_limit FOR UPDATE OF i SKIP LOCKED)
    UPDATE public.tool_invocations i SET dispatch_after = clock_timestamp() + make_interval(
        secs => least(60, greatest(p_grace, extract(epoch FROM clock_timestamp() - due.since) / 2)))
    FROM due WHERE i.id = due.id
    RETURNING 'dispatch'::text, i.tenant_id, i.id, i.claim_epoch;

    -- A step with a call missing is due since its last call ended. It is named at once, and each time that it is not
    -- gone on with later and later, as a lost call is: what ends another call of it meanwhile begins the wait anew.
    RETURN QUERY
    WITH due AS (
        SELECT s.id FROM public.run_steps s
        CROSS JOIN LATERAL (
            SELECT coalesce(max(i.completed_at), s.created_at) AS since, count(*) - count(i.completed_at) AS open
            FROM public.tool_invocations i
            WHERE i.tenant_id = s.tenant_id AND i.run_id = s.run_id AND i.step_number = s.step_number) c
        WHERE s.completed_at IS NULL AND c.open = 0
          AND c.since <= clock_timestamp() - make_interval(secs => p_grace)
          AND (s.rung_at IS NULL OR s.rung_at <= clock_timestamp() - make_interval(
              secs => least(60, greatest(p_grace / 2, extract(epoch FROM s.rung_at - c.since) / 8))))
        ORDER BY s.rung_at NULLS FIRST, s.created_at LIMIT p_limit FOR UPDATE OF s SKIP LOCKED)
    UPDATE public.run_steps s SET rung_at = clock_timestamp() FROM due WHERE s.id = due.id
    RETURNING 'step'::text, s.tenant_id, s.id, 0;
END $$;

-- When the next lease ends, in seconds; null where nothing runs. A sweep at that moment finds a dead worker's call as
-- early as it may be found. Living workers renew long before, so that it costs a few sweeps a lease.
CREATE OR REPLACE FUNCTION toolsys_next_lease_end() RETURNS float LANGUAGE sql SECURITY DEFINER
SET search_path = pg_catalog, public AS $$
    SELECT extract(epoch FROM min(i.lease_expires_at) - clock_timestamp())::float FROM public.tool_invocations i
    WHERE i.status = 'running' AND i.lease_expires_at > clock_timestamp()
$$;

ALTER FUNCTION toolsys_find_api_key(text, text) OWNER TO toolsys_definer;
ALTER FUNCTION toolsys_find_memberships(bigint) OWNER TO toolsys_definer;
ALTER FUNCTION toolsys_sweep(int, float) OWNER TO toolsys_definer;
ALTER FUNCTION toolsys_next_lease_end() OWNER TO toolsys_definer;
REVOKE ALL ON FUNCTION toolsys_find_api_key(text, text), toolsys_find_memberships(bigint), toolsys_sweep(int, float),
    toolsys_next_lease_end() FROM PUBLIC;
GRANT EXECUTE ON FUNCTION toolsys_find_api_key(text, text), toolsys_find_memberships(bigint), toolsys_sweep(int, float),
    toolsys_next_lease_end() TO toolsys_app, toolsys_operator;
