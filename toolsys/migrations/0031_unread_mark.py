"""Nobody reads the mark of a write that could not be recorded: its run has failed, which ends the call."""

from django.db import migrations

from toolsys.sqlfunctions import InstallFunctions


class Migration(migrations.Migration):
    dependencies = [("toolsys", "0030_plain_identities")]

    operations = [InstallFunctions(["20_facts.sql"], is_first=False)]
