"""The courier finds what is due endpoint by endpoint through an index, so that a long queue hides nobody else's."""

from pathlib import Path

from django.db import migrations, models

OUTBOX = (Path(__file__).parent.parent / "sql" / "10_outbox.sql").read_text()
# The definer role owns the functions: it may create them here, and keeps no right to create anything else.
FUNCTIONS = (
    "GRANT USAGE, CREATE ON SCHEMA public TO toolsys_definer;"
    + OUTBOX
    + "REVOKE CREATE ON SCHEMA public FROM toolsys_definer;"
)


class Migration(migrations.Migration):
    dependencies = [("approvals", "0006_outbox_retention")]

    operations = [
        migrations.AddIndex(
            model_name="delivery",
            index=models.Index(
                condition=models.Q(("status", "pending")),
                fields=["tenant", "endpoint", "due_at"],
                name="delivery_waits",
            ),
        ),
        migrations.RunSQL(FUNCTIONS, migrations.RunSQL.noop),
        migrations.RemoveIndex(model_name="delivery", name="delivery_is_due"),
    ]
