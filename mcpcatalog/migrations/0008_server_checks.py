"""Checks of a server: asked for by people, done by workers."""

import django.db.models.deletion
import django.db.models.functions.datetime
from django.conf import settings
from django.db import migrations, models

import toolsys.ids
from toolsys.rowsecurity import TenantTables


class Migration(migrations.Migration):
    dependencies = [
        ("mcpcatalog", "0007_tool_overrides"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name="ServerCheck",
            fields=[
                ("id", models.UUIDField(default=toolsys.ids.uuid7, editable=False, primary_key=True, serialize=False)),
                (
                    "created_at",
                    models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), editable=False),
                ),
                ("server_id", models.TextField()),
                ("started_at", models.DateTimeField(null=True)),
                ("finished_at", models.DateTimeField(null=True)),
                ("rungs", models.JSONField(default=list)),
                ("is_passed", models.BooleanField(default=False)),
                (
                    "requested_by",
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
                "verbose_name": "server check",
                "db_table": "mcp_checks",
                "indexes": [models.Index(fields=["tenant", "server_id", "-id"], name="mcp_check_by_server")],
            },
        ),
        TenantTables(["ServerCheck"], leaves=["ServerCheck"]),
    ]
