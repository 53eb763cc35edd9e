"""What people found out about calls whose outcome is unknown: a row of its own, never changed."""

import django.db.models.deletion
import django.db.models.functions.datetime
from django.conf import settings
from django.db import migrations, models

import toolsys.ids
from toolsys.rowsecurity import AppendOnly, TenantTables


class Migration(migrations.Migration):
    dependencies = [("toolsys", "0002_breakers"), migrations.swappable_dependency(settings.AUTH_USER_MODEL)]

    operations = [
        migrations.CreateModel(
            name="UncertainResolution",
            fields=[
                ("id", models.UUIDField(default=toolsys.ids.uuid7, editable=False, primary_key=True, serialize=False)),
                (
                    "created_at",
                    models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), editable=False),
                ),
                (
                    "resolution",
                    models.TextField(
                        choices=[
                            ("happened", "it happened"),
                            ("not_happened", "it did not happen"),
                            ("left_open", "left open"),
                        ]
                    ),
                ),
                ("evidence", models.TextField()),
                (
                    "worker_proof",
                    models.TextField(
                        blank=True,
                        choices=[("process_gone", "its process is gone"), ("host_fenced", "its host was fenced")],
                    ),
                ),
                (
                    "invocation",
                    models.ForeignKey(
                        db_constraint=False,
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="toolsys.invocation",
                    ),
                ),
                (
                    "resolved_by",
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
                "db_table": "uncertain_resolutions",
                "indexes": [models.Index(fields=["tenant", "invocation", "-id"], name="resolution_by_invocation")],
                "constraints": [
                    models.CheckConstraint(
                        condition=~models.Q(resolution="not_happened") | ~models.Q(worker_proof=""),
                        name="not_happened_is_proved",
                    )
                ],
            },
        ),
        TenantTables(["UncertainResolution"], leaves=["UncertainResolution"]),
        AppendOnly(["UncertainResolution"]),
    ]
