"""The fence asks the deadline and, last, the switch; a further attempt keeps its wait, however often somebody rings."""

from django.db import migrations, models

from toolsys.sqlfunctions import InstallFunctions


class Migration(migrations.Migration):
    dependencies = [("toolsys", "0006_crash_sweep_waits")]

    operations = [
        migrations.AddField("invocation", "not_before", models.DateTimeField(null=True)),
        InstallFunctions(["30_commits.sql"], is_first=False),
    ]
