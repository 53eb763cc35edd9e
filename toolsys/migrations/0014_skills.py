"""Skills by their metadata: a history, of which only the withdrawal changes."""

import django.db.models.deletion
import django.db.models.functions.datetime
from django.db import migrations, models

import toolsys.ids
from toolsys.rowsecurity import TenantTables

GRANTS = """
REVOKE UPDATE, DELETE, TRUNCATE ON skills FROM toolsys_app, toolsys_operator;
GRANT UPDATE (withdrawn_at) ON skills TO toolsys_app, toolsys_operator;
"""
NO_GRANTS = "GRANT UPDATE, DELETE ON skills TO toolsys_app, toolsys_operator;"


class Migration(migrations.Migration):
    dependencies = [
        ("toolsys", "0013_approvals"),
    ]

    operations = [
        migrations.CreateModel(
            name="Skill",
            fields=[
                ("id", models.UUIDField(default=toolsys.ids.uuid7, editable=False, primary_key=True, serialize=False)),
                (
                    "created_at",
                    models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), editable=False),
                ),
                ("source", models.TextField(choices=[("platform", "platform"), ("agent", "agent"), ("mcp", "mcp")])),
                ("server_id", models.TextField(null=True)),
                ("name", models.TextField()),
                ("version", models.TextField()),
                ("description", models.TextField(blank=True)),
                ("remote_name", models.TextField(blank=True)),
                ("required_tools", models.JSONField(default=list)),
                ("arguments", models.JSONField(default=list)),
                ("withdrawn_at", models.DateTimeField(null=True)),
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
                "db_table": "skills",
                "indexes": [
                    models.Index(
                        condition=models.Q(("withdrawn_at", None)), fields=["tenant", "id"], name="skill_is_live"
                    )
                ],
                "constraints": [
                    models.UniqueConstraint(fields=("tenant", "name", "version"), name="skill_version_is_unique"),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("server_id__isnull", False), ("source", "mcp")),
                            models.Q(models.Q(("source", "mcp"), _negated=True), ("server_id", None)),
                            _connector="OR",
                        ),
                        name="skill_of_a_server_is_mcp",
                    ),
                ],
            },
        ),
        TenantTables(["Skill"], leaves=["Skill"]),
        migrations.RunSQL(GRANTS, NO_GRANTS),
    ]
