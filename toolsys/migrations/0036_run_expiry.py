"""Runs that nobody ended expire, and are found by their deadline."""

from django.db import migrations, models

from toolsys.sqlfunctions import InstallFunctions

RIGHTS = (
    "CREATE POLICY definer_lookup ON runs TO toolsys_definer USING (true);"
    "GRANT SELECT, UPDATE (status, ended_at) ON runs TO toolsys_definer;"
)
NO_RIGHTS = (
    "REVOKE SELECT, UPDATE (status, ended_at) ON runs FROM toolsys_definer;DROP POLICY definer_lookup ON runs;"
)  # fmt: skip


class Migration(migrations.Migration):
    dependencies = [("toolsys", "0035_breaker_windows")]

    operations = [
        migrations.AddIndex(
            model_name="run",
            index=models.Index(condition=models.Q(("ended_at", None)), fields=["deadline_at"], name="run_by_deadline"),
        ),
        migrations.RunSQL(RIGHTS, NO_RIGHTS),
        migrations.RunSQL("GRANT USAGE, CREATE ON SCHEMA public TO toolsys_definer;", migrations.RunSQL.noop),
        InstallFunctions(["79_run_expiry.sql"]),
        migrations.RunSQL("REVOKE CREATE ON SCHEMA public FROM toolsys_definer;", migrations.RunSQL.noop),
    ]
