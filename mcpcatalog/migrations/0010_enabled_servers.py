"""A worker that starts may list the enabled servers of all tenants."""

from pathlib import Path

from django.db import migrations

ENABLED = (Path(__file__).parent.parent / "sql" / "50_enabled.sql").read_text()


class Migration(migrations.Migration):
    dependencies = [("mcpcatalog", "0009_allow_known_servers")]

    operations = [
        # The definer role owns the function: it may create it here, and keeps no right to create anything else.
        migrations.RunSQL(
            "CREATE POLICY definer_lookup ON mcp_servers TO toolsys_definer USING (true);"
            "GRANT SELECT ON mcp_servers TO toolsys_definer;"
            "GRANT USAGE, CREATE ON SCHEMA public TO toolsys_definer;",
            "REVOKE SELECT ON mcp_servers FROM toolsys_definer; DROP POLICY definer_lookup ON mcp_servers;",
        ),
        migrations.RunSQL(ENABLED, "DROP FUNCTION mcpcatalog_enabled_servers();"),
        migrations.RunSQL("REVOKE CREATE ON SCHEMA public FROM toolsys_definer;", migrations.RunSQL.noop),
    ]
