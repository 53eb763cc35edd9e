"""Votes in seats that can be taken back, confirmations of grants, requests for access, who threw the great switches."""

from typing import Any

import django.db.models.deletion
import django.db.models.functions.datetime
from django.conf import settings
from django.db import migrations, models

import approvals.models
import toolsys.ids
from toolsys.rowsecurity import AppendOnly, TenantTables

EMPTY = models.Value([], output_field=models.JSONField())
OPERATORS = "REVOKE ALL ON platform_switches FROM toolsys_app;"


def key(to: str, **options: Any) -> "models.ForeignKey[Any, Any]":
    return models.ForeignKey(
        db_constraint=False,
        db_index=False,
        on_delete=django.db.models.deletion.PROTECT,
        related_name="+",
        to=to,
        **options,
    )


def tenant() -> "models.ForeignKey[Any, Any]":
    return models.ForeignKey(
        db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name="+", to="toolsys.tenant"
    )


def person(**options: Any) -> "models.ForeignKey[Any, Any]":
    return models.ForeignKey(
        on_delete=django.db.models.deletion.PROTECT, related_name="+", to=settings.AUTH_USER_MODEL, **options
    )


def identity() -> "list[tuple[str, models.Field[Any, Any]]]":
    return [
        ("id", models.UUIDField(default=toolsys.ids.uuid7, editable=False, primary_key=True, serialize=False)),
        ("created_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), editable=False)),
    ]


class Migration(migrations.Migration):
    dependencies = [
        ("approvals", "0002_policy_rules"),
        ("toolsys", "0013_approvals"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.RemoveConstraint("approvalvote", "person_votes_once"),
        migrations.AddField("approvalvote", "number", models.SmallIntegerField(db_default=1)),
        migrations.AddField("approvalvote", "is_withdrawal", models.BooleanField(db_default=False)),
        migrations.AddField("approvalvote", "is_reauthenticated", models.BooleanField(db_default=False)),
        migrations.AddField("approvalvote", "rejection", models.TextField(blank=True, db_default="")),
        migrations.AddConstraint(
            "approvalvote",
            models.UniqueConstraint(fields=("tenant", "request", "number"), name="approval_vote_is_numbered"),
        ),
        migrations.AddField("policyruleversion", "seats", models.JSONField(db_default=EMPTY, default=list)),
        migrations.AlterField(
            "killswitch",
            "kind",
            models.TextField(choices=[(kind, kind) for kind in ("server", "tool", "key", "tenant")]),
        ),
        migrations.CreateModel(
            name="GrantConfirmation",
            fields=[
                *identity(),
                ("seat", models.TextField()),
                ("note", models.TextField(blank=True)),
                ("grant", key("toolsys.standinggrant")),
                ("tenant", tenant()),
                ("user", person()),
            ],
            options={
                "db_table": "grant_confirmations",
                "constraints": [
                    models.UniqueConstraint(fields=("tenant", "grant", "user"), name="person_confirms_a_grant_once")
                ],
            },
        ),
        migrations.CreateModel(
            name="AccessRequest",
            fields=[
                *identity(),
                ("tool_name", models.TextField()),
                ("reason_code", models.TextField()),
                ("note", models.TextField(blank=True)),
                (
                    "status",
                    models.TextField(
                        choices=[(status, status) for status in ("open", "granted", "dismissed")],
                        default=approvals.models.AccessStatus.OPEN,
                    ),
                ),
                ("answered_at", models.DateTimeField(null=True)),
                ("answer", models.TextField(blank=True)),
                ("answered_by", person(null=True)),
                ("api_key", key("toolsys.apikey", null=True)),
                ("asked_by", person(null=True)),
                ("invocation", key("toolsys.invocation")),
                ("run", key("toolsys.run")),
                ("tenant", tenant()),
            ],
            options={
                "db_table": "access_requests",
                "constraints": [
                    models.UniqueConstraint(
                        fields=("tenant", "run", "tool_name", "reason_code"), name="access_is_asked_once_a_run"
                    )
                ],
                "indexes": [models.Index(fields=["tenant", "status", "-id"], name="access_request_by_status")],
            },
        ),
        migrations.CreateModel(
            name="PlatformSwitch",
            fields=[
                *identity(),
                ("is_off", models.BooleanField()),
                ("note", models.TextField(blank=True)),
                ("thrown_by", person()),
            ],
            options={"db_table": "platform_switches"},
        ),
        TenantTables(["GrantConfirmation", "AccessRequest"], leaves=["GrantConfirmation", "AccessRequest"]),
        AppendOnly(["GrantConfirmation", "PlatformSwitch"]),
        migrations.RunSQL(OPERATORS, migrations.RunSQL.noop),
    ]
