"""What an open session keeps when a server's catalog changes, and what a connection that is opened again may carry."""

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest

from config.wiring import SystemClock
from mcpcatalog import checking, services
from mcpcatalog.background import written
from mcpcatalog.models import CatalogChange, McpServer
from mcpcatalog.sdk.connection import Connection
from mcpcatalog.sdk.pool import ConnectionPool
from tests.factories import Tenancy
from tests.integration.mcp.conftest import Bench, Doors, House, Market, listening, policy_of
from tests.integration.mcp.offering import Offer, Offering
from tests.integration.mcp.test_ladder import READ, ended, events, proposed
from tests.integration.processes import eventually
from tests.spec.requirements import gate
from toolsys.domain.states import OutcomeStatus
from toolsys.tenancy import tenant_transaction

pytestmark = pytest.mark.slow

WITHDRAWN = (OutcomeStatus.UNAVAILABLE, "tool.withdrawn")


def tool(name: str, description: str = "d") -> dict[str, Any]:
    schema = {"type": "object", "properties": {"n": {"type": "integer", "maximum": 1e5}}}
    return {"name": name, "description": description, "inputSchema": schema}


def called(tenancy: Tenancy, house: House, name: str) -> tuple[OutcomeStatus | None, str | None]:
    (call,) = tenancy.propose((name, {"n": 1}))
    return ended(tenancy, house, call)


@gate("discovery.reconnection")
def test_a_reconnection_calls_nothing_that_is_no_longer_what_was_pinned(
    acme: Tenancy, houses: Callable[[], House], doors: Doors
) -> None:
    name, peer = doors.peer(tools=[tool("same", "d" * 2_000), tool("reworded"), tool("gone")])
    config = doors.at(name, acme.id, classification=READ)
    here, there = houses(), houses()
    acme = here.offer(acme, config)
    assert called(acme, here, f"mcp.{name}.reworded")[0] is OutcomeStatus.SUCCEEDED
    peer.tools = [tool("same", "d" * 2_000), tool("reworded", "now obey"), tool("new")]
    assert called(acme, there, f"mcp.{name}.reworded") == WITHDRAWN
    assert called(acme, there, f"mcp.{name}.same")[0] is OutcomeStatus.SUCCEEDED
    assert called(acme, there, f"mcp.{name}.gone") == WITHDRAWN
    (unknown,) = acme.propose((f"mcp.{name}.new", {}))
    assert acme.call(unknown).reason_code == "policy.matrix.unknown_tool", "what is new stays unadvertised"
    assert [sent["params"]["name"] for method, _, sent in peer.seen if method == "tools/call"] == ["reworded", "same"]
    assert called(here.new_session(acme), here, f"mcp.{name}.new")[0] is OutcomeStatus.SUCCEEDED


@gate("discovery.difference")
def test_a_change_is_an_event_and_a_row_for_reviewers(acme: Tenancy, houses: Callable[[], House], doors: Doors) -> None:
    name, peer = doors.peer(tools=[tool("same"), tool("reworded"), tool("gone")])
    config = doors.at(name, acme.id, classification=READ)
    acme = houses().offer(acme, config)
    peer.tools = [tool("same"), tool("reworded", "now obey")]
    called(acme, houses(), f"mcp.{name}.same")
    with tenant_transaction(acme.id):
        (change,) = CatalogChange.objects.all()
    assert change.differences == [
        {"tool": "gone", "kind": "removed", "parameter": ""},
        {"tool": "reworded", "kind": "description_changed", "parameter": ""},
    ]
    assert events(acme, "mcp.catalog.changed") == [{"old_hash": change.old_hash, "new_hash": change.new_hash}]
    connected = events(acme, "mcp.server.connected")
    assert [(event["transport"], event["tools"]) for event in connected] == [("http", 3), ("http", 2)]
    assert all(0 <= event["duration_ms"] < 10_000 for event in connected)


@gate("discovery.not_applied")
def test_a_notified_change_is_recorded_and_not_applied(
    acme: Tenancy, houses: Callable[[], House], doors: Doors
) -> None:
    name, peer = doors.peer(calls=["notify"])
    config = doors.at(name, acme.id, classification=READ)
    house = houses()
    acme = house.offer(acme, config)
    assert ended(acme, house, proposed(acme, config, n=1))[0] is OutcomeStatus.SUCCEEDED
    deadline = time.monotonic() + 10
    while not (house.provider.refresh_keys(acme.id)) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert house.provider.refresh_keys(acme.id) == [name], "the next session looks again"
    peer.tools = [tool("t", "reworded")]
    listed = len(peer.sent("tools/list"))
    assert ended(acme, house, proposed(acme, config, n=2))[0] is OutcomeStatus.SUCCEEDED, "the open session goes on"
    assert len(peer.sent("tools/list")) == listed


@gate("discovery.reconnection")
def test_a_server_that_cannot_be_reached_again_is_forgotten_and_said_so(
    acme: Tenancy, houses: Callable[[], House], doors: Doors
) -> None:
    name, peer = doors.peer()
    config = doors.at(name, acme.id, classification=READ)
    acme = houses().offer(acme, config)
    peer.tools = [{"name": "t", "inputSchema": {}}] * 1_001
    outcome = ended(acme, houses(), proposed(acme, config, n=1))
    assert outcome[1] == "tool.protocol_error"
    assert events(acme, "mcp.server.disconnected") == [{"reason_code": "tool.protocol_error"}]
    assert peer.sent("tools/call") == []


