"""Calls of a session to a server that remembers go to the worker that holds its connection: three real workers, and a
server that counts. A worker that is killed, or stops, leaves its sessions to the others, with an event that says so.
"""

import json
import signal
import socket
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from django.db import OperationalError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from config import wiring
from mcpcatalog import services
from mcpcatalog.models import RouteWorker, ServerRoute
from mcpcatalog.provider import McpProvider
from mcpcatalog.remote import STATELESS_REVISIONS, ServerConfig, StdioCommand, Transport
from mcpcatalog.routes import Route, Routes
from tests.factories import Tenancy
from tests.integration.mcp.conftest import is_gone, policy_of
from tests.integration.mcp.test_ladder import READ
from tests.integration.processes import child_process
from tests.spec.requirements import gate
from tests.workers import process
from toolsys import database, queue
from toolsys import services as platform
from toolsys.domain.states import OutcomeStatus
from toolsys.models import Invocation, ToolEvent
from toolsys.tenancy import tenant_transaction

pytestmark = pytest.mark.slow

SCRIPT = str(Path(__file__).with_name("counting_peer.py"))
COMMAND = StdioCommand((sys.executable, SCRIPT, "stdio"))
PATIENCE_SECONDS = 60.0


def until[T](read: Callable[[], T], what: str, seconds: float = PATIENCE_SECONDS) -> T:
    end = time.monotonic() + seconds
    while not (found := read()):
        assert time.monotonic() < end, f"not within {seconds:.0f} s: {what}"
        time.sleep(0.02)
    return found


class Workers:
    """Three real worker processes, a scheduler and the counting HTTP server; who was ended is replaced for the next."""

    def __init__(self, stack: ExitStack) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self._stack = stack
        self._environment = {
            "TOOLSYS_STDIO_SERVERS": json.dumps({"count": {"argv": list(COMMAND.argv)}}),
            "TOOLSYS_EGRESS_PLAIN_HTTP_HOSTS": f"127.0.0.1:{self.port}",
        }
        self._children: dict[int, subprocess.Popen[bytes]] = {}
        self._redis = queue.call_queue().connection
        self._redis.delete(queue.call_queue().key)
        peer = child_process([sys.executable, SCRIPT, "http", str(self.port)])
        stack.callback(peer.wait)
        stack.callback(peer.kill)
        stack.enter_context(process("scheduler"))

    def ready(self) -> "Workers":
        while len(self._children) < 3:
            child = self._stack.enter_context(process("worker", **self._environment))
            self._children[child.pid] = child
        until(lambda: sum(each["cmd"] == "blpop" for each in self._redis.client_list()) >= 3, "three workers")
        return self

    def end(self, worker: str, number: signal.Signals) -> None:
        child = self._children.pop(int(worker.split(":")[1]))
        child.send_signal(number)
        child.wait(20)


@pytest.fixture(scope="module")
def _workers(_database: None) -> Iterator[Workers]:
    with ExitStack() as stack:
        yield Workers(stack)


@pytest.fixture
def workers(_workers: Workers, database: None) -> Workers:
    return _workers.ready()


def server(tenancy: Tenancy, workers: Workers, transport: Transport) -> ServerConfig:
    """Register the counting server."""
    endpoint = "count" if transport is Transport.STDIO else f"http://127.0.0.1:{workers.port}/mcp"
    command = COMMAND if transport is Transport.STDIO else None
    config = ServerConfig(
        tenancy.id, f"count_{transport}", transport, endpoint, classification=READ, command=command
    )  # fmt: skip
    services.register_server(
        config, policy=policy_of(replace(config, endpoint=f"http://127.0.0.1:{workers.port}/mcp")),
        stdio_names=("count",), output_ceiling_bytes=1_048_576, using="operator",
    )  # fmt: skip
    return config


def in_new_session(tenancy: Tenancy) -> Tenancy:
    """Open a session that pins what the workers discover."""
    house = wiring.compose({"mcp": McpProvider(wiring.SystemClock(), {"count": COMMAND}, 1_048_576)}, None)
    session = platform.open_session(
        tenant_id=tenancy.id, api_key_id=tenancy.key.id, agent_name="assistant", principal_id="user-1",
        environment="production", profile=None, runtime=house.runtime, registry=house.registry,
    )  # fmt: skip
    run = platform.start_run(
        tenant_id=tenancy.id, session_id=session.id, manifest=None, deadline_seconds=600, correlation_id="",
    )  # fmt: skip
    return replace(tenancy, session=session, run=run, runtime=house.runtime, _steps=[0])


