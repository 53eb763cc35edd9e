"""A change that a verdict depends on goes before every watermark that comes after it: under load it waited for ever."""

from django.db import migrations

from toolsys.sqlfunctions import InstallFunctions


class Migration(migrations.Migration):
    dependencies = [("toolsys", "0026_locks_in_order")]

    operations = [InstallFunctions(["10_guards.sql", "30_commits.sql", "45_people.sql"], is_first=False)]
