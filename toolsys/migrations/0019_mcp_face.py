"""The MCP face: conversations of its clients, and which step each of their calls became."""

import django.db.models.deletion
import django.db.models.functions.datetime
from django.db import migrations, models

import toolsys.ids
from toolsys.rowsecurity import TenantTables
from toolsys.sqlfunctions import InstallFunctions


def _key(to: str) -> "models.ForeignKey[object, object]":
    return models.ForeignKey(
        db_constraint=False, db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name="+", to=to
    )


def _owned() -> list[tuple[str, "models.Field[object, object]"]]:
    return [
        ("id", models.UUIDField(default=toolsys.ids.uuid7, editable=False, primary_key=True, serialize=False)),
        ("created_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), editable=False)),
        (
            "tenant",
            models.ForeignKey(
                db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name="+", to="toolsys.tenant"
            ),
        ),
    ]


class Migration(migrations.Migration):
    dependencies = [
        ("toolsys", "0018_lease_waits"),
    ]

    operations = [
        migrations.CreateModel(
            name="McpClientSession",
            fields=[
                *_owned(),
                ("api_key", _key("toolsys.apikey")),
                ("session", _key("toolsys.agentsession")),
                ("run", _key("toolsys.run")),
                ("revision", models.TextField()),
                ("context", models.TextField(null=True)),
                ("next_step", models.IntegerField(default=1)),
                ("last_call_at", models.DateTimeField()),
                ("closed_at", models.DateTimeField(null=True)),
            ],
            options={
                "db_table": "mcp_client_sessions",
                "constraints": [
                    models.UniqueConstraint(
                        condition=models.Q(("closed_at", None)),
                        fields=("tenant", "api_key", "context"),
                        name="mcp_context_is_unique",
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="McpProposal",
            fields=[
                *_owned(),
                ("client_session", _key("toolsys.mcpclientsession")),
                ("run", _key("toolsys.run")),
                ("step_number", models.IntegerField()),
                ("fingerprint", models.TextField()),
                ("request_id", models.TextField(blank=True)),
                ("client_key", models.TextField(null=True)),
                ("collected_at", models.DateTimeField(null=True)),
            ],
            options={
                "db_table": "mcp_proposals",
                "constraints": [
                    models.UniqueConstraint(fields=("tenant", "run", "step_number"), name="mcp_step_is_unique"),
                    models.UniqueConstraint(
                        fields=("tenant", "client_session", "client_key"), name="mcp_key_is_unique"
                    ),
                ],
                "indexes": [
                    models.Index(
                        condition=models.Q(("collected_at", None)),
                        fields=["tenant", "client_session", "fingerprint"],
                        name="mcp_call_is_uncollected",
                    ),
                    models.Index(
                        condition=models.Q(("request_id", ""), _negated=True),
                        fields=["tenant", "client_session", "request_id"],
                        name="mcp_call_by_request",
                    ),
                ],
            },
        ),
        TenantTables(["McpClientSession", "McpProposal"], leaves=["McpProposal"]),
        InstallFunctions(["75_mcp_face.sql"]),
    ]
