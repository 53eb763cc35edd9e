"""Changes of a catalog go by age, with the generations that no session pinned: one definer function may delete them."""

from pathlib import Path

from django.db import migrations, models

RETENTION = (Path(__file__).parent.parent / "sql" / "60_retention.sql").read_text()
# For everybody else the changes stay append-only. Who locks a server needs a right to update: for one column.
FUNCTIONS = (
    "GRANT SELECT, DELETE ON mcp_catalog_changes, mcp_tool_catalog TO toolsys_definer;"
    "GRANT UPDATE (created_at) ON mcp_servers TO toolsys_definer;"
    "CREATE POLICY definer_lookup ON mcp_catalog_changes TO toolsys_definer USING (true);"
    "CREATE POLICY definer_lookup ON mcp_tool_catalog TO toolsys_definer USING (true);"
    "DROP TRIGGER append_only ON mcp_catalog_changes;"
    "CREATE TRIGGER append_only BEFORE UPDATE OR TRUNCATE ON mcp_catalog_changes"
    " FOR EACH STATEMENT EXECUTE FUNCTION toolsys_refuse_change();"
    "CREATE TRIGGER append_only_until_it_is_old BEFORE DELETE ON mcp_catalog_changes"
    " FOR EACH STATEMENT WHEN (current_user <> 'toolsys_definer') EXECUTE FUNCTION toolsys_refuse_change();"
    "GRANT USAGE, CREATE ON SCHEMA public TO toolsys_definer;"
    + RETENTION
    + "REVOKE CREATE ON SCHEMA public FROM toolsys_definer;"
)
NO_FUNCTIONS = (
    "DROP FUNCTION mcpcatalog_forget_changes(float, int);"
    "DROP TRIGGER append_only_until_it_is_old ON mcp_catalog_changes;"
    "DROP TRIGGER append_only ON mcp_catalog_changes;"
    "CREATE TRIGGER append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON mcp_catalog_changes"
    " FOR EACH STATEMENT EXECUTE FUNCTION toolsys_refuse_change();"
    "DROP POLICY definer_lookup ON mcp_tool_catalog;DROP POLICY definer_lookup ON mcp_catalog_changes;"
    "REVOKE UPDATE (created_at) ON mcp_servers FROM toolsys_definer;"
    "REVOKE SELECT, DELETE ON mcp_catalog_changes, mcp_tool_catalog FROM toolsys_definer;"
)


class Migration(migrations.Migration):
    dependencies = [("mcpcatalog", "0015_standing_goes_first"), ("toolsys", "0033_skill_retention")]

    operations = [
        migrations.AddIndex(
            model_name="catalogchange", index=models.Index(fields=["created_at"], name="mcp_change_by_age")
        ),
        migrations.RunSQL(FUNCTIONS, NO_FUNCTIONS),
    ]
