"""What a worker does for its connections besides calls: warming up, letting go, and saying how each one ended."""

import asyncio
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings

from config import wiring
from mcpcatalog import mapping, services
from mcpcatalog.models import McpServer, ServerRoute
from mcpcatalog.provider import Lease, McpProvider, Workbench, open_workbench
from mcpcatalog.remote import ServerConfig, StdioCommand, Transport
from mcpcatalog.routes import Route
from mcpcatalog.sdk.connection import Timeouts
from mcpcatalog.sdk.pool import PoolLimits
from mcpcatalog.upkeep import Upkeep, Warming
from tests.factories import Tenancy
from tests.integration.mcp.conftest import PEER, Doors, House, Market, policy_of
from tests.integration.mcp.test_ladder import READ, ended, proposed
from tests.integration.processes import eventually
from tests.spec.requirements import gate
from toolsys import services as platform
from toolsys import wakeups
from toolsys.domain.states import RunStatus
from toolsys.execution import LoopThread
from toolsys.models import Run, ToolEvent
from toolsys.tenancy import tenant_transaction

COMMAND = StdioCommand((sys.executable, PEER))


@pytest.fixture
def workbench(database: None) -> Iterator[Workbench]:
    """Connections of a worker that has a name."""
    loop = LoopThread()
    lease = Lease(f"here:{os.getpid()}:{time.monotonic_ns()}", wiring.SystemClock(), 30.0)
    made = open_workbench(loop.run, wiring.credentials().of, policy_of, lease=lease, seconds={"idle": 60.0})
    yield made
    made.close()
    loop.stop()


def configured(tenancy: Tenancy, config: ServerConfig) -> ServerConfig:
    policy = policy_of(replace(config, endpoint="http://127.0.0.1:9/"))
    policy = policy_of(config) if config.transport is Transport.HTTP else policy
    services.register_server(
        config, policy=policy, stdio_names=("peer",), output_ceiling_bytes=1_048_576, using="operator"
    )  # fmt: skip
    return config


def stdio_server(tenancy: Tenancy) -> ServerConfig:
    config = ServerConfig(tenancy.id, "clock", Transport.STDIO, "peer", command=COMMAND, classification=READ)
    return configured(tenancy, config)


def row(tenancy: Tenancy, server_id: str) -> McpServer:
    with tenant_transaction(tenancy.id):
        return McpServer.objects.get(server_id=server_id)


def change(tenancy: Tenancy, server_id: str, **values: Any) -> None:
    McpServer.objects.using("operator").filter(tenant_id=tenancy.id, server_id=server_id).update(**values)


def events(tenancy: Tenancy, kind: str) -> list[dict[str, Any]]:
    with tenant_transaction(tenancy.id):
        found = ToolEvent.objects.filter(type=kind).order_by("id").values_list("payload", flat=True)
        return [{key: value for key, value in payload.items() if key != "server"} for payload in found]


def provider(workbench: Workbench) -> McpProvider:
    return McpProvider(wiring.SystemClock(), {"peer": COMMAND}, 1_048_576, workbench)


def only(tenancy: Tenancy, monkeypatch: pytest.MonkeyPatch, *server_ids: str) -> None:
    """Have the world consist of this tenant's servers: other tests leave theirs behind."""
    monkeypatch.setattr(
        "mcpcatalog.selectors.all_enabled_servers", lambda: [(tenancy.id, server_id) for server_id in server_ids]
    )


