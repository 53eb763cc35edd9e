"""The commit points with breakers, counted attempts and a cap for parallel groups; two signatures are replaced."""

from django.db import migrations

from toolsys.sqlfunctions import InstallFunctions

# They do not exist where the first migration has installed today's files.
REPLACED = (
    "DROP FUNCTION IF EXISTS toolsys_commit_claim(text, uuid, int, text, float, bigint, timestamptz, int, int);"
    "DROP FUNCTION IF EXISTS toolsys_commit_release(text, uuid, int, float);"
)


class Migration(migrations.Migration):
    dependencies = [("toolsys", "0003_uncertain_resolutions")]

    operations = [
        migrations.RunSQL(REPLACED, migrations.RunSQL.noop),
        InstallFunctions(["10_guards.sql", "20_facts.sql", "30_commits.sql"], is_first=False),
    ]
