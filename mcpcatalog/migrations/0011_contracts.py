"""Fixed servers hold contracts; every server is looked at again once, for resources and prompts."""

from django.db import migrations, models

# A stdio server is listed once in the life of a deployment's configuration. The owner is subject to row-level security.
LOOK_AGAIN = """
ALTER TABLE mcp_servers NO FORCE ROW LEVEL SECURITY;
UPDATE mcp_servers SET discovered_fingerprint = '' WHERE discovered_fingerprint <> '';
ALTER TABLE mcp_servers FORCE ROW LEVEL SECURITY;
"""


class Migration(migrations.Migration):
    dependencies = [
        ("mcpcatalog", "0010_enabled_servers"),
        ("toolsys", "0014_skills"),
    ]

    operations = [
        migrations.AlterField(
            model_name="mcpserver",
            name="fixed_tools",
            field=models.JSONField(
                blank=True,
                default=list,
                help_text="Of a fixed server: its tools as name, description and input_schema.",
            ),
        ),
        migrations.RunSQL(LOOK_AGAIN, migrations.RunSQL.noop),
    ]
