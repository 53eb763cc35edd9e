"""Served web processes are killed around each commit of the MCP face, and two of them get the same message at once."""

import http.client
import os
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.crash.face_points import FACE_POINTS, NEW, OLD, FacePoint, Left, Request, Then
from tests.e2e.server import serving
from tests.factories import Tenancy
from tests.integration.api.mcp_peer import Answer, RemotePeer
from tests.integration.api.test_mcp_clients import PATIENCE, World, approve, is_held, world  # noqa: F401 - fixture
from tests.integration.api.test_mcp_face import rows
from tests.integration.processes import eventually
from tests.spec.requirements import gate
from toolsys.models import McpClientSession, McpProposal, Run, RunStep
from toolsys.tenancy import tenant_transaction

pytestmark = pytest.mark.slow


WRITE = "demo.external_write"
LONG_AGO = "2020-01-01T00:00:00Z"


def cells(*, ending: bool) -> list[Any]:
    """Every point in one era in the suite, in turn; `make crash-edges` plays all."""
    return [
        pytest.param(
            point,
            era,
            id=f"{point.moment}-{point.request}-{era}".replace(" ", "-"),
            marks=[pytest.mark.long] if (row + column) % len(point.eras) else [],
        )
        for row, point in enumerate(FACE_POINTS)
        for column, era in enumerate(point.eras)
        if (point.request is Request.END) is ending
    ]


@dataclass
class Web:
    """A served web process, and the gates at which it waits."""

    address: str
    gates: Path

    def close(self, moment: str, tenancy: Tenancy) -> None:
        (self.gates / moment).write_text(tenancy.id)

    def open(self, moment: str) -> None:
        (self.gates / moment).unlink()

    def reached(self, moment: str) -> bool:
        return (self.gates / f"{moment}.pid").exists()

    def kill(self, moment: str) -> None:
        os.kill(int((self.gates / f"{moment}.pid").read_text()), signal.SIGKILL)


@contextmanager
def web(folder: Path) -> Iterator[Web]:
    folder.mkdir()
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("TOOLSYS_PROBE_DIR", str(folder))
        with serving(folder) as address:
            yield Web(address, folder)


@pytest.fixture(scope="module")
def pair(world: World) -> Iterator[tuple[Web, Web]]:  # noqa: F811
    with ExitStack() as both:
        yield both.enter_context(web(world.folder / "one")), both.enter_context(web(world.folder / "other"))


