"""A server's revision says whether its connection keeps state, and so where its calls are done: workers look again."""

from django.db import migrations

from toolsys.rowsecurity import RaisesAuthzEpoch

COLUMNS = [
    "server_id", "transport", "endpoint", "auth_scheme", "auth_name", "credential_ref", "token_endpoint", "token_scopes",
    "side_effect", "risk", "idempotency", "required_scopes", "timeout_seconds", "maximum_output_bytes", "mode",
    "fixed_tools", "key_place", "key_name", "is_stateless", "enabled", "catalog_hash",
]  # fmt: skip
DROP = "DROP TRIGGER raises_authz_epoch ON mcp_servers;"
BEFORE = (
    f"CREATE TRIGGER raises_authz_epoch AFTER DELETE OR UPDATE OF {', '.join(COLUMNS)} ON mcp_servers "
    "FOR EACH ROW EXECUTE FUNCTION toolsys_raise_authz_epoch();"
)


class Migration(migrations.Migration):
    dependencies = [("mcpcatalog", "0011_contracts")]

    operations = [
        migrations.RunSQL(DROP, BEFORE),
        RaisesAuthzEpoch("McpServer", [*COLUMNS, "negotiated_revision"]),
    ]
