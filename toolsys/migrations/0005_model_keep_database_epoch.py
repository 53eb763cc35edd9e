"""Install the commit points again: consuming an approval and claiming keep the row's database epoch."""

from django.db import migrations

from toolsys.sqlfunctions import InstallFunctions


class Migration(migrations.Migration):
    dependencies = [("toolsys", "0004_breaker_functions")]

    operations = [InstallFunctions(["30_commits.sql"], is_first=False)]
