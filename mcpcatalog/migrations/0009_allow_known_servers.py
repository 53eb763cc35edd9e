"""What was configured before tenants had allowlists stays reachable: its origins are allowed, once."""

from django.db import migrations

# The owner is subject to row-level security like everybody.
ALLOW = """
ALTER TABLE mcp_servers NO FORCE ROW LEVEL SECURITY;
ALTER TABLE egress_allowances NO FORCE ROW LEVEL SECURITY;
INSERT INTO egress_allowances (id, tenant_id, origin, note)
SELECT gen_random_uuid(), tenant_id, origin, 'configured before there was an allowlist' FROM (
    SELECT DISTINCT tenant_id, CASE WHEN authority ~ ':[0-9]+$' THEN scheme || '://' || authority
        ELSE scheme || '://' || authority || CASE scheme WHEN 'http' THEN ':80' ELSE ':443' END END AS origin
    FROM (SELECT s.tenant_id, lower(substring(url FROM '^([A-Za-z]+)://')) AS scheme,
                 lower(substring(url FROM '^[A-Za-z]+://([^/?#]+)')) AS authority
          FROM mcp_servers s CROSS JOIN LATERAL (VALUES (s.endpoint), (s.token_endpoint)) AS u(url)
          WHERE s.transport = 'http' AND url IS NOT NULL) AS parts
    WHERE scheme IN ('http', 'https') AND authority <> '') AS found
ON CONFLICT (tenant_id, origin) DO NOTHING;
ALTER TABLE mcp_servers FORCE ROW LEVEL SECURITY;
ALTER TABLE egress_allowances FORCE ROW LEVEL SECURITY;
"""


class Migration(migrations.Migration):
    dependencies = [("mcpcatalog", "0008_server_checks"), ("toolsys", "0012_egress_allowances")]

    operations = [migrations.RunSQL(ALLOW, migrations.RunSQL.noop)]
