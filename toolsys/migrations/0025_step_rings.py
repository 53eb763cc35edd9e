"""A step with a call missing is named less and less often while nobody goes on with it, as a lost call is."""

from django.db import migrations, models

from toolsys.sqlfunctions import InstallFunctions


class Migration(migrations.Migration):
    dependencies = [("toolsys", "0024_artifact_ages")]

    operations = [
        migrations.AddField("runstep", "rung_at", models.DateTimeField(null=True)),
        migrations.RunSQL(
            "GRANT UPDATE (rung_at) ON run_steps TO toolsys_definer;",
            "REVOKE UPDATE (rung_at) ON run_steps FROM toolsys_definer;",
        ),
        InstallFunctions(["40_definers.sql"], is_first=False),
    ]
