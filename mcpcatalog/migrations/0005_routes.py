"""Which worker holds a session's connection to a server that keeps state in it."""

from pathlib import Path

import django.db.models.deletion
import django.db.models.functions.datetime
from django.db import migrations, models

import toolsys.ids
from toolsys.rowsecurity import TenantTables

ROUTES = (Path(__file__).parent.parent / "sql" / "30_routes.sql").read_text()

# The definer role owns two of the functions: it may create them here, and keeps no right to create anything else.
FUNCTIONS = (
    "GRANT USAGE, CREATE ON SCHEMA public TO toolsys_definer;"
    "GRANT SELECT, INSERT, UPDATE, DELETE ON mcp_workers TO toolsys_definer;"
    "GRANT DELETE ON mcp_routes TO toolsys_definer;"
    "REVOKE INSERT, UPDATE, DELETE, TRUNCATE ON mcp_workers FROM toolsys_app, toolsys_operator;"
    + ROUTES
    + "REVOKE CREATE ON SCHEMA public FROM toolsys_definer;"
)


class Migration(migrations.Migration):
    dependencies = [
        ("mcpcatalog", "0004_catalog_changes"),
        ("toolsys", "0009_credentials"),
    ]

    operations = [
        migrations.CreateModel(
            name="RouteWorker",
            fields=[
                ("name", models.TextField(primary_key=True, serialize=False)),
                ("expires_at", models.DateTimeField()),
            ],
            options={"verbose_name": "worker", "db_table": "mcp_workers"},
        ),
        migrations.CreateModel(
            name="ServerRoute",
            fields=[
                ("id", models.UUIDField(default=toolsys.ids.uuid7, editable=False, primary_key=True, serialize=False)),
                (
                    "created_at",
                    models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), editable=False),
                ),
                ("server_id", models.TextField()),
                ("worker", models.TextField()),
                ("taken_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                (
                    "session",
                    models.ForeignKey(
                        db_constraint=False,
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="toolsys.agentsession",
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
                "verbose_name": "route of a session",
                "db_table": "mcp_routes",
                "indexes": [models.Index(fields=["worker"], name="mcp_route_by_worker")],
                "constraints": [
                    models.UniqueConstraint(fields=("tenant", "session", "server_id"), name="mcp_route_is_unique")
                ],
            },
        ),
        TenantTables(["ServerRoute"], definer=["ServerRoute"], leaves=["ServerRoute"]),
        migrations.RunSQL(
            FUNCTIONS,
            "DROP FUNCTION mcpcatalog_take_route(text, uuid, text, text), mcpcatalog_renew_worker(text, float),"
            " mcpcatalog_release_worker(text);",
        ),
    ]
