"""Messages that are over go by age: one definer function may delete their attempts, and nobody else may."""

from pathlib import Path

from django.db import migrations, models

RETENTION = (Path(__file__).parent.parent / "sql" / "20_retention.sql").read_text()
# A function that runs as the definer deletes attempts; for everybody else the table stays append-only. It locks what it
# deletes, which takes a right to update, and gets that for one column.
FUNCTIONS = (
    "GRANT SELECT, DELETE ON notification_attempts TO toolsys_definer;"
    "GRANT DELETE, UPDATE (due_at) ON notification_deliveries TO toolsys_definer;"
    "CREATE POLICY definer_lookup ON notification_attempts TO toolsys_definer USING (true);"
    "DROP TRIGGER append_only ON notification_attempts;"
    "CREATE TRIGGER append_only BEFORE UPDATE OR TRUNCATE ON notification_attempts"
    " FOR EACH STATEMENT EXECUTE FUNCTION toolsys_refuse_change();"
    "CREATE TRIGGER append_only_until_it_is_old BEFORE DELETE ON notification_attempts"
    " FOR EACH STATEMENT WHEN (current_user <> 'toolsys_definer') EXECUTE FUNCTION toolsys_refuse_change();"
    "GRANT USAGE, CREATE ON SCHEMA public TO toolsys_definer;"
    + RETENTION
    + "REVOKE CREATE ON SCHEMA public FROM toolsys_definer;"
)
NO_FUNCTIONS = (
    "DROP FUNCTION approvals_forget_deliveries(float, int);"
    "DROP TRIGGER append_only_until_it_is_old ON notification_attempts;"
    "DROP TRIGGER append_only ON notification_attempts;"
    "CREATE TRIGGER append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON notification_attempts"
    " FOR EACH STATEMENT EXECUTE FUNCTION toolsys_refuse_change();"
    "DROP POLICY definer_lookup ON notification_attempts;"
    "REVOKE DELETE, UPDATE (due_at) ON notification_deliveries FROM toolsys_definer;"
    "REVOKE SELECT, DELETE ON notification_attempts FROM toolsys_definer;"
)


class Migration(migrations.Migration):
    dependencies = [("approvals", "0005_switch_names")]

    operations = [
        migrations.AddIndex(
            model_name="delivery",
            index=models.Index(
                condition=models.Q(("status__in", ("delivered", "failed"))), fields=["due_at"], name="delivery_is_over"
            ),
        ),
        migrations.RunSQL(FUNCTIONS, NO_FUNCTIONS),
    ]
