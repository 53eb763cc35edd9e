"""Locks are taken in one order, a heartbeat waits for none, and a raised database epoch sends every claim back to step 6.

A worker that read its facts before the recovery fence would otherwise pass the watermark of a call that counts as sent.
"""

from django.db import migrations

from toolsys.sqlfunctions import InstallFunctions

TRIGGER = """
DROP TRIGGER raises_every_epoch ON platform_state;
CREATE TRIGGER raises_every_epoch AFTER UPDATE OF is_execution_enabled{columns} ON platform_state
    FOR EACH ROW WHEN (OLD.is_execution_enabled <> NEW.is_execution_enabled{condition})
    EXECUTE FUNCTION toolsys_raise_every_epoch();
"""
BOTH = TRIGGER.format(columns=", database_epoch", condition=" OR OLD.database_epoch <> NEW.database_epoch")
ONE = TRIGGER.format(columns="", condition="")


class Migration(migrations.Migration):
    dependencies = [("toolsys", "0025_step_rings")]

    operations = [
        InstallFunctions(["10_guards.sql", "30_commits.sql", "45_people.sql"], is_first=False),
        migrations.RunSQL(BOTH, ONE),
    ]
