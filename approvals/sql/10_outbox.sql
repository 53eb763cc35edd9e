-- The outbox: a message for each endpoint that wants to hear of an event, in the transaction that wrote the event.

CREATE OR REPLACE FUNCTION approvals_fan_out() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO notification_deliveries (id, tenant_id, created_at, endpoint_id, event_id, event_type, run_id,
        invocation_id, status, attempts, attempts_before, due_at, outcome)
    SELECT gen_random_uuid(), NEW.tenant_id, NEW.created_at, e.id, NEW.id, NEW.type, NEW.run_id, NEW.invocation_id,
        'pending', 0, 0, clock_timestamp(), ''
    FROM notification_endpoints e
    WHERE e.tenant_id = NEW.tenant_id AND e.is_enabled AND e.types ? NEW.type
    ON CONFLICT (tenant_id, endpoint_id, event_id) DO NOTHING;
    RETURN NULL;
END $$;

-- What the courier should try now: of each endpoint the message that has waited longest, so that a slow receiver keeps
-- nobody else waiting, however many messages wait for it. Steps from one endpoint with something to send to the next
-- through the index, and reads one message of each. The time is the statement's, which an index can be searched by.
CREATE OR REPLACE FUNCTION approvals_due_deliveries(p_limit int)
RETURNS TABLE (tenant_id text, id uuid, endpoint_id uuid) LANGUAGE sql SECURITY DEFINER
SET search_path = pg_catalog, public AS $$
    WITH RECURSIVE waiting AS (
        (SELECT d.tenant_id, d.endpoint_id FROM public.notification_deliveries d
         WHERE d.status = 'pending' ORDER BY d.tenant_id, d.endpoint_id LIMIT 1)
        UNION ALL
        SELECT next.tenant_id, next.endpoint_id FROM waiting w CROSS JOIN LATERAL (
            SELECT d.tenant_id, d.endpoint_id FROM public.notification_deliveries d
            WHERE d.status = 'pending' AND (d.tenant_id, d.endpoint_id) > (w.tenant_id, w.endpoint_id)
            ORDER BY d.tenant_id, d.endpoint_id LIMIT 1) next)
    SELECT w.tenant_id, first.id, w.endpoint_id FROM waiting w
    JOIN public.notification_endpoints e ON e.tenant_id = w.tenant_id AND e.id = w.endpoint_id AND e.is_enabled
    CROSS JOIN LATERAL (
        SELECT d.id, d.due_at FROM public.notification_deliveries d
        WHERE d.tenant_id = w.tenant_id AND d.endpoint_id = w.endpoint_id AND d.status = 'pending'
          AND d.due_at <= statement_timestamp()
          AND (d.leased_until IS NULL OR d.leased_until <= statement_timestamp())
        ORDER BY d.due_at LIMIT 1) first
    ORDER BY first.due_at LIMIT p_limit
$$;

-- Every live version of a webhook's secret, the newest first: while a rotation is under way, messages carry two
-- signatures. Sees the tenant of the transaction and no other, and no other kind of credential.
CREATE OR REPLACE FUNCTION approvals_take_webhook_secrets(p_name text)
RETURNS TABLE (id uuid, sealed bytea) LANGUAGE sql SECURITY DEFINER
SET search_path = pg_catalog, public AS $$
    SELECT v.id, v.sealed FROM public.credentials c
    JOIN public.credential_versions v ON v.tenant_id = c.tenant_id AND v.credential_id = c.id
    WHERE c.tenant_id = nullif(current_setting('toolsys.tenant_id', true), '') AND c.name = p_name
      AND c.name LIKE 'webhook-%' AND c.retired_at IS NULL AND v.retired_at IS NULL AND v.sealed IS NOT NULL
    ORDER BY v.version DESC LIMIT 2
$$;

ALTER FUNCTION approvals_due_deliveries(int) OWNER TO toolsys_definer;
ALTER FUNCTION approvals_take_webhook_secrets(text) OWNER TO toolsys_definer;
REVOKE ALL ON FUNCTION approvals_due_deliveries(int), approvals_take_webhook_secrets(text) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION approvals_due_deliveries(int), approvals_take_webhook_secrets(text) TO toolsys_app;
