"""Rules of the migrated database itself: row-level security, roles, keys, definer functions, append-only tables."""

import re
from typing import Any

import pytest
from django.db import DatabaseError, connections, transaction

from tests.architecture.rows import make, make_tenant, parents, tenant_models
from tests.spec.requirements import gate
from toolsys.domain.trust import TrustLevel
from toolsys.sqlfunctions import FOLDER

APPEND_ONLY = {
    "tool_events", "policy_decisions", "uncertain_resolutions", "policy_rules", "policy_rule_versions", "kill_switches",
    "approval_votes", "grant_uses", "grant_confirmations",
    "notification_attempts",
}  # fmt: skip
pytestmark = pytest.mark.usefixtures("database")


def rows(statement: str, using: str = "owner") -> list[tuple[Any, ...]]:
    with connections[using].cursor() as cursor:
        cursor.execute(statement)
        return list(cursor.fetchall())


def column(statement: str) -> set[Any]:
    return {row[0] for row in rows(statement)}


OURS = "relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p')"
OF_TENANT = f"""SELECT c.relname FROM pg_class c WHERE {OURS} AND (c.relname = 'tenants' OR EXISTS (
    SELECT 1 FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attname = 'tenant_id' AND NOT a.attisdropped))"""


@gate("rls.forced")
def test_row_level_security_is_enabled_and_forced_on_every_tenant_table() -> None:
    tables = column(OF_TENANT)
    assert tables >= {"tenants", *(model._meta.db_table for model in tenant_models())}
    assert column(f"SELECT relname FROM pg_class WHERE {OURS} AND relrowsecurity AND relforcerowsecurity") >= tables


@gate("rls.forced")
def test_every_tenant_table_has_exactly_the_known_policies() -> None:
    tables = column(OF_TENANT)
    found = rows("SELECT tablename, policyname, roles::text[], cmd, qual, with_check FROM pg_policies")
    setting = "current_setting('toolsys.tenant_id'::text, true)"
    isolating = {row[0] for row in found if row[1] == "tenant_isolation" and setting in row[4] and row[4] == row[5]}
    assert isolating == tables
    others = {(row[1], *row[2]) for row in found if row[1] != "tenant_isolation"}
    assert others <= {("operator_all", "toolsys_operator"), ("definer_lookup", "toolsys_definer"),
                      ("definer_dispatch", "toolsys_definer")}  # fmt: skip
    open_to_the_application = [row for row in found if "toolsys_app" in row[2] and row[1] != "tenant_isolation"]
    assert open_to_the_application == []


@gate("rls.roles")
def test_the_application_s_roles_are_bound_by_row_level_security() -> None:
    assert [rows("SELECT current_user", alias)[0][0] for alias in ("default", "operator", "owner")] == [
        "toolsys_app", "toolsys_operator", "toolsys_owner",
    ]  # fmt: skip
    found = rows("""SELECT rolname, rolsuper, rolbypassrls, rolcreaterole, rolcanlogin, EXISTS (
        SELECT 1 FROM pg_class c WHERE c.relowner = r.oid) FROM pg_roles r WHERE rolname LIKE 'toolsys%' ORDER BY 1""")
    assert found == [
        ("toolsys_app", False, False, False, True, False),
        ("toolsys_definer", False, False, False, False, False),
        ("toolsys_operator", False, False, False, True, False),
        ("toolsys_owner", False, False, False, True, True),
    ]
    memberships = rows("""SELECT m.rolname FROM pg_auth_members a JOIN pg_roles m ON m.oid = a.member
        WHERE m.rolname IN ('toolsys_app', 'toolsys_operator')""")
    assert memberships == [], "neither can become another role"


@gate("wait.bounded")
@pytest.mark.parametrize("alias", ["default", "operator"])
def test_the_server_ends_what_would_wait_for_ever(alias: str) -> None:
    """A process that is frozen inside of a transaction holds its locks: without an end, everybody else's."""
    for setting in ("lock_timeout", "statement_timeout", "idle_in_transaction_session_timeout"):
        found = rows(f"SELECT setting::int FROM pg_settings WHERE name = '{setting}'", alias)
        assert 0 < found[0][0] <= 120_000, setting


