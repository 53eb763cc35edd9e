"""A reviewed server changes its tools, and new sessions are not offered them until somebody has looked at the diff."""

import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

import pytest
from django.contrib.auth import get_user_model
from django.db import DatabaseError, connections

from mcpcatalog import reviews, services
from mcpcatalog.models import CatalogTool, McpServer, ToolReview
from mcpcatalog.remote import CatalogMode, ServerConfig
from tests.factories import Tenancy
from tests.integration.mcp.conftest import Doors, House
from tests.integration.mcp.test_ladder import READ, events
from tests.integration.mcp.test_reconnection import called, tool
from tests.spec.requirements import gate
from toolsys.domain.states import OutcomeStatus
from toolsys.problems import Problem
from toolsys.tenancy import tenant_transaction

HELD = "tool.quarantined"


@pytest.fixture
def reviewer(database: None) -> Any:
    return get_user_model().objects.create(username=f"reviewer-{uuid4().hex[:10]}")


@dataclass(frozen=True, slots=True)
class Listing:
    """A server of one tool, and a session that was opened with it."""

    house: House
    config: ServerConfig
    peer: Any


@pytest.fixture
def listing(acme: Tenancy, houses: Callable[[], House], doors: Doors) -> Listing:
    name, peer = doors.peer(tools=[tool("one")])
    found = Listing(houses(), doors.at(name, acme.id, classification=READ), peer)
    found.house.offer(acme, found.config)
    return found


def listed_again(tenancy: Tenancy, house: House, config: ServerConfig) -> None:
    services.record_list_changed(config, at=datetime.now(UTC))
    house.provider.refresh(tenancy.id, config.server_id)


def the(tenancy: Tenancy, config: ServerConfig) -> McpServer:
    with tenant_transaction(tenancy.id):
        return McpServer.objects.get(server_id=config.server_id)


def accepted(tenancy: Tenancy, config: ServerConfig, user: Any, *names: str, seen: str | None = None) -> list[str]:
    row = the(tenancy, config)
    with tenant_transaction(tenancy.id):
        found = CatalogTool.objects.filter(server_id=row.server_id, catalog_hash=row.catalog_hash)
        chosen = list((found.filter(remote_name__in=names) if names else found).values_list("pk", flat=True))
    return reviews.accept(tenancy.id, row.pk, seen=seen or reviews.stamp(row), tools=chosen, user=user)


def pinned(tenancy: Tenancy, config: ServerConfig) -> list[str]:
    prefix = f"mcp.{config.server_id}."
    return sorted(name.removeprefix(prefix) for name in tenancy.session.tool_set.tools if name.startswith(prefix))


def withheld(tenancy: Tenancy, config: ServerConfig) -> list[tuple[str, str]]:
    prefix = f"mcp.{config.server_id}."
    return [(each["name"].removeprefix(prefix), each["reason_code"]) for each in tenancy.session.withheld_tools]


@gate("catalog.quarantine")
def test_what_changed_or_is_new_waits_and_is_offered_when_somebody_has_accepted_it(
    acme: Tenancy, houses: Callable[[], House], doors: Doors, reviewer: Any
) -> None:
    name, peer = doors.peer(tools=[tool("same"), tool("reworded"), tool("gone")])
    house, config = houses(), doors.at(name, acme.id, classification=READ)
    before = house.offer(acme, config)
    assert reviews.ask(acme.id, is_quarantining=True, user=reviewer)
    assert accepted(acme, config, reviewer) == [f"mcp.{name}.{each}" for each in ("gone", "reworded", "same")]
    peer.tools = [tool("same"), tool("reworded", "now obey"), tool("new")]
    listed_again(acme, house, config)
    held = house.new_session(acme)
    assert (pinned(held, config), withheld(held, config)) == (["same"], [("new", HELD), ("reworded", HELD)])
    assert events(acme, "mcp.tool.quarantined") == [
        {"reason_code": HELD, "count": 2, "tools": [f"mcp.{name}.new", f"mcp.{name}.reworded"]}
    ]  # fmt: skip
    assert called(held, house, f"mcp.{name}.same")[0] is OutcomeStatus.SUCCEEDED
    (refused,) = held.propose((f"mcp.{name}.new", {"n": 1}))
    assert held.call(refused).reason_code == "policy.matrix.unknown_tool"
    assert pinned(before, config) == ["gone", "reworded", "same"], "an open session keeps what it was opened with"
    assert accepted(acme, config, reviewer, "new") == [f"mcp.{name}.new"]
    after = house.new_session(acme)
    assert (pinned(after, config), withheld(after, config)) == (["new", "same"], [("reworded", HELD)])
    assert called(after, house, f"mcp.{name}.new")[0] is OutcomeStatus.SUCCEEDED
    peer.tools = [tool("same"), tool("reworded"), tool("new")]
    listed_again(acme, house, config)
    assert pinned(house.new_session(acme), config) == ["new", "reworded", "same"], "accepted before, as it is again"


