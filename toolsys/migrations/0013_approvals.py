"""Approvals keep who voted and why they rejected; standing grants and their uses; every evaluation of a worker."""

from typing import Any

import django.db.models.deletion
import django.db.models.functions.datetime
from django.conf import settings
from django.db import migrations, models
from django.db.models import Value

import toolsys.ids
from toolsys.rowsecurity import AppendOnly, RaisesAuthzEpoch, TenantTables
from toolsys.sqlfunctions import InstallFunctions

EMPTY = Value([], output_field=models.JSONField())
LABELS = ["platform", "trusted_configuration", "user", "internal_tool", "external_untrusted"]
OLD_FUNCTIONS = """
DROP FUNCTION IF EXISTS toolsys_commit_claim(text, uuid, int, text, float, bigint, timestamptz, int, int, int);
DROP FUNCTION IF EXISTS toolsys_record_decision(text, uuid);
"""
# What a grant says never changes: only its uses, its confirmations and its end do.
GUARDS = """
REVOKE UPDATE, DELETE, TRUNCATE ON standing_grants FROM toolsys_app, toolsys_operator;
GRANT UPDATE (uses, confirmations, activated_at, revoked_at, revoked_by_id) ON standing_grants TO toolsys_app;
"""
UNGUARD = "GRANT UPDATE, DELETE ON standing_grants TO toolsys_app, toolsys_operator;"
PEOPLE = """
CREATE POLICY definer_lookup ON tenants TO toolsys_definer USING (true);
GRANT SELECT (id, authz_epoch), UPDATE (authz_epoch) ON tenants TO toolsys_definer;
GRANT CREATE ON SCHEMA public TO toolsys_definer;
"""
PEOPLE_AFTER = """
REVOKE CREATE ON SCHEMA public FROM toolsys_definer;
CREATE TRIGGER raises_authz_epochs AFTER UPDATE OF is_active ON auth_user
    FOR EACH ROW WHEN (OLD.is_active <> NEW.is_active) EXECUTE FUNCTION toolsys_raise_epochs_of_person();
"""
NO_PEOPLE = """
DROP POLICY definer_lookup ON tenants;
REVOKE ALL ON tenants FROM toolsys_definer;
"""


def key(to: str, **options: Any) -> "models.ForeignKey[Any, Any]":
    return models.ForeignKey(
        db_constraint=False,
        db_index=False,
        on_delete=django.db.models.deletion.PROTECT,
        related_name="+",
        to=to,
        **options,
    )


def tenant(**options: Any) -> "models.ForeignKey[Any, Any]":
    return models.ForeignKey(
        db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name="+", to="toolsys.tenant", **options
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
    dependencies = [("toolsys", "0012_egress_allowances"), migrations.swappable_dependency(settings.AUTH_USER_MODEL)]

    operations = [
        migrations.AddField("approvalrequest", "votes", models.JSONField(default=list, db_default=EMPTY)),
        migrations.AddField("approvalrequest", "rejection_code", models.TextField(null=True)),
        migrations.AddField("approvalrequest", "tool_digest", models.TextField(db_default="")),
        migrations.CreateModel(
            name="StandingGrant",
            fields=[
                *identity(),
                ("tool_name", models.TextField()),
                ("tool_digest", models.TextField()),
                ("seats", models.JSONField(default=list)),
                ("origin_trust", models.TextField(choices=[(label, label) for label in LABELS])),
                ("conditions", models.JSONField(default=list)),
                ("maximum_uses", models.IntegerField()),
                ("uses", models.IntegerField(db_default=0)),
                ("expires_at", models.DateTimeField()),
                ("note", models.TextField()),
                ("confirmations", models.JSONField(default=list, db_default=EMPTY)),
                ("activated_at", models.DateTimeField(null=True)),
                ("revoked_at", models.DateTimeField(null=True)),
                ("agent", key("toolsys.agent")),
                ("principal", key("toolsys.principal", null=True)),
                ("proposed_by", person()),
                ("request", key("toolsys.approvalrequest")),
                ("revoked_by", person(null=True)),
                ("tenant", tenant()),
            ],
            options={"db_table": "standing_grants"},
        ),
        migrations.AddConstraint(
            "standinggrant",
            models.CheckConstraint(
                condition=models.Q(("uses__lte", models.F("maximum_uses"))), name="grant_is_used_no_more_than_it_says"
            ),
        ),
        migrations.AddIndex(
            "standinggrant", models.Index(fields=["tenant", "revoked_at", "expires_at"], name="grant_by_end")
        ),
        migrations.CreateModel(
            name="GrantUse",
            fields=[
                *identity(),
                ("grant", key("toolsys.standinggrant")),
                ("invocation", key("toolsys.invocation")),
                ("tenant", tenant(db_constraint=False)),
            ],
            options={"db_table": "grant_uses"},
        ),
        migrations.AddConstraint(
            "grantuse", models.UniqueConstraint(fields=("tenant", "invocation"), name="call_uses_one_grant")
        ),
        migrations.AddIndex("grantuse", models.Index(fields=["tenant", "grant"], name="grant_use_by_grant")),
        TenantTables(["StandingGrant", "GrantUse"], leaves=["GrantUse"]),
        AppendOnly(["GrantUse"]),
        migrations.RunSQL(GUARDS, UNGUARD),
        RaisesAuthzEpoch("StandingGrant", ["confirmations", "activated_at", "revoked_at"], on_insert=True),
        migrations.RunSQL(OLD_FUNCTIONS, migrations.RunSQL.noop),
        InstallFunctions(["20_facts.sql", "30_commits.sql", "50_decisions.sql"], is_first=False),
        InstallFunctions(["55_grants.sql"]),
        migrations.RunSQL(PEOPLE, NO_PEOPLE),
        InstallFunctions(["45_people.sql"]),
        migrations.RunSQL(PEOPLE_AFTER, "DROP TRIGGER raises_authz_epochs ON auth_user;"),
    ]