KEY = "FOREIGN KEY (tenant_id, {}) REFERENCES {}(tenant_id, id)"


@gate("rls.composite")
def test_keys_between_tenant_tables_carry_the_tenant() -> None:
    declared = {
        (model._meta.db_table, KEY.format(field.column, field.related_model._meta.db_table))
        for model in tenant_models()
        for field in parents(model)
    }
    found = set(
        rows("SELECT conrelid::regclass::text, pg_get_constraintdef(oid) FROM pg_constraint WHERE contype = 'f'")
    )
    assert declared - found == set()
    tables = column(OF_TENANT) - {"tenants"}
    plain = [
        (table, definition)
        for table, definition in found
        if table in tables
        and definition.split("REFERENCES ")[1].split("(")[0] in tables
        and "(tenant_id," not in definition
    ]
    assert plain == []


@gate("key.tenant")
def test_no_unique_index_spans_tenants_but_those_that_tell_nothing() -> None:
    """Ids are random; a key's prefix is looked up before a tenant is known."""
    spanning = rows(f"""SELECT t.relname, pg_get_indexdef(i.indexrelid)
        FROM pg_index i JOIN pg_class t ON t.oid = i.indrelid
        WHERE i.indisunique AND t.relname IN ({OF_TENANT}) AND t.relname <> 'tenants' AND NOT EXISTS (
            SELECT 1 FROM pg_attribute a
            WHERE a.attrelid = t.oid AND a.attname = 'tenant_id' AND a.attnum = i.indkey[0])""")
    columns = {(table, re.findall(r"\((.*?)\)", definition)[0]) for table, definition in spanning}
    assert {found for found in columns if found[1] != "id"} == {("api_keys", "prefix")}


ACROSS_TENANTS = {
    # What definer functions ask before a tenant is known: whose lease has passed, what is due, what is old.
    "lease_has_passed", "dispatch_is_due", "step_is_open", "approval_is_open", "run_by_deadline", "delivery_is_over",
    "mcp_change_by_age", "mcp_conversation_by_age", "mcp_call_by_age", "mcp_route_by_worker", "skill_by_age",
    "tool_set_by_version",
}  # fmt: skip


@gate("rls.indexes")
def test_every_index_of_a_tenant_table_begins_with_the_tenant_but_those_of_sweeps() -> None:
    found = column(f"""SELECT x.relname FROM pg_index i JOIN pg_class t ON t.oid = i.indrelid
        JOIN pg_class x ON x.oid = i.indexrelid
        WHERE NOT i.indisunique AND t.relname IN ({OF_TENANT}) AND t.relname <> 'tenants' AND NOT EXISTS (
            SELECT 1 FROM pg_attribute a
            WHERE a.attrelid = t.oid AND a.attname = 'tenant_id' AND a.attnum = i.indkey[0])""")
    # Django names those of keys to people, and of the key's prefix, itself.
    ours = {name for name in found if not re.search(r"_(?:id|prefix)_[0-9a-f]{8}(?:_like)?$", name)}
    assert ours == ACROSS_TENANTS


@gate("rls.definers")
def test_definer_functions_are_narrow() -> None:
    found = rows("""SELECT p.proname, o.rolname, o.rolcanlogin, p.proconfig::text[], coalesce(p.proacl::text[], '{}')
        FROM pg_proc p JOIN pg_roles o ON o.oid = p.proowner
        WHERE p.pronamespace = 'public'::regnamespace AND p.prosecdef ORDER BY 1""")
    assert {row[0] for row in found} >= {"toolsys_find_api_key", "toolsys_find_memberships", "toolsys_sweep"}
    for name, owner, can_login, configuration, grants in found:
        assert (owner, can_login) == ("toolsys_definer", False), name
        assert "search_path=pg_catalog, public" in configuration, name
        assert grants, f"{name}: no grants means that PUBLIC may execute it"
        assert not [grant for grant in grants if grant.startswith("=")], f"{name} is open to PUBLIC"