@gate("discovery.warm_up")
def test_a_worker_that_starts_looks_at_what_it_may_not_remember(
    acme: Tenancy, workbench: Workbench, doors: Doors, monkeypatch: pytest.MonkeyPatch
) -> None:
    name, peer = doors.peer()
    configured(acme, doors.at(name, acme.id, classification=READ))
    stdio_server(acme)
    only(acme, monkeypatch, "clock", name)
    first = Upkeep(provider(workbench), workbench, Warming())
    first.warm_up()
    assert row(acme, "clock").catalog_hash
    assert len(peer.sent("tools/list")) == 1
    assert workbench.connections.sessions() == [], "it connects, discovers and closes"
    first.warm_up()
    clock, door = row(acme, "clock").last_discovered_at, row(acme, name).last_discovered_at
    Upkeep(provider(workbench), workbench, Warming()).warm_up()
    assert clock is not None
    after = row(acme, "clock").last_discovered_at
    assert after is not None
    assert after > clock, "what an earlier process saw of a stdio server is not remembered"
    assert row(acme, name).last_discovered_at == door
    change(acme, name, last_discovered_at=datetime.now(UTC) - timedelta(seconds=301))
    first.warm_up()
    assert len(peer.sent("tools/list")) == 2


@gate("discovery.warm_up")
def test_a_server_that_we_cannot_cope_with_holds_up_no_other_and_no_session(
    acme: Tenancy, workbench: Workbench, doors: Doors, monkeypatch: pytest.MonkeyPatch
) -> None:
    (odd, _), (fine, _) = doors.peer(), doors.peer()
    for name in (odd, fine):
        configured(acme, doors.at(name, acme.id, classification=READ))
    only(acme, monkeypatch, odd, fine)
    mapped = mapping.map_catalog

    def stumbling(server: ServerConfig, *given: Any, **options: Any) -> mapping.Generation:
        if server.server_id == odd:
            raise ZeroDivisionError("words of the server")
        return mapped(server, *given, **options)

    monkeypatch.setattr(mapping, "map_catalog", stumbling)
    house = provider(workbench)
    Upkeep(house, workbench, Warming(attempts=1)).warm_up()
    assert (row(acme, fine).catalog_hash != "", row(acme, odd).catalog_hash) == (True, "")
    assert house.refresh_keys(acme.id) == [odd]
    house.refresh(acme.id, odd)
    found = row(acme, odd)
    assert (found.last_failure_code, found.last_failure_detail) == ("tool.internal", "ZeroDivisionError")
    assert house.refresh_keys(acme.id) == [], "no session waits for it for a while"


@gate("discovery.warm_up")
def test_a_server_that_is_not_up_yet_is_tried_again_and_nothing_is_said_of_it(
    acme: Tenancy, workbench: Workbench, doors: Doors, monkeypatch: pytest.MonkeyPatch
) -> None:
    name, peer = doors.peer(is_down=True)
    configured(acme, doors.at(name, acme.id, classification=READ))
    only(acme, monkeypatch, name)
    upkeep = Upkeep(provider(workbench), workbench, Warming(attempts=3, retry_seconds=0.01))
    upkeep.warm_up()
    assert len(peer.sent("server/discover")) == 3
    assert row(acme, name).last_failed_at is None
    assert events(acme, "mcp.server.disconnected") == []
    peer.is_down = False
    upkeep.warm_up()
    assert row(acme, name).catalog_hash


@gate("discovery.warm_up")
def test_a_server_that_refuses_the_login_is_not_asked_again_by_the_same_warm_up(
    acme: Tenancy, workbench: Workbench, doors: Doors, monkeypatch: pytest.MonkeyPatch
) -> None:
    name, peer = doors.peer(accepted=set())
    configured(acme, doors.at(name, acme.id, classification=READ))
    only(acme, monkeypatch, name)
    Upkeep(provider(workbench), workbench, Warming(attempts=3, retry_seconds=0.01)).warm_up()
    assert len(peer.seen) == 1, "each try is one more failed login"


@gate("discovery.warm_up")
def test_what_is_disabled_is_not_looked_at(acme: Tenancy, workbench: Workbench, doors: Doors) -> None:
    name, peer = doors.peer()
    configured(acme, doors.at(name, acme.id, classification=READ))
    change(acme, name, enabled=False)
    assert provider(workbench).warm(acme.id, name, 1.0)
    assert peer.seen == []


