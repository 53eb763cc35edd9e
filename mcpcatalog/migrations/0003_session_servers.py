"""What a session may still expect of a server, after a login was refused."""

import django.db.models.deletion
import django.db.models.functions.datetime
from django.db import migrations, models

import toolsys.ids
from toolsys.rowsecurity import TenantTables

STANDING = """
CREATE OR REPLACE FUNCTION mcpcatalog_raise_epoch_of_session() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE tenants SET authz_epoch = authz_epoch + 1 WHERE id = coalesce(NEW.tenant_id, OLD.tenant_id);
    RETURN NULL;
END $$;

CREATE TRIGGER raises_authz_epoch AFTER INSERT OR UPDATE OR DELETE ON mcp_session_servers
    FOR EACH ROW EXECUTE FUNCTION mcpcatalog_raise_epoch_of_session();
"""


class Migration(migrations.Migration):
    dependencies = [
        ("mcpcatalog", "0002_deployment_credentials"),
        ("toolsys", "0009_credentials"),
    ]

    operations = [
        migrations.CreateModel(
            name="SessionServer",
            fields=[
                ("id", models.UUIDField(default=toolsys.ids.uuid7, editable=False, primary_key=True, serialize=False)),
                (
                    "created_at",
                    models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), editable=False),
                ),
                ("server_id", models.TextField()),
                ("reauthenticated_at", models.DateTimeField(null=True)),
                ("unavailable_at", models.DateTimeField(null=True)),
                ("reason_code", models.TextField(blank=True, default="")),
                (
                    "session",
                    models.ForeignKey(
                        db_constraint=False,
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="toolsys.agentsession",
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
                "verbose_name": "server of a session",
                "db_table": "mcp_session_servers",
                "constraints": [
                    models.UniqueConstraint(
                        fields=("tenant", "session", "server_id"), name="mcp_session_server_is_unique"
                    )
                ],
            },
        ),
        TenantTables(["SessionServer"], leaves=["SessionServer"]),
        migrations.RunSQL(
            STANDING,
            "DROP TRIGGER raises_authz_epoch ON mcp_session_servers; DROP FUNCTION mcpcatalog_raise_epoch_of_session();",
        ),
    ]
