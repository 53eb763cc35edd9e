-- Standing grants on the call path: which may be used, and taking one use together with the intent. A use that was taken
-- for a call counts for it until the grant is revoked or runs out.

-- Lock a grant and say whether a new call may use it. Held until the intent has committed: two calls do not both take
-- the last use.
CREATE OR REPLACE FUNCTION toolsys_lock_grant(p_tenant text, p_grant uuid) RETURNS boolean LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off AS $$
DECLARE
    g standing_grants;
BEGIN
    SELECT * INTO g FROM standing_grants WHERE tenant_id = p_tenant AND id = p_grant FOR NO KEY UPDATE;
    RETURN FOUND AND g.uses < g.maximum_uses AND toolsys_grant_stands(g);
END $$;

-- Confirmed, not revoked, in its time, and by people who are still entitled to.
CREATE OR REPLACE FUNCTION toolsys_grant_stands(g standing_grants) RETURNS boolean LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN g.activated_at IS NOT NULL AND g.revoked_at IS NULL AND g.expires_at > clock_timestamp()
        AND toolsys_seats_stand(g.tenant_id, g.seats, g.confirmations);
END $$;

CREATE OR REPLACE FUNCTION toolsys_use_grant(p_tenant text, p_grant uuid, p_invocation uuid) RETURNS void
LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan SET enable_seqscan = off AS $$
BEGIN
    UPDATE standing_grants SET uses = uses + 1 WHERE tenant_id = p_tenant AND id = p_grant;
    INSERT INTO grant_uses (id, tenant_id, grant_id, invocation_id, created_at)
    VALUES (gen_random_uuid(), p_tenant, p_grant, p_invocation, clock_timestamp());
END $$;

-- Of these grants, those that a new call may use; for a call that exists, the one that it has used, while that stands.
CREATE OR REPLACE FUNCTION toolsys_usable_grants(p_tenant text, p_grants uuid[], p_invocation uuid)
RETURNS SETOF uuid LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off AS $$
BEGIN
    ASSERT set_config('toolsys.tenant_id', p_tenant, true) = p_tenant;
    RETURN QUERY
    SELECT g.id FROM standing_grants g
    WHERE g.tenant_id = p_tenant AND g.id = ANY (p_grants) AND toolsys_grant_stands(g)
      AND CASE WHEN p_invocation IS NULL THEN g.uses < g.maximum_uses ELSE EXISTS (
          SELECT 1 FROM grant_uses u WHERE u.tenant_id = p_tenant AND u.invocation_id = p_invocation
            AND u.grant_id = g.id) END;
END $$;

-- A grant's words are bound under a key; its count cannot be, since it rises with every use. So it never falls.
CREATE OR REPLACE FUNCTION toolsys_refuse_fewer_uses() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'the uses of a grant only rise' USING ERRCODE = 'insufficient_privilege';
END $$;
