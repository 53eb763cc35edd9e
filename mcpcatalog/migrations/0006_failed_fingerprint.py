"""Which configuration the last failure was of: a rotated credential or a new endpoint is tried at once."""

from pathlib import Path

from django.db import migrations, models

GUARDS = (Path(__file__).parent.parent / "sql" / "10_guards.sql").read_text()


class Migration(migrations.Migration):
    dependencies = [("mcpcatalog", "0005_routes")]

    operations = [
        migrations.AddField(
            model_name="mcpserver",
            name="failed_fingerprint",
            field=models.TextField(blank=True, default="", editable=False),
        ),
        migrations.RunSQL(GUARDS[: GUARDS.index("CREATE TRIGGER")], migrations.RunSQL.noop),
    ]
