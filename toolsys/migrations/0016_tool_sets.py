"""Sessions that advertise the same tools share one set, addressed by its hash."""

from typing import Any

import django.db.models.deletion
import django.db.models.functions.datetime
from django.db import migrations, models

import toolsys.ids
from toolsys.rowsecurity import AppendOnly, TenantTables

# The owner is subject to row-level security like everybody.
FREE = "ALTER TABLE agent_sessions NO FORCE ROW LEVEL SECURITY; ALTER TABLE tool_sets NO FORCE ROW LEVEL SECURITY;"
BOUND = "ALTER TABLE agent_sessions FORCE ROW LEVEL SECURITY; ALTER TABLE tool_sets FORCE ROW LEVEL SECURITY;"
SHARE = """
INSERT INTO tool_sets (id, tenant_id, sha256, tools)
SELECT DISTINCT ON (tenant_id, tool_schema_sha256) gen_random_uuid(), tenant_id, tool_schema_sha256, pinned_tools
FROM agent_sessions;
UPDATE agent_sessions s SET tool_set_id = t.id FROM tool_sets t
WHERE t.tenant_id = s.tenant_id AND t.sha256 = s.tool_schema_sha256;
SET CONSTRAINTS ALL IMMEDIATE;
"""
COPY = """
UPDATE agent_sessions s SET pinned_tools = t.tools FROM tool_sets t
WHERE t.tenant_id = s.tenant_id AND t.id = s.tool_set_id;
"""
KEY = """
ALTER TABLE agent_sessions ADD CONSTRAINT agent_sessions_tool_set_id_of_tenant
FOREIGN KEY (tenant_id, tool_set_id) REFERENCES tool_sets (tenant_id, id);
"""
NO_KEY = "ALTER TABLE agent_sessions DROP CONSTRAINT agent_sessions_tool_set_id_of_tenant;"


def key(*, null: bool = False) -> "models.ForeignKey[Any, Any]":
    return models.ForeignKey(
        to="toolsys.toolset", on_delete=django.db.models.deletion.PROTECT, related_name="+", db_constraint=False,
        db_index=False, null=null,
    )  # fmt: skip


class Migration(migrations.Migration):
    dependencies = [("toolsys", "0015_key_name")]

    operations = [
        migrations.CreateModel(
            name="ToolSet",
            fields=[
                ("id", models.UUIDField(default=toolsys.ids.uuid7, editable=False, primary_key=True, serialize=False)),
                (
                    "created_at",
                    models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), editable=False),
                ),
                ("sha256", models.TextField()),
                ("tools", models.JSONField()),
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
                "db_table": "tool_sets",
                "constraints": [models.UniqueConstraint(fields=("tenant", "sha256"), name="tool_set_is_unique")],
            },
        ),
        TenantTables(["ToolSet"]),
        AppendOnly(["ToolSet"]),
        migrations.AddField("agentsession", "tool_set", key(null=True)),
        migrations.AlterField("agentsession", "pinned_tools", models.JSONField(null=True)),
        migrations.RunSQL(FREE, BOUND),
        migrations.RunSQL(SHARE, COPY),
        migrations.RunSQL(BOUND, FREE),
        migrations.AlterField("agentsession", "tool_set", key()),
        migrations.RemoveField("agentsession", "pinned_tools"),
        migrations.RunSQL(KEY, NO_KEY),
    ]
