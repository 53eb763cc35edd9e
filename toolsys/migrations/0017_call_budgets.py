"""A run's budget of calls is counted where a call begins."""

from django.db import migrations, models

from toolsys.sqlfunctions import InstallFunctions


class Migration(migrations.Migration):
    dependencies = [("toolsys", "0016_tool_sets")]

    operations = [
        migrations.AddField("run", "calls_begun", models.IntegerField(db_default=0)),
        InstallFunctions(["20_facts.sql", "30_commits.sql"], is_first=False),
    ]