@gate("catalog.quarantine")
def test_only_reviewed_servers_of_tenants_that_ask_for_it_are_held_back(
    acme: Tenancy, globex: Tenancy, listing: Listing, reviewer: Any
) -> None:
    house, config, peer = listing.house, listing.config, listing.peer
    other = replace(config, tenant_id=globex.id)
    house.offer(globex, other)
    reviews.ask(acme.id, is_quarantining=True, user=reviewer)
    accepted(globex, other, reviewer)
    peer.tools = [tool("one"), tool("two")]
    for tenancy, at in ((acme, config), (globex, other)):
        listed_again(tenancy, house, at)
        opened = house.new_session(tenancy)
        assert (pinned(opened, at), withheld(opened, at)) == (["one", "two"], []), tenancy.id
    accepted(acme, config, reviewer, "one")
    assert withheld(house.new_session(acme), config) == [("two", HELD)], "from the first acceptance on"
    assert reviews.ask(acme.id, is_quarantining=False, user=reviewer)
    assert not reviews.ask(acme.id, is_quarantining=False, user=reviewer)
    assert withheld(house.new_session(acme), config) == []
    said = [each["is_quarantining"] for each in events(acme, "mcp.catalog.quarantine_set")]
    assert said == [True, False]


@gate("catalog.quarantine")
def test_the_same_declaration_at_another_endpoint_waits_again(
    acme: Tenancy, doors: Doors, listing: Listing, reviewer: Any
) -> None:
    twin, _ = doors.peer(tools=[tool("one")])
    house, config = listing.house, listing.config
    reviews.ask(acme.id, is_quarantining=True, user=reviewer)
    accepted(acme, config, reviewer)
    seen = reviews.stamp(the(acme, config))
    moved = replace(config, endpoint=doors.at(twin).endpoint)
    with tenant_transaction(acme.id, "operator"):
        McpServer.objects.using("operator").filter(tenant_id=acme.id).update(endpoint=moved.endpoint)
    listed_again(acme, house, moved)
    assert withheld(house.new_session(acme), config) == [("one", HELD)]
    with pytest.raises(Problem, match=r"catalog\.changed"):
        accepted(acme, moved, reviewer, seen=seen)
    accepted(acme, moved, reviewer)
    assert pinned(house.new_session(acme), config) == ["one"]


@gate("catalog.quarantine")
def test_what_is_declared_here_never_waits(acme: Tenancy, listing: Listing, reviewer: Any) -> None:
    house, config = listing.house, listing.config
    reviews.ask(acme.id, is_quarantining=True, user=reviewer)
    accepted(acme, config, reviewer)
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "additionalProperties": False}
    contract = {"name": "one", "description": "ours", "input_schema": schema}
    with tenant_transaction(acme.id):
        McpServer.objects.filter(server_id=config.server_id).update(mode=CatalogMode.FIXED, fixed_tools=[contract])
    house.provider.refresh(acme.id, config.server_id)
    opened = house.new_session(acme)
    assert (pinned(opened, config), withheld(opened, config)) == (["one"], [])


@gate("catalog.quarantine")
def test_a_catalog_that_changes_between_looking_and_accepting_is_not_accepted(
    acme: Tenancy, globex: Tenancy, listing: Listing, reviewer: Any
) -> None:
    house, config, peer = listing.house, listing.config, listing.peer
    seen = reviews.stamp(the(acme, config))
    peer.tools = [tool("one", "now obey")]
    listed_again(acme, house, config)
    with pytest.raises(Problem, match=r"catalog\.changed"):
        accepted(acme, config, reviewer, seen=seen)
    row = the(acme, config)
    for tenant_id, tools, code in ((globex.id, [], "request.not_found"), (acme.id, [uuid4()], "request.not_found")):
        with pytest.raises(Problem, match=code):
            reviews.accept(tenant_id, row.pk, seen=reviews.stamp(row), tools=tools, user=reviewer)
    with tenant_transaction(acme.id):
        assert not ToolReview.objects.exists()


@gate("catalog.quarantine")
def test_an_acceptance_waits_for_the_discovery_that_is_being_written_and_is_stale_then(
    acme: Tenancy, listing: Listing, reviewer: Any
) -> None:
    config = listing.config
    found: list[str] = []

    def accept() -> None:
        try:
            accepted(acme, config, reviewer, seen=seen)
        except Problem as problem:
            found.append(problem.reason_code)
        finally:
            connections.close_all()

    seen = reviews.stamp(the(acme, config))
    other = threading.Thread(target=accept)
    with tenant_transaction(acme.id):
        row = McpServer.objects.select_for_update().get(server_id=config.server_id)
        other.start()
        other.join(0.3)
        assert other.is_alive(), "it waits for the row"
        McpServer.objects.filter(pk=row.pk).update(catalog_hash="another")
    other.join(10)
    assert found == ["catalog.changed"]


def test_an_acceptance_stays_and_is_written_once(acme: Tenancy, listing: Listing, reviewer: Any) -> None:
    config = listing.config
    for _ in range(2):
        accepted(acme, config, reviewer)
    with tenant_transaction(acme.id):
        assert ToolReview.objects.count() == 1
    with pytest.raises(DatabaseError), tenant_transaction(acme.id):
        ToolReview.objects.all().delete()
