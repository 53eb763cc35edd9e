"""When a server was classified; and which version of a credential a check was asked for."""

from pathlib import Path

from django.db import migrations, models

GUARDS = (Path(__file__).parent.parent / "sql" / "10_guards.sql").read_text()

# Whatever is not the strictest was said by operators. The owner is subject to row-level security and to the guard.
SAID = """
ALTER TABLE mcp_servers NO FORCE ROW LEVEL SECURITY;
ALTER TABLE mcp_servers DISABLE TRIGGER guard_stdio;
UPDATE mcp_servers SET classified_at = now()
WHERE (side_effect, risk, idempotency) <> ('external_write', 'high', 'non_idempotent');
ALTER TABLE mcp_servers ENABLE TRIGGER guard_stdio;
ALTER TABLE mcp_servers FORCE ROW LEVEL SECURITY;
"""


class Migration(migrations.Migration):
    dependencies = [("mcpcatalog", "0013_reviews")]

    operations = [
        migrations.AddField("mcpserver", "classified_at", models.DateTimeField(editable=False, null=True)),
        migrations.AddField("servercheck", "credential_version", models.IntegerField(null=True)),
        migrations.RunSQL(SAID, migrations.RunSQL.noop),
        migrations.RunSQL(GUARDS[: GUARDS.index("CREATE TRIGGER")], migrations.RunSQL.noop),
    ]
