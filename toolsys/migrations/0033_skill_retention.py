"""Withdrawn versions of skills go by age, and which catalogs any session pinned is found through an index."""

from django.db import migrations, models

from toolsys.sqlfunctions import InstallFunctions

# A function locks what it deletes, which takes a right to update: it gets that for one column.
RIGHTS = (
    "CREATE POLICY definer_lookup ON skills TO toolsys_definer USING (true);"
    "GRANT SELECT, DELETE, UPDATE (created_at) ON skills TO toolsys_definer;"
    "CREATE POLICY definer_lookup ON tool_sets TO toolsys_definer USING (true);"
    "GRANT SELECT ON tool_sets TO toolsys_definer;"
)
NO_RIGHTS = (
    "REVOKE SELECT ON tool_sets FROM toolsys_definer;DROP POLICY definer_lookup ON tool_sets;"
    "REVOKE SELECT, DELETE, UPDATE (created_at) ON skills FROM toolsys_definer;DROP POLICY definer_lookup ON skills;"
)
# The version of an MCP tool is the hash of its catalog.
PINNED = "CREATE INDEX tool_set_by_version ON tool_sets USING gin (jsonb_path_query_array(tools, '$.*.version'));"


class Migration(migrations.Migration):
    dependencies = [("toolsys", "0032_altered_grants")]

    operations = [
        migrations.AddIndex(
            model_name="skill",
            index=models.Index(
                condition=models.Q(("withdrawn_at__isnull", False)), fields=["withdrawn_at"], name="skill_by_age"
            ),
        ),
        migrations.AddIndex(
            model_name="skill",
            index=models.Index(fields=["tenant", "server_id", "created_at"], name="skill_of_a_server"),
        ),
        migrations.RunSQL(PINNED, "DROP INDEX tool_set_by_version;"),
        migrations.RunSQL(RIGHTS, NO_RIGHTS),
        migrations.RunSQL("GRANT USAGE, CREATE ON SCHEMA public TO toolsys_definer;", migrations.RunSQL.noop),
        InstallFunctions(["78_skill_retention.sql"]),
        migrations.RunSQL("REVOKE CREATE ON SCHEMA public FROM toolsys_definer;", migrations.RunSQL.noop),
    ]