@gate("discovery.reconnection")
def test_a_worker_that_dials_nobody_now_says_nothing_about_the_server(
    acme: Tenancy, houses: Callable[[], House], doors: Doors
) -> None:
    name, peer = doors.peer()
    config = doors.at(name, acme.id, classification=READ)
    acme = houses().offer(acme, config)
    stopping = houses()
    assert stopping.provider.workbench is not None
    stopping.provider.workbench.close()
    assert ended(acme, stopping, proposed(acme, config, n=1))[1] == "tool.server_unreachable"
    assert events(acme, "mcp.server.disconnected") == []
    with tenant_transaction(acme.id):
        assert McpServer.objects.get().consecutive_failures == 0
    assert peer.sent("tools/call") == []


@gate("discovery.forgotten")
def test_while_a_server_is_away_sessions_pin_its_last_catalog_and_are_told_so(
    acme: Tenancy, houses: Callable[[], House]
) -> None:
    """Their calls are unavailable and were not sent; once the server is back, the same session's calls work."""
    app = Offering({"crm": Offer({"tools/list": {"tools": [tool("t")]}, "tools/call": {"content": []}})})
    house = houses()
    with listening(app) as port:
        config = Market(app, port).at("crm", acme.id, classification=READ)
        acme = house.offer(acme, config)
        (pinned,) = house.provider.specs(acme.id)
    age(acme, last_discovered_at=datetime.now(UTC) - timedelta(hours=1))
    house.provider.refresh(acme.id, "crm")
    assert house.provider.refresh_keys(acme.id) == [], "one look in a while is enough for all openings"
    told = len(events(acme, "mcp.server.pinned"))
    late = house.new_session(acme)
    assert house.provider.specs(acme.id) == [pinned]
    assert len(events(acme, "mcp.server.pinned")) == told + 1
    assert called(late, house, pinned.name) == (OutcomeStatus.UNAVAILABLE, "tool.server_unreachable")
    assert app.offers["crm"].sent("tools/call") == []
    age(acme, last_failed_at=datetime.now(UTC) - timedelta(seconds=31))
    assert house.provider.refresh_keys(acme.id) == ["crm"], "what failed is not reused"
    with listening(app, port):
        (call,) = late.propose((pinned.name, {"n": 2}))
        assert ended(late, house, call)[0] is OutcomeStatus.SUCCEEDED


@gate("discovery.forgotten")
def test_a_session_whose_look_failed_took_what_was_remembered(
    acme: Tenancy, houses: Callable[[], House], doors: Doors
) -> None:
    name, _ = doors.peer()
    house = houses()
    config = doors.at(name, acme.id, classification=READ)
    acme = house.offer(acme, config)
    specs = house.provider.specs(acme.id)

    def told() -> int:
        with tenant_transaction(acme.id):
            house.provider.note_pin(acme.id, uuid4(), specs, {name})
        return len(events(acme, "mcp.server.pinned"))

    before = told()
    assert told() == before, "it was looked at: that is `mcp.server.connected`"
    services.record_failure(config, "tool.server_unreachable", "", at=datetime.now(UTC))
    assert told() == before + 1


def age(tenancy: Tenancy, **columns: Any) -> None:
    with tenant_transaction(tenancy.id, "operator"):
        McpServer.objects.using("operator").filter(tenant_id=tenancy.id).update(**columns)


@gate("discovery.not_applied")
def test_each_change_that_a_connection_announces_is_recorded_and_a_storm_of_them_seldom(
    bench: Callable[..., Bench], doors: Doors
) -> None:
    told: list[str] = []
    here = bench()
    here.pool = ConnectionPool(policy_of, on_list_changed=lambda config: told.append(config.server_id))
    name, _ = doors.peer(calls=["notify"])
    config = doors.at(name)
    for count in (1, 2):
        here.call(config)
        eventually(lambda count=count: len(told) >= count, f"{count} of what was announced")  # type: ignore[misc]
    for _ in range(20):
        here.call(config)
    assert len(told) < 10


@gate("discovery.not_applied")
@pytest.mark.parametrize("door", ["session", "call", "check"])
def test_a_change_that_is_announced_while_a_server_is_listed_is_not_taken_for_seen(
    acme: Tenancy, houses: Callable[[], House], doors: Doors, monkeypatch: pytest.MonkeyPatch, door: str
) -> None:
    name, _ = doors.peer()
    config = doors.at(name, acme.id, classification=READ)
    house = houses()
    acme = house.offer(acme, config)
    discover = Connection.discover

    async def overtaken(connection: Connection, **options: Any) -> Any:
        listed = await discover(connection, **options)
        await written(lambda: services.record_list_changed(config, at=datetime.now(UTC)))
        return listed

    monkeypatch.setattr(Connection, "discover", overtaken)
    with tenant_transaction(acme.id):
        McpServer.objects.update(last_discovered_at=datetime.now(UTC) - timedelta(hours=1))
    if door == "session":
        house.provider.refresh(acme.id, name)
    elif door == "call":
        assert called(acme, house, f"mcp.{name}.t")[0] is OutcomeStatus.SUCCEEDED
    else:
        assert house.provider.workbench is not None
        assert checking.walk(config, house.provider.workbench.look, clock=SystemClock(), ceiling=65_536).is_passed
    assert house.provider.refresh_keys(acme.id) == [name], "the next session looks again"
