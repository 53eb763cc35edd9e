"""A lost call is named again at the next sweeps: who was rung for first may have died before it claimed."""

from django.db import migrations

from toolsys.sqlfunctions import InstallFunctions


class Migration(migrations.Migration):
    dependencies = [("toolsys", "0020_bound_facts")]

    operations = [InstallFunctions(["40_definers.sql"], is_first=False)]
