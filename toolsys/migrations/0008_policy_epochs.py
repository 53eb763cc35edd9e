"""Authorization epochs also rise with new rows, with what rules call agents and principals, and with the platform.

An ending that policy decided keeps its decision, in a worker too.
"""

from django.db import migrations

from toolsys.sqlfunctions import InstallFunctions

CREATE = """
CREATE TRIGGER raises_authz_epoch_by_name AFTER UPDATE OF name ON agents
    FOR EACH ROW EXECUTE FUNCTION toolsys_raise_authz_epoch();
CREATE TRIGGER raises_authz_epoch_by_name AFTER UPDATE OF external_id ON principals
    FOR EACH ROW EXECUTE FUNCTION toolsys_raise_authz_epoch();
CREATE TRIGGER raises_every_epoch AFTER UPDATE OF is_execution_enabled ON platform_state
    FOR EACH ROW WHEN (OLD.is_execution_enabled <> NEW.is_execution_enabled) EXECUTE FUNCTION toolsys_raise_every_epoch();
"""
DROP = """
DROP TRIGGER raises_authz_epoch_by_name ON agents;
DROP TRIGGER raises_authz_epoch_by_name ON principals;
DROP TRIGGER raises_every_epoch ON platform_state;
"""


class Migration(migrations.Migration):
    dependencies = [("toolsys", "0007_fence_deadline")]

    operations = [
        InstallFunctions(["10_guards.sql", "30_commits.sql"], is_first=False),
        migrations.RunSQL(CREATE, DROP),
    ]
