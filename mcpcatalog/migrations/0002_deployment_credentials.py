"""Rows that carry a reference to a secret of the deployment belong to operators, as those of stdio servers do."""

from pathlib import Path

from django.db import migrations

GUARDS = (Path(__file__).parent.parent / "sql" / "10_guards.sql").read_text()


class Migration(migrations.Migration):
    dependencies = [("mcpcatalog", "0001_initial"), ("toolsys", "0009_credentials")]

    operations = [migrations.RunSQL(GUARDS[: GUARDS.index("CREATE TRIGGER")], migrations.RunSQL.noop)]
