"""One live version of a credential can be resolved by its number, so that a person can test it."""

from django.db import migrations

from toolsys.sqlfunctions import InstallFunctions


class Migration(migrations.Migration):
    dependencies = [("toolsys", "0022_withheld_tools")]

    operations = [
        # The definer role owns the functions: it may create them here, and keeps no right to create anything else.
        migrations.RunSQL("GRANT USAGE, CREATE ON SCHEMA public TO toolsys_definer;", migrations.RunSQL.noop),
        InstallFunctions(["60_credentials.sql"], is_first=False),
        migrations.RunSQL("REVOKE CREATE ON SCHEMA public FROM toolsys_definer;", migrations.RunSQL.noop),
    ]
