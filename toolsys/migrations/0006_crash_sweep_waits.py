"""Install the sweeper's questions again: it waits by how long a row has been due, and names cancelled held calls."""

from django.db import migrations

from toolsys.sqlfunctions import InstallFunctions


class Migration(migrations.Migration):
    dependencies = [("toolsys", "0005_model_commit_points")]

    operations = [
        migrations.RunSQL("GRANT CREATE ON SCHEMA public TO toolsys_definer;", migrations.RunSQL.noop),
        InstallFunctions(["40_definers.sql"], is_first=False),
        migrations.RunSQL("REVOKE CREATE ON SCHEMA public FROM toolsys_definer;", migrations.RunSQL.noop),
    ]