@dataclass
class Client:
    """One client in one cell: what it sends, whichever web process it speaks to."""

    tenancy: Tenancy
    era: str
    peer: RemotePeer

    @classmethod
    def of(cls, tenancy: Tenancy, era: str, survivor: Web) -> "Client":
        return cls(tenancy, era, RemotePeer.of(tenancy).at(survivor.address))

    def begin(self) -> None:
        if self.era == OLD:
            self.peer.shake()
        else:
            self.peer.ask("tools/list")

    def write(self, address: str, **named: Any) -> Answer:
        """Send the one call of the cell: a retry, as the SDK's, has the same JSON-RPC id."""
        return self.peer.at(address).call(WRITE, {"line": self.line}, id=7, **named)

    def send(self, request: Request, address: str) -> Answer:
        peer = self.peer.at(address)
        match request:
            case Request.BEGIN:
                given = {"protocolVersion": OLD, "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}}
                message = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": given}
                return peer.post(message) if self.era == OLD and not peer.session else peer.ask("tools/list")
            case Request.RETURN:
                return peer.ask("tools/list")
            case Request.END:
                return peer.post(None, "DELETE")
            case Request.COLLECT_BY_KEY:
                return self.write(address, **{"idempotency-key": "order-1"})
        return self.write(address)

    @property
    def line(self) -> str:
        return f"face {self.era} {self.tenancy.id}"


def left(tenancy: Tenancy) -> Left:
    """Count what the tenant's tables hold, beside the session and run that every tenancy has."""
    with tenant_transaction(tenancy.id):
        conversations, proposals = McpClientSession.objects.all(), McpProposal.objects.all()
        return Left(
            conversations=conversations.count(), closed=conversations.exclude(closed_at=None).count(),
            runs=Run.objects.exclude(pk=tenancy.run.pk).count(), proposals=proposals.count(),
            collected=proposals.exclude(collected_at=None).count(), steps=RunStep.objects.count(),
            marked=sum(row.cancel_requested_at is not None for row in rows(tenancy)),
        )  # fmt: skip


def succeeds(tenancy: Tenancy) -> None:
    eventually(lambda: rows(tenancy)[0].completed_at is not None, "the call has ended", PATIENCE)
    assert rows(tenancy)[0].reason_code == "tool.succeeded"


def prepare(client: Client, request: Request, survivor: Web) -> None:
    """Bring the conversation where its next message is the one that is killed."""
    if request is not Request.BEGIN:
        client.begin()
    if request in {Request.COLLECT, Request.COLLECT_BY_KEY}:
        client.send(request, survivor.address)
        approve(client.tenancy)
        succeeds(client.tenancy)
    if request is Request.END:
        client.write(survivor.address)
    with tenant_transaction(client.tenancy.id):
        if request is Request.RETURN:
            McpClientSession.objects.update(last_call_at=LONG_AGO)
        if request is Request.REFUSED:
            Run.objects.exclude(pk=client.tenancy.run.pk).update(status="failed")


@gate("mcp.face.crash")
@pytest.mark.parametrize(("point", "era"), cells(ending=False))
def test_a_killed_web_process_leaves_what_the_table_says(
    world: World, pair: tuple[Web, Web], acme: Tenancy, tmp_path: Path, point: FacePoint, era: str  # noqa: F811
) -> None:  # fmt: skip
    play(world, pair[0], acme, tmp_path, point, era)


@gate("mcp.face.crash")
@pytest.mark.parametrize(("point", "era"), cells(ending=True))
def test_who_dies_while_a_conversation_ends_has_ended_all_of_it_or_nothing(
    world: World, pair: tuple[Web, Web], acme: Tenancy, tmp_path: Path, point: FacePoint, era: str  # noqa: F811
) -> None:  # fmt: skip
    play(world, pair[0], acme, tmp_path, point, era)


def play(
    world: World, survivor: Web, acme: Tenancy, folder: Path, point: FacePoint, era: str  # noqa: F811
) -> None:  # fmt: skip
    """Kill one web process at the point, and send the same message to another one."""
    client = Client.of(acme, era, survivor)
    prepare(client, point.request, survivor)
    with web(folder / "victim") as victim, ThreadPoolExecutor(1) as background:
        victim.close(point.moment, acme)
        asked = background.submit(client.send, point.request, victim.address)
        eventually(lambda: victim.reached(point.moment) or asked.done(), point.moment, PATIENCE)
        assert not asked.done(), asked.result()
        victim.kill(point.moment)
        with pytest.raises((OSError, http.client.HTTPException)):
            asked.result(PATIENCE)
    assert left(acme) == point.left
    EXPECTED[point.request](world, client, client.send(point.request, survivor.address), point.then)


def begun(world: World, client: Client, again: Answer, then: Then) -> None:  # noqa: F811
    assert again.status == 200
    assert left(client.tenancy).conversations == (2 if then is Then.ANOTHER else 1)


def proposed(world: World, client: Client, again: Answer, then: Then) -> None:  # noqa: F811
    assert (again.meta["toolsys/step-number"], then) == (1, Then.SAME), "the number that the dead one took, if any"
    approve(client.tenancy)
    succeeds(client.tenancy)
    assert left(client.tenancy) == Left(proposals=1, steps=1)
    assert world.effects.lines().count(client.line) == 1


def collected(world: World, client: Client, again: Answer, then: Then) -> None:  # noqa: F811
    first, *more = rows(client.tenancy)
    is_same = again.meta["toolsys/invocation-id"] == str(first.pk)
    assert (is_same, len(more)) == ((True, 0) if then is Then.SAME else (False, 1))
    assert again.result["isError"] is not is_same, "the new one waits for people again"
    assert world.effects.lines().count(client.line) == 1


def refused(world: World, client: Client, again: Answer, then: Then) -> None:  # noqa: F811
    assert (again.refusal[2], then) == ("run.not_open", Then.REFUSED)
    assert left(client.tenancy) == Left()


def returned(world: World, client: Client, again: Answer, then: Then) -> None:  # noqa: F811
    assert (again.status, then) == (200, Then.SAME)
    with tenant_transaction(client.tenancy.id):
        found = McpClientSession.objects.get()
        first, *later = Run.objects.exclude(pk=client.tenancy.run.pk).order_by("id").values_list("pk", flat=True)
    assert found.run_id in later
    assert found.run_id != first
    assert client.write(client.peer.address).meta["toolsys/run-id"] == str(found.run_id)


def ended(world: World, client: Client, again: Answer, then: Then) -> None:  # noqa: F811
    assert again.status == (204 if then is Then.SAME else 404)
    assert left(client.tenancy) == Left(closed=1, proposals=1, steps=1, marked=1)
    eventually(lambda: rows(client.tenancy)[0].reason_code == "tool.run_cancelled", "the call is over", PATIENCE)


EXPECTED: dict[Request, Callable[[World, Client, Answer, Then], None]] = {
    Request.BEGIN: begun, Request.PROPOSE: proposed, Request.COLLECT: collected, Request.COLLECT_BY_KEY: collected,
    Request.REFUSED: refused, Request.RETURN: returned, Request.END: ended,
}  # fmt: skip


@gate("mcp.face.attach")
@pytest.mark.parametrize("era", [OLD, NEW])
@pytest.mark.parametrize("moment", ["before_number", "after_number"])
def test_the_same_message_in_two_web_processes_at_once_is_one_step_and_one_effect(
    world: World, pair: tuple[Web, Web], acme: Tenancy, era: str, moment: str  # noqa: F811
) -> None:  # fmt: skip
    client = Client.of(acme, era, pair[0])
    client.begin()
    one, other = both(client, Request.PROPOSE, pair, moment)
    assert one.meta["toolsys/invocation-id"] == other.meta["toolsys/invocation-id"]
    eventually(lambda: is_held(acme), "the call is held", PATIENCE)
    approve(acme)
    succeeds(acme)
    assert left(acme) == Left(proposals=1, steps=1)
    assert (world.effects.lines().count(client.line), len(rows(acme))) == (1, 1)


@gate("mcp.face.sessions")
def test_the_first_message_in_two_web_processes_at_once_is_one_conversation(
    pair: tuple[Web, Web], acme: Tenancy
) -> None:
    client = Client.of(acme, NEW, pair[0])
    one, other = both(client, Request.BEGIN, pair, "before_conversation")
    assert one.result == other.result
    with tenant_transaction(acme.id):
        current = McpClientSession.objects.get()
        still_open = set(Run.objects.filter(status="running").exclude(pk=acme.run.pk).values_list("pk", flat=True))
    assert still_open == {current.run_id}, "who came second left nothing open"


@gate("mcp.face.sessions")
@pytest.mark.parametrize("era", [OLD, NEW])
def test_a_silence_that_two_web_processes_end_at_once_is_one_new_run(
    pair: tuple[Web, Web], acme: Tenancy, era: str
) -> None:
    client = Client.of(acme, era, pair[0])
    prepare(client, Request.RETURN, pair[0])
    one, other = both(client, Request.RETURN, pair, "before_move")
    assert one.result == other.result
    with tenant_transaction(acme.id):
        current, made = McpClientSession.objects.get(), Run.objects.exclude(pk=acme.run.pk).order_by("id")
        states = [(run.pk == current.run_id, run.status) for run in made]
    assert sorted(states[1:]) == [(False, "completed"), (True, "running")]


def both(client: Client, request: Request, pair: tuple[Web, Web], moment: str) -> list[Answer]:
    """Let both processes come as far as `moment` before either goes on."""
    with ThreadPoolExecutor(2) as background:
        for each in pair:
            (each.gates / f"{moment}.pid").unlink(missing_ok=True)
            each.close(moment, client.tenancy)
        asked = [background.submit(client.send, request, each.address) for each in pair]
        for each in pair:
            eventually(lambda web=each: web.reached(moment), moment, PATIENCE)  # type: ignore[misc]
        for each in pair:
            each.open(moment)
        return [answer.result(PATIENCE) for answer in asked]
