"""A lease that has passed is named at once, and then less and less often."""

from django.db import migrations

from toolsys.sqlfunctions import InstallFunctions


class Migration(migrations.Migration):
    dependencies = [("toolsys", "0017_call_budgets")]

    operations = [InstallFunctions(["30_commits.sql", "40_definers.sql"], is_first=False)]
