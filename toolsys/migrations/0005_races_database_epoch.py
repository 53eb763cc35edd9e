"""A row keeps the database epoch that it was first written in: a claim after a restore does not make it younger."""

from django.db import migrations

from toolsys.sqlfunctions import InstallFunctions


class Migration(migrations.Migration):
    dependencies = [("toolsys", "0004_breaker_functions")]

    operations = [InstallFunctions(["30_commits.sql"], is_first=False)]