def called(tenancy: Tenancy, config: ServerConfig) -> tuple[int, int]:
    """Call once; return the server's count, and the process id of whoever answered."""
    (call,) = tenancy.propose((f"mcp.{config.server_id}.count", {"nonce": uuid.uuid4().hex}))
    until(lambda: tenancy.call(call).outcome_status, f"the end of {call}")
    found = tenancy.call(call)
    assert found.outcome_status is OutcomeStatus.SUCCEEDED, found
    answer = found.payload["structured"]
    return answer["count"], answer["pid"]


def claimed_by(tenancy: Tenancy) -> set[str]:
    with tenant_transaction(tenancy.id):
        found = Invocation.objects.filter(run=tenancy.run).values_list("claimed_by", flat=True)
        return {worker for worker in found if worker}


def route(tenancy: Tenancy) -> ServerRoute:
    with tenant_transaction(tenancy.id):
        return ServerRoute.objects.get(session_id=tenancy.session.id)


def lost(tenancy: Tenancy) -> list[dict[str, Any]]:
    with tenant_transaction(tenancy.id):
        found = ToolEvent.objects.filter(
            type="mcp.server.disconnected", payload__session=str(tenancy.session.id), payload__is_state_lost=True
        )
        return list(found.order_by("id").values_list("payload", flat=True))


@gate("affinity.routed", "affinity.moved")
@pytest.mark.parametrize("transport", list(Transport))
def test_a_session_counts_on_through_one_worker_and_starts_anew_on_another_when_that_is_killed(
    acme: Tenancy, workers: Workers, transport: Transport
) -> None:
    config = server(acme, workers, transport)
    sessions = [in_new_session(acme) for _ in range(4)]
    answers = [[called(session, config) for session in sessions] for _ in range(6)]
    for number, session in enumerate(sessions):
        assert [found[number][0] for found in answers] == [1, 2, 3, 4, 5, 6]
        assert len({found[number][1] for found in answers}) == 1
        assert len(claimed_by(session)) == 1
        assert route(session).worker.startswith(claimed_by(session).pop())

    victim = route(sessions[0]).worker
    killed = [session for session in sessions if route(session).worker == victim]
    spared = [session for session in sessions if route(session).worker != victim]
    children = {found[sessions.index(session)][1] for session in killed for found in answers}
    workers.end(victim, signal.SIGKILL)
    for session in killed:
        assert [called(session, config)[0] for _ in range(3)] == [1, 2, 3], "a fresh connection, and then that one"
        assert route(session).worker != victim
        assert lost(session) == [{
            "server": config.server_id, "session": str(session.session.id), "reason_code": "tool.transport",
            "is_state_lost": True,
        }]  # fmt: skip
    for session in spared:
        assert called(session, config)[0] == 7
        assert lost(session) == []
    if transport is Transport.STDIO:
        assert all(is_gone(pid) for pid in children)


@gate("affinity.moved")
def test_a_worker_that_stops_leaves_its_sessions_to_the_others_at_once(acme: Tenancy, workers: Workers) -> None:
    config = server(acme, workers, Transport.STDIO)
    session = in_new_session(acme)
    assert called(session, config)[0] == 1
    before = route(session).worker
    workers.end(before, signal.SIGTERM)
    begun = time.monotonic()
    assert called(session, config)[0] == 1
    assert route(session).worker != before
    assert len(lost(session)) == 1
    assert time.monotonic() - begun < 10


# -- what one worker knows


