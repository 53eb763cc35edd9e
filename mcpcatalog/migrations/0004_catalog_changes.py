"""The hash of each declaration, the time of a notified change, and what changed between two catalogs."""

from pathlib import Path

import django.db.models.deletion
import django.db.models.functions.datetime
from django.db import migrations, models

import toolsys.ids
from toolsys.rowsecurity import AppendOnly, TenantTables

GUARDS = (Path(__file__).parent.parent / "sql" / "10_guards.sql").read_text()

# Generations of an earlier release have no declaration hashes: they stay as history under another name, and each
# server is listed anew before a session pins it again. The owner is subject to row-level security like everybody.
SET_ASIDE = """
ALTER TABLE mcp_tool_catalog NO FORCE ROW LEVEL SECURITY;
ALTER TABLE mcp_servers NO FORCE ROW LEVEL SECURITY;
UPDATE mcp_tool_catalog SET catalog_hash = 'unhashed:' || catalog_hash WHERE declaration_hash = '';
UPDATE mcp_servers SET catalog_hash = '', discovered_fingerprint = '' WHERE catalog_hash <> '';
ALTER TABLE mcp_tool_catalog FORCE ROW LEVEL SECURITY;
ALTER TABLE mcp_servers FORCE ROW LEVEL SECURITY;
"""


class Migration(migrations.Migration):
    dependencies = [
        ("mcpcatalog", "0003_session_servers"),
        ("toolsys", "0009_credentials"),
    ]

    operations = [
        migrations.AddField(
            model_name="catalogtool",
            name="declaration_hash",
            field=models.TextField(blank=True, default=""),
        ),
        migrations.AddField(
            model_name="mcpserver",
            name="list_changed_at",
            field=models.DateTimeField(editable=False, null=True),
        ),
        migrations.CreateModel(
            name="CatalogChange",
            fields=[
                ("id", models.UUIDField(default=toolsys.ids.uuid7, editable=False, primary_key=True, serialize=False)),
                (
                    "created_at",
                    models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), editable=False),
                ),
                ("server_id", models.TextField()),
                ("old_hash", models.TextField()),
                ("new_hash", models.TextField()),
                ("differences", models.JSONField(default=list)),
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
                "verbose_name": "catalog change",
                "db_table": "mcp_catalog_changes",
                "indexes": [models.Index(fields=["tenant", "server_id", "-id"], name="mcp_change_by_server")],
            },
        ),
        TenantTables(["CatalogChange"], leaves=["CatalogChange"]),
        AppendOnly(["CatalogChange"]),
        migrations.RunSQL(SET_ASIDE, migrations.RunSQL.noop),
        migrations.RunSQL(GUARDS[: GUARDS.index("CREATE TRIGGER")], migrations.RunSQL.noop),
    ]
