"""No lease lasts past its operation deadline, and the sweeper may ask when the next one ends."""

from django.db import migrations

from toolsys.sqlfunctions import InstallFunctions


class Migration(migrations.Migration):
    dependencies = [("toolsys", "0009_credentials")]

    operations = [InstallFunctions(["30_commits.sql", "40_definers.sql"], is_first=False)]
