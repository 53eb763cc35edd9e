"""What single tools are believed to do, and that classifying is the operators'."""

from pathlib import Path

import django.db.models.deletion
import django.db.models.functions.datetime
from django.conf import settings
from django.db import migrations, models

import toolsys.ids
from toolsys.rowsecurity import RaisesAuthzEpoch, TenantTables

SQL = Path(__file__).parent.parent / "sql"
OVERRIDES = (SQL / "40_overrides.sql").read_text()
GUARDS = (SQL / "10_guards.sql").read_text()


class Migration(migrations.Migration):
    dependencies = [
        ("mcpcatalog", "0006_failed_fingerprint"),
        ("toolsys", "0012_egress_allowances"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name="ToolOverride",
            fields=[
                ("id", models.UUIDField(default=toolsys.ids.uuid7, editable=False, primary_key=True, serialize=False)),
                (
                    "created_at",
                    models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), editable=False),
                ),
                ("server_id", models.TextField()),
                ("remote_name", models.TextField()),
                ("is_operators", models.BooleanField(default=False)),
                (
                    "side_effect",
                    models.TextField(
                        blank=True,
                        choices=[
                            ("none", "none"),
                            ("workspace_read", "workspace read"),
                            ("workspace_write", "workspace write"),
                            ("network_read", "network read"),
                            ("external_read", "external read"),
                            ("external_write", "external write"),
                        ],
                        null=True,
                    ),
                ),
                (
                    "risk",
                    models.TextField(
                        blank=True, choices=[("low", "low"), ("medium", "medium"), ("high", "high")], null=True
                    ),
                ),
                (
                    "idempotency",
                    models.TextField(
                        blank=True,
                        choices=[
                            ("read_only", "read only"),
                            ("idempotent", "idempotent"),
                            ("conditionally_idempotent", "conditionally idempotent"),
                            ("non_idempotent", "non idempotent"),
                        ],
                        null=True,
                    ),
                ),
                ("endpoint", models.TextField(blank=True, default="")),
                ("declaration_hash", models.TextField(blank=True, default="")),
                ("note", models.TextField(blank=True, default="")),
                (
                    "set_by",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
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
                "verbose_name": "tool override",
                "db_table": "mcp_tool_overrides",
                "constraints": [
                    models.UniqueConstraint(
                        fields=("tenant", "server_id", "remote_name", "is_operators"), name="mcp_override_is_unique"
                    )
                ],
            },
        ),
        TenantTables(["ToolOverride"], leaves=["ToolOverride"]),
        RaisesAuthzEpoch(
            "ToolOverride",
            [
                "server_id",
                "remote_name",
                "is_operators",
                "side_effect",
                "risk",
                "idempotency",
                "endpoint",
                "declaration_hash",
            ],
            on_insert=True,
        ),
        migrations.RunSQL(
            OVERRIDES, "DROP TRIGGER guard_override ON mcp_tool_overrides; DROP FUNCTION mcpcatalog_guard_override();"
        ),
        migrations.RunSQL(GUARDS[: GUARDS.index("CREATE TRIGGER")], migrations.RunSQL.noop),
    ]
