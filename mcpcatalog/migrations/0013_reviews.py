"""What people accepted of catalogs, and whether changes wait until they have."""

import django.db.models.deletion
import django.db.models.functions.datetime
from django.conf import settings
from django.db import migrations, models

import toolsys.ids
from toolsys.rowsecurity import AppendOnly, TenantTables


class Migration(migrations.Migration):
    dependencies = [
        ("mcpcatalog", "0012_revision_raises_epoch"),
        ("toolsys", "0015_key_name"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name="CatalogPolicy",
            fields=[
                ("id", models.UUIDField(default=toolsys.ids.uuid7, editable=False, primary_key=True, serialize=False)),
                (
                    "created_at",
                    models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), editable=False),
                ),
                (
                    "is_quarantining",
                    models.BooleanField(default=False, help_text="Changed and new tools wait for a review."),
                ),
                (
                    "set_by",
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
                "verbose_name": "catalog policy",
                "db_table": "mcp_catalog_policies",
                "constraints": [models.UniqueConstraint(fields=("tenant",), name="mcp_catalog_policy_is_single")],
            },
        ),
        migrations.CreateModel(
            name="ToolReview",
            fields=[
                ("id", models.UUIDField(default=toolsys.ids.uuid7, editable=False, primary_key=True, serialize=False)),
                (
                    "created_at",
                    models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), editable=False),
                ),
                ("server_id", models.TextField()),
                ("endpoint_hash", models.TextField()),
                ("remote_name", models.TextField()),
                ("declaration_hash", models.TextField()),
                (
                    "accepted_by",
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
                "verbose_name": "tool review",
                "db_table": "mcp_tool_reviews",
                "constraints": [
                    models.UniqueConstraint(
                        fields=("tenant", "server_id", "remote_name", "declaration_hash", "endpoint_hash"),
                        name="mcp_tool_review_is_unique",
                    )
                ],
            },
        ),
        TenantTables(["CatalogPolicy", "ToolReview"], leaves=["CatalogPolicy", "ToolReview"]),
        AppendOnly(["ToolReview"]),
    ]
