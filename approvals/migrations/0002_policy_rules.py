"""Policy of a tenant: rules in versions, profiles, tool permissions and kill switches."""

import django.db.models.deletion
import django.db.models.functions.datetime
from django.conf import settings
from django.db import migrations, models

import toolsys.ids
from toolsys.rowsecurity import AppendOnly, RaisesAuthzEpoch, TenantTables


class Migration(migrations.Migration):
    dependencies = [
        ("approvals", "0001_initial"),
        ("toolsys", "0008_policy_epochs"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name="PolicyRule",
            fields=[
                ("id", models.UUIDField(default=toolsys.ids.uuid7, editable=False, primary_key=True, serialize=False)),
                (
                    "created_at",
                    models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), editable=False),
                ),
                ("name", models.TextField()),
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
                "db_table": "policy_rules",
            },
        ),
        migrations.CreateModel(
            name="PolicyRuleVersion",
            fields=[
                ("id", models.UUIDField(default=toolsys.ids.uuid7, editable=False, primary_key=True, serialize=False)),
                (
                    "created_at",
                    models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), editable=False),
                ),
                ("version", models.IntegerField()),
                ("is_active", models.BooleanField()),
                ("priority", models.IntegerField()),
                (
                    "verdict",
                    models.TextField(
                        choices=[
                            ("allow", "allow"),
                            ("observe", "observe"),
                            ("require_expert_approval", "require expert approval"),
                            ("require_client_approval", "require client approval"),
                            ("block", "block"),
                        ]
                    ),
                ),
                ("match", models.JSONField(default=dict)),
                ("note", models.TextField(blank=True)),
                (
                    "author",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="+", to=settings.AUTH_USER_MODEL
                    ),
                ),
                (
                    "owner",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="+", to=settings.AUTH_USER_MODEL
                    ),
                ),
                (
                    "rule",
                    models.ForeignKey(
                        db_constraint=False,
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="approvals.policyrule",
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
                "db_table": "policy_rule_versions",
            },
        ),
        migrations.CreateModel(
            name="ToolPermission",
            fields=[
                ("id", models.UUIDField(default=toolsys.ids.uuid7, editable=False, primary_key=True, serialize=False)),
                (
                    "created_at",
                    models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), editable=False),
                ),
                ("tools", models.TextField()),
                ("is_enabled", models.BooleanField(default=True)),
                (
                    "agent",
                    models.ForeignKey(
                        blank=True,
                        db_constraint=False,
                        db_index=False,
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="toolsys.agent",
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
                "db_table": "tool_permissions",
            },
        ),
        migrations.CreateModel(
            name="KillSwitch",
            fields=[
                ("id", models.UUIDField(default=toolsys.ids.uuid7, editable=False, primary_key=True, serialize=False)),
                (
                    "created_at",
                    models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), editable=False),
                ),
                ("kind", models.TextField(choices=[("server", "server"), ("tool", "tool"), ("key", "key")])),
                ("target", models.TextField()),
                ("number", models.IntegerField()),
                ("is_off", models.BooleanField()),
                ("note", models.TextField(blank=True)),
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
                    "thrown_by",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="+", to=settings.AUTH_USER_MODEL
                    ),
                ),
            ],
            options={
                "db_table": "kill_switches",
                "constraints": [
                    models.UniqueConstraint(
                        fields=("tenant", "kind", "target", "number"), name="kill_switch_throw_is_unique"
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="PolicyProfile",
            fields=[
                ("id", models.UUIDField(default=toolsys.ids.uuid7, editable=False, primary_key=True, serialize=False)),
                (
                    "created_at",
                    models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), editable=False),
                ),
                ("name", models.TextField()),
                ("mildest", models.JSONField(blank=True, default=dict)),
                ("expires_seconds", models.FloatField(blank=True, null=True)),
                ("consume_seconds", models.FloatField(blank=True, null=True)),
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
                "db_table": "policy_profiles",
                "constraints": [
                    models.UniqueConstraint(fields=("tenant", "name"), name="policy_profile_name_is_unique")
                ],
            },
        ),
        migrations.AddConstraint(
            model_name="policyrule",
            constraint=models.UniqueConstraint(fields=("tenant", "name"), name="policy_rule_name_is_unique"),
        ),
        migrations.AddConstraint(
            model_name="policyruleversion",
            constraint=models.UniqueConstraint(
                fields=("tenant", "rule", "version"), name="policy_rule_version_is_unique"
            ),
        ),
        migrations.AddConstraint(
            model_name="toolpermission",
            constraint=models.UniqueConstraint(
                fields=("tenant", "agent", "tools"), name="tool_permission_is_unique", nulls_distinct=False
            ),
        ),
        TenantTables(
            ["PolicyRule", "PolicyRuleVersion", "PolicyProfile", "ToolPermission", "KillSwitch"],
            leaves=["PolicyRuleVersion", "PolicyProfile", "ToolPermission", "KillSwitch"],
        ),
        AppendOnly(["PolicyRule", "PolicyRuleVersion", "KillSwitch"]),
        RaisesAuthzEpoch("PolicyRuleVersion", ["version"], on_insert=True),
        RaisesAuthzEpoch("PolicyProfile", ["name", "mildest", "expires_seconds", "consume_seconds"], on_insert=True),
        RaisesAuthzEpoch("ToolPermission", ["agent_id", "tools", "is_enabled"], on_insert=True),
        RaisesAuthzEpoch("KillSwitch", ["is_off"], on_insert=True),
        migrations.RunSQL(
            # What rules may loosen is the operators' to say: the application reads it and never writes it.
            "REVOKE INSERT, UPDATE, DELETE, TRUNCATE ON policy_profiles FROM toolsys_app",
            "GRANT INSERT, UPDATE, DELETE ON policy_profiles TO toolsys_app",
        ),
    ]
