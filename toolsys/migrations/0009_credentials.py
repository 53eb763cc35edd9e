"""The sealed credential store: what is sealed can be written and erased, and opened by one definer function only."""

import django.core.validators
import django.db.models.deletion
import django.db.models.functions.datetime
from django.db import migrations, models

import toolsys.ids
from toolsys.rowsecurity import RaisesAuthzEpoch, TenantTables
from toolsys.sqlfunctions import InstallFunctions

GRANTS = """
REVOKE DELETE ON credentials, credential_versions FROM toolsys_app, toolsys_operator;
REVOKE SELECT, UPDATE ON credential_versions FROM toolsys_app, toolsys_operator;
GRANT SELECT (id, tenant_id, created_at, credential_id, version, retired_at, last_used_at)
    ON credential_versions TO toolsys_app, toolsys_operator;
GRANT UPDATE (sealed, retired_at) ON credential_versions TO toolsys_app, toolsys_operator;
GRANT UPDATE (last_used_at) ON credential_versions TO toolsys_definer;
GRANT USAGE, CREATE ON SCHEMA public TO toolsys_definer;
"""
NO_GRANTS = """
REVOKE CREATE ON SCHEMA public FROM toolsys_definer;
GRANT SELECT, UPDATE, DELETE ON credentials, credential_versions TO toolsys_app, toolsys_operator;
"""


class Migration(migrations.Migration):
    dependencies = [
        ("toolsys", "0008_policy_epochs"),
    ]

    operations = [
        migrations.CreateModel(
            name="Credential",
            fields=[
                ("id", models.UUIDField(default=toolsys.ids.uuid7, editable=False, primary_key=True, serialize=False)),
                (
                    "created_at",
                    models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), editable=False),
                ),
                (
                    "name",
                    models.TextField(validators=[django.core.validators.RegexValidator("^[a-z][a-z0-9_-]{0,62}\\Z")]),
                ),
                ("current_version", models.IntegerField(db_default=0)),
                ("retired_at", models.DateTimeField(null=True)),
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
                "db_table": "credentials",
            },
        ),
        migrations.CreateModel(
            name="CredentialVersion",
            fields=[
                ("id", models.UUIDField(default=toolsys.ids.uuid7, editable=False, primary_key=True, serialize=False)),
                (
                    "created_at",
                    models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), editable=False),
                ),
                ("version", models.IntegerField()),
                ("sealed", models.BinaryField(null=True)),
                ("retired_at", models.DateTimeField(null=True)),
                ("last_used_at", models.DateTimeField(help_text="Exact to a minute.", null=True)),
                (
                    "credential",
                    models.ForeignKey(
                        db_constraint=False,
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="toolsys.credential",
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
                "db_table": "credential_versions",
            },
        ),
        migrations.AddConstraint(
            model_name="credential",
            constraint=models.UniqueConstraint(fields=("tenant", "name"), name="credential_name_is_unique"),
        ),
        migrations.AddConstraint(
            model_name="credentialversion",
            constraint=models.UniqueConstraint(
                fields=("tenant", "credential", "version"), name="credential_version_is_unique"
            ),
        ),
        TenantTables(
            ["Credential", "CredentialVersion"],
            definer=["Credential", "CredentialVersion"],
            leaves=["CredentialVersion"],
        ),
        RaisesAuthzEpoch("Credential", ["name", "current_version", "retired_at"]),
        RaisesAuthzEpoch("CredentialVersion", ["sealed", "retired_at"]),
        migrations.RunSQL(GRANTS, NO_GRANTS),
        InstallFunctions(["60_credentials.sql"]),
        migrations.RunSQL(
            "REVOKE CREATE ON SCHEMA public FROM toolsys_definer;",
            "GRANT CREATE ON SCHEMA public TO toolsys_definer;",
        ),
    ]
