"""A breaker looks at the latest finding on a call, and no number of denials hides an unknown outcome from it."""

from django.db import migrations

from toolsys.sqlfunctions import InstallFunctions


class Migration(migrations.Migration):
    dependencies = [("toolsys", "0034_uncertain_queue")]

    operations = [InstallFunctions(["20_facts.sql"], is_first=False)]