class Hands:
    """A clock that a test moves, by hand."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def boottime(self) -> float:
        return self.seconds

    def now(self) -> Any:
        raise NotImplementedError


def worker_of(tenancy: Tenancy, name: str, clock: Hands, lost_routes: list[Route]) -> Routes:
    made = Routes(f"{name}-{uuid.uuid4().hex}", clock, 30.0, on_lost=lost_routes.append)
    made.renew()
    return made


def expire(worker: Routes) -> None:
    RouteWorker.objects.using("owner").filter(name=worker.worker).update(expires_at="2020-01-01T00:00:00Z")


@gate("affinity.routed")
def test_a_route_stays_with_whoever_lives_and_is_asked_for_once(acme: Tenancy, monkeypatch: pytest.MonkeyPatch) -> None:
    clock, gone = Hands(), list[Route]()
    here, there = worker_of(acme, "here", clock, gone), worker_of(acme, "there", clock, gone)
    mine = Route(acme.id, acme.session.id, "s")
    assert here.elsewhere(mine) == ""
    assert there.elsewhere(mine) == here.worker
    monkeypatch.setattr(database, "call", lambda *_: pytest.fail("a live lease need not ask"))
    assert here.elsewhere(mine) == ""


@gate("affinity.moved")
def test_a_worker_whose_lease_had_passed_lets_go_of_what_it_held(acme: Tenancy) -> None:
    clock, gone = Hands(), list[Route]()
    frozen, other = worker_of(acme, "frozen", clock, gone), worker_of(acme, "other", clock, gone)
    mine = Route(acme.id, acme.session.id, "s")
    assert frozen.elsewhere(mine) == ""
    expire(frozen)
    assert other.elsewhere(mine) == ""
    clock.seconds = 31.0
    assert frozen.elsewhere(mine) == other.worker
    assert gone == [mine]
    assert len(lost(acme)) == 1


@gate("affinity.moved")
def test_a_late_renewal_closes_everything_even_where_nobody_took_it(acme: Tenancy) -> None:
    """It may have been taken and be free again by now."""
    clock, gone = Hands(), list[Route]()
    frozen = worker_of(acme, "frozen", clock, gone)
    mine = Route(acme.id, acme.session.id, "s")
    frozen.elsewhere(mine)
    expire(frozen)
    frozen.renew()
    assert gone == [mine]
    frozen.renew()
    assert gone == [mine]


@gate("affinity.moved")
def test_one_connection_that_cannot_be_let_go_of_in_time_costs_no_other_route(acme: Tenancy) -> None:
    tried: list[str] = []

    def stuck(route: Route) -> None:
        tried.append(route.server_id)
        raise TimeoutError

    frozen = worker_of(acme, "frozen", Hands(), [])
    frozen._on_lost = stuck
    for name in ("s", "t"):
        frozen.elsewhere(Route(acme.id, acme.session.id, name))
    expire(frozen)
    frozen.renew()
    assert (sorted(tried), frozen._held) == (["s", "t"], set())


@gate("affinity.moved", "connections.shutdown")
def test_a_worker_stops_where_its_routes_cannot_be_given_back(
    acme: Tenancy, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    here = worker_of(acme, "here", Hands(), [])
    here.start()

    def away(*_: object) -> None:
        raise OperationalError("the connection is lost")

    with monkeypatch.context() as meanwhile:
        meanwhile.setattr(database, "call", away)
        here.stop()
    assert "pass to others when its lease ends" in caplog.text


@gate("affinity.routed")
def test_routes_of_another_tenant_are_another_tenant_s(acme: Tenancy, globex: Tenancy) -> None:
    clock, gone = Hands(), list[Route]()
    here, there = worker_of(acme, "here", clock, gone), worker_of(acme, "there", clock, gone)
    assert here.elsewhere(Route(acme.id, acme.session.id, "s")) == ""
    assert there.elsewhere(Route(globex.id, globex.session.id, "s")) == ""
    with pytest.raises(Exception, match="violates foreign key"):
        there.elsewhere(Route(globex.id, acme.session.id, "s"))


@gate("affinity.routed")
def test_which_servers_remember() -> None:
    stdio = ServerConfig("acme", "s", Transport.STDIO, "s", negotiated_revision="2026-07-28")
    http = ServerConfig("acme", "s", Transport.HTTP, "https://example.com/")
    assert stdio.keeps_state
    assert http.keeps_state, "nobody knows yet"
    assert replace(http, negotiated_revision="2025-11-25").keeps_state
    assert not replace(http, negotiated_revision="2026-07-28").keeps_state
    assert not replace(stdio, is_stateless=True).keeps_state
    assert frozenset(MODERN_PROTOCOL_VERSIONS) == STATELESS_REVISIONS
