"""What servers made us keep goes with age, in batches: changes, catalogs that no session pinned, withdrawn prompts."""

from collections.abc import Iterable
from datetime import timedelta
from typing import Any

import pytest
from django.db import connections, transaction
from django.utils import timezone

from config import wiring
from mcpcatalog import history, mapping, retention, services
from mcpcatalog.models import CatalogChange, CatalogTool, McpServer
from mcpcatalog.provider import McpProvider
from mcpcatalog.remote import Catalog, CatalogChurning, RemotePrompt, RemoteTool, ServerConfig, Transport
from tests.factories import Tenancy
from tests.integration.mcp.conftest import policy_of
from tests.spec.requirements import gate
from toolsys import database, forgetting
from toolsys import services as platform
from toolsys.models import Skill
from toolsys.tenancy import tenant_transaction

DAYS = 90
SCHEMA: dict[str, Any] = {"type": "object"}


@pytest.fixture(autouse=True)
def _changes_are_written_by_hand(database: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are append-only: one that is old has to be old from the beginning. What other tests left is cleared away."""
    retention.forget_catalogs(DAYS)
    monkeypatch.setattr(services, "_write_change", lambda *_: None)


def server(tenancy: Tenancy) -> ServerConfig:
    config = ServerConfig(tenancy.id, "crm", Transport.HTTP, "https://crm.example/mcp")
    services.register_server(config, policy=policy_of(config), stdio_names=(), output_ceiling_bytes=1_048_576,
                             using="operator")  # fmt: skip
    return config


def lists(config: ServerConfig, *tools: str, prompts: Iterable[RemotePrompt] = ()) -> str:
    """Let a discovery see these tools; return the hash of the catalog."""
    listed = tuple(RemoteTool(name, "d", SCHEMA, {}) for name in tools)
    catalog = Catalog(listed, (), "2026-07-28", prompts=tuple(prompts))
    generation = mapping.map_catalog(config, catalog, output_ceiling_bytes=1_048_576)
    services.record_discovery(config, catalog, generation, at=timezone.now())
    return generation.catalog_hash


def left(tenancy: Tenancy, old: str, new: str, days: float) -> None:
    with tenant_transaction(tenancy.id):
        CatalogChange.objects.create(
            tenant_id=tenancy.id, server_id="crm", old_hash=old, new_hash=new,
            created_at=timezone.now() - timedelta(days=days),
        )  # fmt: skip


def pinned_by_a_session(tenancy: Tenancy) -> None:
    made = wiring.compose({"mcp": McpProvider(wiring.SystemClock(), {}, 1_048_576)}, None)
    platform.open_session(
        tenant_id=tenancy.id, api_key_id=tenancy.key.id, agent_name="assistant", principal_id="user-1",
        environment="production", profile=None, runtime=made.runtime, registry=made.registry,
    )  # fmt: skip


def kept(tenancy: Tenancy) -> set[str]:
    with tenant_transaction(tenancy.id):
        return set(CatalogTool.objects.values_list("catalog_hash", flat=True))


def changes(tenancy: Tenancy) -> int:
    with tenant_transaction(tenancy.id):
        return CatalogChange.objects.count()


@gate("history.retention")
def test_an_old_catalog_goes_unless_a_session_pinned_it(acme: Tenancy, globex: Tenancy) -> None:
    """Another tenant's session, and another tenant's age, say nothing of it."""
    mine, theirs = server(acme), server(globex)
    first = lists(mine, "a")
    pinned_by_a_session(acme)
    second, third = lists(mine, "a", "b"), lists(mine, "c")
    left(acme, first, second, 93)
    left(acme, second, third, 91)
    assert (lists(theirs, "a", "b"), lists(theirs, "c")) == (second, third)
    left(globex, second, third, 89)
    assert retention.forget_catalogs(DAYS) == 2
    assert (kept(acme), changes(acme)) == ({first, third}, 0)
    assert (kept(globex), changes(globex)) == ({second, third}, 1)


@gate("history.retention")
def test_a_catalog_that_came_back_stays_while_it_is_offered_or_was_left_of_late(acme: Tenancy) -> None:
    config = server(acme)
    first, second = lists(config, "a"), lists(config, "b")
    left(acme, first, second, 99)
    lists(config, "a")
    left(acme, second, first, 98)
    retention.forget_catalogs(DAYS)
    assert kept(acme) == {first}
    third = lists(config, "c")
    left(acme, first, third, 5)
    left(acme, first, third, 97)
    retention.forget_catalogs(DAYS)
    assert (kept(acme), changes(acme)) == ({first, third}, 1)


@gate("history.retention")
def test_a_server_whose_discovery_is_under_way_is_passed_over(acme: Tenancy) -> None:
    config = server(acme)
    first, second = lists(config, "a"), lists(config, "b")
    left(acme, first, second, 91)
    with transaction.atomic(using="operator"), connections["operator"].cursor() as cursor:
        cursor.execute("SELECT 1 FROM mcp_servers WHERE tenant_id = %s FOR UPDATE", [acme.id])
        assert retention.forget_catalogs(DAYS) == 0
    assert kept(acme) == {first, second}
    assert retention.forget_catalogs(DAYS) == 1
    assert kept(acme) == {second}


@gate("history.retention")
def test_a_withdrawn_prompt_goes_with_age_and_what_is_offered_stays(acme: Tenancy) -> None:
    config = server(acme)
    lists(config, "a", prompts=[RemotePrompt("old", "d", ()), RemotePrompt("new", "d", ())])
    lists(config, "a", prompts=[RemotePrompt("new", "d", ())])
    age(acme, 89)
    assert retention.forget_catalogs(DAYS) == 0
    age(acme, 91)
    assert retention.forget_catalogs(DAYS) == 1
    with tenant_transaction(acme.id):
        assert list(Skill.objects.values_list("name", flat=True)) == ["mcp.crm.new"]


@gate("history.retention")
def test_a_prompt_that_is_offered_again_at_this_moment_is_passed_over(acme: Tenancy) -> None:
    config = server(acme)
    lists(config, "a", prompts=[RemotePrompt("old", "d", ())])
    lists(config, "a")
    age(acme, 91)
    with transaction.atomic(using="operator"), connections["operator"].cursor() as cursor:
        cursor.execute("UPDATE skills SET withdrawn_at = NULL WHERE tenant_id = %s", [acme.id])
        assert retention.forget_catalogs(DAYS) == 0
    with tenant_transaction(acme.id):
        assert Skill.objects.count() == 1


@gate("history.retention")
def test_a_pass_is_bounded_and_takes_the_oldest_first(acme: Tenancy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forgetting, "BATCH", 1)
    monkeypatch.setattr(forgetting, "BATCHES_A_PASS", 2)
    config = server(acme)
    seen = [lists(config, name) for name in ("a", "b", "c", "d")]
    for old, new, days in zip(seen, seen[1:], (93, 92, 91), strict=False):
        left(acme, old, new, days)
    assert retention.forget_catalogs(DAYS) == 2
    assert kept(acme) == set(seen[2:])


@gate("history.retention")
@pytest.mark.parametrize("function", ["mcpcatalog_forget_changes", "toolsys_forget_skills"])
def test_whoever_calls_the_functions_cannot_forget_what_is_younger_than_a_day(acme: Tenancy, function: str) -> None:
    config = server(acme)
    lists(config, "a", prompts=[RemotePrompt("old", "d", ())])
    first, second = lists(config, "a", prompts=[]), lists(config, "b")
    left(acme, first, second, 0.9)
    age(acme, 0.9)
    for seconds in (-1e9, 0, 1):
        database.call(f"SELECT {function}(%s, %s)", (seconds, 500))
    with tenant_transaction(acme.id):
        assert (Skill.objects.count(), CatalogChange.objects.count()) == (1, 1)


@gate("history.retention")
def test_what_dead_workers_left_is_cleared_away_though_none_stops_in_order(acme: Tenancy) -> None:
    with transaction.atomic(using="operator"), connections["operator"].cursor() as cursor:
        cursor.execute("SELECT mcpcatalog_renew_worker('long gone', -3700), mcpcatalog_renew_worker('new', 60)")
    retention.forget_catalogs(DAYS)
    with connections["owner"].cursor() as cursor:
        cursor.execute("SELECT name FROM mcp_workers WHERE name IN ('long gone', 'new')")
        assert cursor.fetchall() == [("new",)]
    database.call("SELECT mcpcatalog_renew_worker(%s, %s)", ("new", -3700))
    retention.forget_catalogs(DAYS)


@gate("history.retention")
def test_who_pinned_a_catalog_is_found_through_an_index(acme: Tenancy) -> None:
    with transaction.atomic(using="operator"), connections["operator"].cursor() as cursor:
        cursor.execute("SET LOCAL enable_seqscan = off")
        cursor.execute(
            "EXPLAIN SELECT 1 FROM tool_sets p"
            " WHERE jsonb_path_query_array(p.tools, '$.*.version') @> to_jsonb('x'::text)"
        )
        assert "tool_set_by_version" in "\n".join(row[0] for row in cursor.fetchall())


@gate("history.bounded")
def test_prompts_that_keep_changing_are_bounded_and_what_is_known_stays(
    acme: Tenancy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(history, "SKILLS_A_DAY", 3)
    config = server(acme)
    for number in range(3):
        lists(config, "a", prompts=[RemotePrompt("p", f"{number}", ())])
    with pytest.raises(CatalogChurning):
        lists(config, "b", prompts=[RemotePrompt("p", "one too many", ())])
    lists(config, "a", prompts=[RemotePrompt("p", "2", ())])
    with tenant_transaction(acme.id):
        assert [*Skill.objects.filter(withdrawn_at=None).values_list("description", flat=True)] == ["2"]
        assert McpServer.objects.get().catalog_hash == mapping.catalog_hash([RemoteTool("a", "d", SCHEMA, {})])


def age(tenancy: Tenancy, days: float) -> None:
    """Make what is withdrawn so old."""
    with tenant_transaction(tenancy.id):
        Skill.objects.exclude(withdrawn_at=None).update(withdrawn_at=timezone.now() - timedelta(days=days))