@gate("rls.definers")
def test_definer_functions_name_the_schema_of_every_table() -> None:
    """A temporary table of the same name would be found first, whatever the path says."""
    tables = "|".join(sorted(column(f"SELECT relname FROM pg_class WHERE {OURS}")))
    bodies = rows("SELECT proname, prosrc FROM pg_proc WHERE pronamespace = 'public'::regnamespace AND prosecdef")
    assert len(bodies) > 10
    bare = re.compile(rf"(?<!public\.)\b({tables})\b")
    found = {name: bare.findall(re.sub(r"--[^\n]*", "", body)) for name, body in bodies}
    assert {name: named for name, named in found.items() if named} == {}


@gate("rls.definers")
def test_the_definer_role_can_create_nothing() -> None:
    found = rows("""SELECT has_schema_privilege(r, 'public', 'CREATE')
        FROM unnest(ARRAY['toolsys_definer', 'toolsys_app', 'toolsys_operator']) AS r""")
    assert found == [(False,)] * 3


def change(alias: str, tenant_id: str, statement: str) -> None:
    with transaction.atomic(using=alias), connections[alias].cursor() as cursor:
        cursor.execute("SELECT set_config('toolsys.tenant_id', %s, true)", [tenant_id])
        cursor.execute(statement)


@gate("ledger.append_only")
@pytest.mark.parametrize("alias", ["default", "operator", "owner"])
@pytest.mark.parametrize("table", sorted(APPEND_ONLY))
@pytest.mark.parametrize("statement", ["UPDATE {} SET tenant_id = tenant_id", "DELETE FROM {}", "TRUNCATE {} CASCADE"])
def test_append_only_tables_refuse_changes_whoever_asks(alias: str, table: str, statement: str) -> None:
    model = next(model for model in tenant_models() if model._meta.db_table == table)
    tenant_id = make_tenant("acme")
    row = make(model, tenant_id)
    with pytest.raises(DatabaseError, match=r"append-only|permission denied"):
        change(alias, tenant_id, statement.format(table))
    assert model._base_manager.using("operator").filter(pk=row.pk).exists()


@gate("ledger.append_only")
def test_append_only_is_a_trigger_of_the_table_for_every_change() -> None:
    found = rows("""SELECT event_object_table, string_agg(event_manipulation, ' ' ORDER BY event_manipulation)
        FROM information_schema.triggers WHERE trigger_name = 'append_only' GROUP BY 1""")
    truncating = column(
        "SELECT tgrelid::regclass::text FROM pg_trigger WHERE tgname LIKE 'append_only%' AND tgtype & 32 <> 0"
    )
    assert {table for table, _ in found} >= APPEND_ONLY
    assert truncating >= APPEND_ONLY


_FUNCTION = re.compile(r"^CREATE OR REPLACE FUNCTION (\w+)\(.*?AS (\$\w*\$)(.*?)\2", re.MULTILINE | re.DOTALL)


@gate("schema.functions")
def test_the_functions_of_the_database_are_those_of_the_source() -> None:
    sources = {
        name: body for path in FOLDER.glob("[0-9]*.sql") for name, _, body in _FUNCTION.findall(path.read_text())
    }
    installed = dict(
        rows(
            "SELECT proname, prosrc FROM pg_proc WHERE pronamespace = 'public'::regnamespace AND proname ~ '^toolsys_'"
        )
    )
    assert set(installed) >= set(sources) >= {"toolsys_commit_claim", "toolsys_sweep", "toolsys_lower_trust"}
    assert {name for name in sources if sources[name] != installed[name]} == set()


@gate("schema.functions")
def test_the_order_of_trust_in_the_database_is_that_of_the_domain() -> None:
    pairs = [(one, two) for one in TrustLevel for two in TrustLevel]
    values = ", ".join(f"(toolsys_lower_trust('{one}', '{two}'))" for one, two in pairs)
    assert [row[0] for row in rows(f"VALUES {values}")] == [str(one.stricter(two)) for one, two in pairs]


@gate("rls.isolates")
def test_the_application_cannot_throw_the_platform_s_switches() -> None:
    for statement in ("UPDATE platform_state SET is_execution_enabled = false", "DELETE FROM platform_state"):
        with pytest.raises(DatabaseError, match="permission denied"), transaction.atomic(using="default"):
            rows(statement, "default")
