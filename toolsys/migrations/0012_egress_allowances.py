"""The tenants' allowlists of origins: nothing may be dialled for a tenant but what a row names."""

import django.db.models.deletion
import django.db.models.functions.datetime
from django.conf import settings
from django.db import migrations, models

import toolsys.ids
from toolsys.rowsecurity import RaisesAuthzEpoch, TenantTables


class Migration(migrations.Migration):
    dependencies = [
        ("toolsys", "0011_platform_roles"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name="EgressAllowance",
            fields=[
                ("id", models.UUIDField(default=toolsys.ids.uuid7, editable=False, primary_key=True, serialize=False)),
                (
                    "created_at",
                    models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), editable=False),
                ),
                ("origin", models.TextField()),
                ("note", models.TextField(blank=True, default="")),
                (
                    "added_by",
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
                "verbose_name": "reachable host",
                "db_table": "egress_allowances",
                "constraints": [models.UniqueConstraint(fields=("tenant", "origin"), name="egress_origin_is_unique")],
            },
        ),
        TenantTables(["EgressAllowance"], leaves=["EgressAllowance"]),
        RaisesAuthzEpoch("EgressAllowance", ["origin"], on_insert=True),
    ]
