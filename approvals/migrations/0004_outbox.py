"""The outbox: who is told of what, the messages that a trigger writes with each event, and their attempts."""

from pathlib import Path

import django.db.models.deletion
import django.db.models.functions.datetime
from django.conf import settings
from django.db import migrations, models

import toolsys.ids
from toolsys.rowsecurity import AppendOnly, TenantTables

OUTBOX = (Path(__file__).parent.parent / "sql" / "10_outbox.sql").read_text()
# The definer role may create its functions here, and keeps no right to create anything else. Events that nobody can ask
# to be told of cost their writer one comparison.
FUNCTIONS = (
    "GRANT USAGE, CREATE ON SCHEMA public TO toolsys_definer;"
    + OUTBOX
    + "REVOKE CREATE ON SCHEMA public FROM toolsys_definer;"
    "CREATE TRIGGER fans_out AFTER INSERT ON tool_events FOR EACH ROW"
    " WHEN (NEW.type LIKE 'approval.%' OR NEW.type IN ('tool.call.uncertain', 'tool.call.failed', 'tool.call.denied'))"
    " EXECUTE FUNCTION approvals_fan_out();"
)
NO_FUNCTIONS = (
    "DROP TRIGGER fans_out ON tool_events;"
    "DROP FUNCTION approvals_fan_out(), approvals_due_deliveries(int), approvals_take_webhook_secrets(text);"
)


class Migration(migrations.Migration):
    dependencies = [
        ("approvals", "0003_seats_and_access"),
        ("toolsys", "0013_approvals"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name="NotificationEndpoint",
            fields=[
                ("id", models.UUIDField(default=toolsys.ids.uuid7, editable=False, primary_key=True, serialize=False)),
                (
                    "created_at",
                    models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), editable=False),
                ),
                ("name", models.TextField()),
                ("kind", models.TextField(choices=[("webhook", "webhook"), ("email", "email")])),
                ("target", models.TextField()),
                ("types", models.JSONField(default=list)),
                ("credential", models.TextField(blank=True)),
                ("is_enabled", models.BooleanField(default=True)),
                ("disabled_reason", models.TextField(blank=True)),
                (
                    "created_by",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="+", to=settings.AUTH_USER_MODEL
                    ),
                ),
                (
                    "tenant",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="toolsys.tenant",
                    ),
                ),
            ],
            options={
                "db_table": "notification_endpoints",
            },
        ),
        migrations.CreateModel(
            name="Delivery",
            fields=[
                ("id", models.UUIDField(default=toolsys.ids.uuid7, editable=False, primary_key=True, serialize=False)),
                (
                    "created_at",
                    models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), editable=False),
                ),
                ("event_id", models.BigIntegerField(null=True)),
                ("event_type", models.TextField()),
                ("run_id", models.UUIDField(null=True)),
                ("invocation_id", models.UUIDField(null=True)),
                (
                    "status",
                    models.TextField(
                        choices=[("pending", "pending"), ("delivered", "delivered"), ("failed", "failed")],
                        default="pending",
                    ),
                ),
                ("attempts", models.IntegerField(default=0)),
                (
                    "attempts_before",
                    models.IntegerField(default=0, help_text="Those before it was last sent again by hand."),
                ),
                ("due_at", models.DateTimeField()),
                ("leased_until", models.DateTimeField(null=True)),
                ("delivered_at", models.DateTimeField(null=True)),
                ("outcome", models.TextField(blank=True)),
                (
                    "tenant",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="toolsys.tenant",
                    ),
                ),
                (
                    "endpoint",
                    models.ForeignKey(
                        db_constraint=False,
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="approvals.notificationendpoint",
                    ),
                ),
            ],
            options={
                "verbose_name_plural": "deliveries",
                "db_table": "notification_deliveries",
            },
        ),
        migrations.CreateModel(
            name="DeliveryAttempt",
            fields=[
                ("id", models.UUIDField(default=toolsys.ids.uuid7, editable=False, primary_key=True, serialize=False)),
                (
                    "created_at",
                    models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), editable=False),
                ),
                ("number", models.IntegerField()),
                ("outcome", models.TextField()),
                ("milliseconds", models.IntegerField()),
                (
                    "delivery",
                    models.ForeignKey(
                        db_constraint=False,
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="approvals.delivery",
                    ),
                ),
                (
                    "tenant",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="toolsys.tenant",
                    ),
                ),
            ],
            options={
                "db_table": "notification_attempts",
                "indexes": [models.Index(fields=["tenant", "delivery", "number"], name="attempt_by_delivery")],
            },
        ),
        migrations.AddConstraint(
            model_name="notificationendpoint",
            constraint=models.UniqueConstraint(fields=("tenant", "name"), name="notification_endpoint_name_is_unique"),
        ),
        migrations.AddIndex(
            model_name="delivery",
            index=models.Index(condition=models.Q(("status", "pending")), fields=["due_at"], name="delivery_is_due"),
        ),
        migrations.AddIndex(
            model_name="delivery",
            index=models.Index(fields=["tenant", "-created_at"], name="delivery_by_time"),
        ),
        migrations.AddConstraint(
            model_name="delivery",
            constraint=models.UniqueConstraint(
                fields=("tenant", "endpoint", "event_id"), name="delivery_of_event_is_unique"
            ),
        ),
        TenantTables(
            ["NotificationEndpoint", "Delivery", "DeliveryAttempt"],
            definer=["NotificationEndpoint", "Delivery"],
            leaves=["DeliveryAttempt"],
        ),
        AppendOnly(["DeliveryAttempt"]),
        migrations.RunSQL(FUNCTIONS, NO_FUNCTIONS),
    ]
