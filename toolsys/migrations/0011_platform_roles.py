"""Roles of the platform are given and taken by operators."""

from django.db import migrations

from toolsys.sqlfunctions import InstallFunctions

CREATE = """
CREATE TRIGGER guard_platform_roles BEFORE INSERT OR UPDATE OR DELETE ON memberships
    FOR EACH ROW EXECUTE FUNCTION toolsys_guard_membership();
"""


class Migration(migrations.Migration):
    dependencies = [("toolsys", "0010_lease_ends")]

    operations = [
        InstallFunctions(["70_memberships.sql"]),
        migrations.RunSQL(CREATE, "DROP TRIGGER guard_platform_roles ON memberships;"),
    ]
