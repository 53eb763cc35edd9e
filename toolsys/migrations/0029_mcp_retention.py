"""Calls and conversations of the MCP face go by age: two definer functions may delete them in every tenant."""

from django.db import migrations, models

from toolsys.sqlfunctions import InstallFunctions

TABLES = ("mcp_proposals", "mcp_client_sessions")
# A function locks what it deletes, which takes a right to update: it gets that for one column.
RIGHTS = "".join(
    f"CREATE POLICY definer_lookup ON {table} TO toolsys_definer USING (true);"
    f"GRANT SELECT, DELETE, UPDATE (created_at) ON {table} TO toolsys_definer;"
    for table in TABLES
)
NO_RIGHTS = "".join(
    f"REVOKE SELECT, DELETE, UPDATE (created_at) ON {table} FROM toolsys_definer;DROP POLICY definer_lookup ON {table};"
    for table in TABLES
)


class Migration(migrations.Migration):
    dependencies = [("toolsys", "0028_grant_words")]

    operations = [
        migrations.AlterModelOptions(name="mcpclientsession", options={"verbose_name": "MCP conversation"}),
        migrations.AddIndex(
            model_name="mcpproposal", index=models.Index(fields=["created_at"], name="mcp_call_by_age")
        ),
        migrations.AddIndex(
            model_name="mcpclientsession", index=models.Index(fields=["last_call_at"], name="mcp_conversation_by_age")
        ),
        migrations.AddIndex(
            model_name="mcpclientsession",
            index=models.Index(
                condition=models.Q(("closed_at", None)), fields=["tenant", "last_call_at"],
                name="mcp_conversation_is_open",
            ),
        ),
        migrations.RunSQL(RIGHTS, NO_RIGHTS),
        migrations.RunSQL("GRANT USAGE, CREATE ON SCHEMA public TO toolsys_definer;", migrations.RunSQL.noop),
        InstallFunctions(["77_mcp_retention.sql"]),
        migrations.RunSQL("REVOKE CREATE ON SCHEMA public FROM toolsys_definer;", migrations.RunSQL.noop),
    ]  # fmt: skip