@gate("discovery.pinned")
def test_a_session_that_takes_a_remembered_discovery_says_so(
    acme: Tenancy, houses: Callable[[], House], doors: Doors
) -> None:
    name, _ = doors.peer()
    house = houses()
    first = house.offer(acme, doors.at(name, acme.id, classification=READ))
    second = house.new_session(acme)
    assert events(acme, "mcp.server.pinned") == [
        {"transport": "http", "tools": 1, "session": str(session.session.id)} for session in (first, second)
    ]
    assert len(events(acme, "mcp.server.connected")) == 1


@gate("connections.released")
@pytest.mark.slow
def test_a_session_whose_run_has_ended_is_let_go_of_at_once(acme: Tenancy, workbench: Workbench, doors: Doors) -> None:
    name, _ = doors.peer()
    config = configured(acme, doors.at(name, acme.id, classification=READ))
    other = replace(acme, session=_another_session(acme))
    resolve = workbench.credentials(acme.id).resolve
    assert workbench.routes is not None
    for tenancy in (acme, other):
        workbench.run(workbench.connections.acquire(config, str(tenancy.session.id), resolve), 10)
        workbench.routes.elsewhere(Route(acme.id, tenancy.session.id, name))
    upkeep = Upkeep(provider(workbench), workbench, Warming(attempts=0))
    upkeep.start()
    try:
        time.sleep(0.1)
        platform.end_run(tenant_id=acme.id, run_id=acme.run.id, cancel=False, runtime=acme.runtime)
        eventually(lambda: workbench.sessions() == {(acme.id, other.session.id)}, "one session less", 5.0)
    finally:
        upkeep.stop()
    eventually(lambda: events(acme, "mcp.server.disconnected") != [], "the event")
    assert events(acme, "mcp.server.disconnected") == [
        {"reason_code": "connection.released", "session": str(acme.session.id)}
    ]
    with tenant_transaction(acme.id):
        assert list(ServerRoute.objects.values_list("session_id", flat=True)) == [other.session.id]


@gate("connections.rested")
@pytest.mark.slow
@pytest.mark.parametrize("era", ["modern", "legacy"])
def test_a_session_that_waits_for_people_keeps_only_what_its_server_would_forget(
    acme: Tenancy, workbench: Workbench, market: Market, era: str
) -> None:
    name, _ = market.offer()
    config = configured(acme, market.at(name, acme.id, era, classification=READ))
    resolve, session = workbench.credentials(acme.id).resolve, str(acme.session.id)
    connection = workbench.run(workbench.connections.acquire(config, session, resolve), 10)
    upkeep = Upkeep(provider(workbench), workbench, Warming(attempts=0))
    upkeep.sweep()
    assert workbench.sessions() == {(acme.id, acme.session.id)}, "its run is at work"
    with tenant_transaction(acme.id):
        Run.objects.filter(pk=acme.run.id).update(status=RunStatus.WAITING_FOR_APPROVAL)
    connection._sent.add(marker := workbench.run(_future(), 5))  # type: ignore[attr-defined]
    upkeep.sweep()
    assert workbench.sessions() == {(acme.id, acme.session.id)}, "a call is on it"
    connection._sent.discard(marker)  # type: ignore[attr-defined]
    upkeep.sweep()
    assert workbench.sessions() == ({(acme.id, acme.session.id)} if era == "legacy" else set())


async def _future() -> Any:
    return asyncio.get_running_loop().create_future()


def _another_session(tenancy: Tenancy) -> Any:
    from config.wiring import compose_web

    house = compose_web()
    session = platform.open_session(
        tenant_id=tenancy.id, api_key_id=tenancy.key.id, agent_name="assistant", principal_id="user-1",
        environment="production", profile=None, runtime=house.runtime, registry=house.registry,
    )  # fmt: skip
    platform.start_run(
        tenant_id=tenancy.id, session_id=session.id, manifest=None, deadline_seconds=600, correlation_id="",
    )  # fmt: skip
    return session


@gate("connections.released")
def test_every_process_hears_that_a_run_has_ended(acme: Tenancy) -> None:
    with wakeups.RUNS.waiting(wakeups.RUN_ENDED) as waiter:
        platform.end_run(tenant_id=acme.id, run_id=acme.run.id, cancel=True, runtime=acme.runtime)
        assert waiter.wait(5.0)
        assert not waiter.wait(0.0)


