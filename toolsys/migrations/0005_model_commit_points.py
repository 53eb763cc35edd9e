"""Install the commit points again: they keep a row's database epoch, and lock run, approval and call in this order."""

from django.db import migrations

from toolsys.sqlfunctions import InstallFunctions


class Migration(migrations.Migration):
    dependencies = [("toolsys", "0004_breaker_functions")]

    operations = [InstallFunctions(["30_commits.sql"], is_first=False)]
