"""The columns that the specification adds or defines, by name, type and nullability. Source: TS "Schema additions"."""

import pytest

from tests.architecture.test_database import rows
from tests.spec.requirements import gate

pytestmark = pytest.mark.usefixtures("database")

TEXT, TIME, JSON, INT, LONG, FLAG, ID = (
    "text", "timestamp with time zone", "jsonb", "integer", "bigint", "boolean", "uuid",
)  # fmt: skip
# `?` may be null.
TABLES = {
    "tool_invocations": {
        "tool_source": TEXT, "server_id": f"{TEXT}?", "idempotency_class": TEXT, "effect_sent_at": f"{TIME}?",
        "attempt_number": INT, "suspended_kind": f"{TEXT}?", "suspended_ref": f"{TEXT}?", "output_bytes": f"{LONG}?",
        "truncated": FLAG, "artifact_id": f"{ID}?", "outcome_status": f"{TEXT}?", "reason_code": f"{TEXT}?",
        "origin_trust": TEXT, "parallel_group": f"{ID}?",
    },
    "mcp_servers": {
        "id": ID, "tenant_id": TEXT, "server_id": TEXT, "transport": TEXT, "endpoint": TEXT, "auth_scheme": TEXT,
        "auth_name": f"{TEXT}?", "credential_ref": f"{TEXT}?", "token_endpoint": f"{TEXT}?", "token_scopes": f"{JSON}?",
        "side_effect": TEXT, "risk": TEXT, "idempotency": TEXT, "required_scopes": JSON, "timeout_seconds": INT,
        "maximum_output_bytes": LONG, "enabled": FLAG, "created_at": TIME,
    },
    "mcp_tool_catalog": {
        "id": ID, "tenant_id": TEXT, "server_id": TEXT, "catalog_hash": TEXT, "remote_name": TEXT,
        "registry_name": TEXT, "input_schema": JSON, "discovered_at": TIME, "withdrawn_at": f"{TIME}?",
    },
}  # fmt: skip
UNIQUE = {
    # Per tenant, where the specification says globally: one tenant must not probe another's keys (DESIGN §1).
    ("tool_invocations", "(tenant_id, idempotency_key)"),
    ("mcp_servers", "(tenant_id, server_id)"),
    ("mcp_tool_catalog", "(tenant_id, server_id, catalog_hash, remote_name)"),
}


@gate("schema.additions")
@pytest.mark.parametrize("table", TABLES)
def test_the_columns_of_the_specification_are_there_and_hold_what_it_says(table: str) -> None:
    found = rows(f"""SELECT column_name, data_type || CASE is_nullable WHEN 'YES' THEN '?' ELSE '' END
        FROM information_schema.columns WHERE table_schema = 'public' AND table_name = '{table}'""")
    assert dict(found).items() >= TABLES[table].items()


@gate("schema.additions", "key.tenant")
def test_what_the_specification_calls_unique_is() -> None:
    found = rows("""SELECT conrelid::regclass::text, replace(pg_get_constraintdef(oid), 'UNIQUE ', '')
        FROM pg_constraint WHERE contype = 'u'""")
    assert set(found) >= UNIQUE


@gate("schema.additions")
def test_a_row_of_the_catalog_s_history_is_withdrawn_and_never_changed() -> None:
    may = rows("""SELECT grantee::text, column_name::text FROM information_schema.column_privileges
        WHERE table_name = 'mcp_tool_catalog' AND privilege_type = 'UPDATE'
        AND grantee IN ('toolsys_app', 'toolsys_operator', 'PUBLIC')""")
    assert {column for _, column in may} == {"withdrawn_at"}