@gate("connections.told")
def test_a_connection_that_ends_is_an_event_with_its_reason(acme: Tenancy, workbench: Workbench) -> None:
    config = stdio_server(acme)
    resolve = workbench.credentials(acme.id).resolve
    (first, second, third) = (
        workbench.run(workbench.connections.acquire(config, str(number), resolve), 20) for number in range(3)
    )
    os.kill(_server_of(first), signal.SIGKILL)
    eventually(lambda: not first.is_alive, "its end is noticed")
    workbench.run(workbench.connections.close_session("1"), 10)
    eventually(lambda: not second.is_alive, "its end")
    workbench.close()
    assert not third.is_alive
    assert sorted((event["session"], event["reason_code"]) for event in events(acme, "mcp.server.disconnected")) == [
        ("0", "tool.server_unreachable"), ("1", "connection.released"), ("2", "connection.stopped"),
    ]  # fmt: skip


@gate("connections.told")
def test_a_connection_of_a_real_server_that_is_unused_or_in_the_way_ends_with_that_reason(
    acme: Tenancy, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop = LoopThread()
    workbench = open_workbench(loop.run, wiring.credentials().of, policy_of, seconds={"idle": 1.5})
    config, resolve = stdio_server(acme), workbench.credentials(acme.id).resolve
    monkeypatch.setattr(workbench.connections, "_limits", PoolLimits(processes=1))
    try:
        first = workbench.run(workbench.connections.acquire(config, "first", resolve), 20)
        second = workbench.run(workbench.connections.acquire(config, "second", resolve), 20)
        eventually(lambda: not first.is_alive, "it was in the way")
        assert second.is_alive
        eventually(lambda: not second.is_alive, "nobody used it")
        eventually(lambda: len(events(acme, "mcp.server.disconnected")) == 2, "both are told")
    finally:
        workbench.close()
        loop.stop()
    assert sorted((event["session"], event["reason_code"]) for event in events(acme, "mcp.server.disconnected")) == [
        ("first", "connection.evicted"), ("second", "connection.idle"),
    ]  # fmt: skip


def _server_of(connection: Any) -> int:
    """Return the server's process: the keeper's only child."""
    keeper = connection._child.process.pid
    return int(Path(f"/proc/{keeper}/task/{keeper}/children").read_text().split()[0])


@gate("timeouts.separate")
def test_a_call_never_has_longer_than_the_request_time_out(
    acme: Tenancy, houses: Callable[[], House], doors: Doors
) -> None:
    name, _ = doors.peer()
    house = houses()
    acme = house.offer(acme, doors.at(name, acme.id, classification=READ, timeout_seconds=300))
    (spec,) = house.provider.specs(acme.id)
    assert spec.timeout_seconds == 300
    for seconds, expected in ((30, 30), (600, 300)):
        changed = replace(house.provider, request_seconds=seconds)
        assert changed.bind(acme.id, spec, 1, acme.session.id).spec.timeout_seconds == expected
    assert ended(acme, house, proposed(acme, doors.at(name, acme.id), n=1))[0] is not None


@gate("timeouts.separate", "connections.released")
@pytest.mark.parametrize(("idle", "sweep"), [(900.0, 30.0), (5.0, 5.0)])
def test_a_worker_looks_at_its_connections_every_thirty_seconds_or_as_often_as_they_are_idle(
    workbench: Workbench, idle: float, sweep: float
) -> None:
    assert Upkeep(provider(workbench), workbench, Warming(), idle)._sweep_seconds == sweep


@gate("timeouts.separate")
def test_the_three_time_outs_are_those_of_the_specification_unless_somebody_says_otherwise() -> None:
    fields = type(settings.TOOLSYS).model_fields
    found = [fields[f"mcp_{name}_timeout_seconds"].default for name in ("connect", "request", "idle")]
    assert found == [10, 30, 900]
    assert Timeouts() == Timeouts(*found)
