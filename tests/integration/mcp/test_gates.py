"""Gates 11 and 12, and that a catalog loses only what is bad in it: through the pipeline, against scripted servers."""

import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from mcpcatalog.remote import KeyPlace, ServerConfig, StdioCommand, Transport
from tests.factories import Tenancy, events_of
from tests.hostile.piping import SCRIPT
from tests.hostile.play import config_of
from tests.hostile.row import Row
from tests.hostile.scripts import DROP, RESET, Script, Stage, acts
from tests.hostile.server import serving
from tests.integration.mcp.conftest import Doors, House
from tests.integration.mcp.test_ladder import IDEMPOTENT, KEYED, READ, WRITE, ended, events, proposed
from tests.spec.requirements import gate
from toolsys.domain.calls import Disposition
from toolsys.domain.spec import Classification
from toolsys.domain.states import OutcomeStatus
from toolsys.models import Invocation
from toolsys.tenancy import tenant_transaction


def steps_of(tenancy: Tenancy, call: Disposition) -> list[int]:
    with tenant_transaction(tenancy.id):
        return [entry["step"] for entry in Invocation.objects.get(pk=call.invocation_id).step_trace]


@gate("gate.11")
def test_an_mcp_call_goes_through_the_same_steps_as_a_builtin_call(
    acme: Tenancy, houses: Callable[[], House], doors: Doors
) -> None:
    name, _ = doors.peer()
    config = doors.at(name, acme.id, classification=READ)
    house = houses()
    acme = house.offer(acme, config)
    remote, (builtin,) = proposed(acme, config, n=1), acme.propose(("demo.echo", {"text": "x"}))
    for call in (remote, builtin):
        assert ended(acme, house, call)[0] is OutcomeStatus.SUCCEEDED
    assert steps_of(acme, remote) == steps_of(acme, builtin)
    assert {1, 2, 3, 4, 5, 6, 7, 10, 11, 12} <= set(steps_of(acme, remote))
    assert events_of(acme, remote) == events_of(acme, builtin)


@gate("gate.12")
@pytest.mark.parametrize(
    ("classification", "expected", "sent"),
    [
        (READ, (OutcomeStatus.UNAVAILABLE, "tool.server_unreachable"), 3),
        (WRITE, (OutcomeStatus.UNCERTAIN, "tool.outcome_unknown"), 1),
    ],
    ids=["read", "write"],
)
def test_a_server_that_disconnects_in_a_call_is_unavailable_and_the_run_goes_on(
    acme: Tenancy, houses: Callable[[], House], doors: Doors, classification: Classification,
    expected: tuple[OutcomeStatus, str], sent: int,
) -> None:  # fmt: skip
    name, peer = doors.peer(calls=["drop"])
    config = doors.at(name, acme.id, classification=classification)
    house = houses()
    acme = house.offer(acme, config)
    assert ended(acme, house, proposed(acme, config, n=1)) == expected
    assert len(peer.sent("tools/call")) == sent
    (clock,) = acme.propose(("system.time", {}))
    assert ended(acme, house, clock)[0] is OutcomeStatus.SUCCEEDED
    peer.calls = ["ok"]
    assert ended(acme, house, proposed(acme, config, n=2))[0] is OutcomeStatus.SUCCEEDED, "the next call connects again"


CLASSES = {"read-only": READ, "idempotent": IDEMPOTENT, "keyed": KEYED, "non-idempotent": WRITE}
LOST: dict[str, dict[Stage, Script]] = {
    "resets": {Stage.DISCOVER: acts(RESET), Stage.INITIALIZE: acts(RESET)},
    "drops-the-list": {Stage.LIST: acts(DROP)},
    "nobody-listens": {},
}


@gate("gate.12")
@pytest.mark.parametrize("classification", CLASSES.values(), ids=list(CLASSES))
@pytest.mark.parametrize("how", LOST)
def test_an_unreachable_server_is_unavailable_for_every_class(
    acme: Tenancy, houses: Callable[..., House], classification: Classification, how: str
) -> None:
    """The connection comes before the watermark: nothing was sent, so that nothing is uncertain."""
    house = houses()
    with serving() as hostile:
        row = Row(how, "", "unknown", LOST[how])
        tenancy, config = offered(acme, house, config_of(row, hostile), classification)
        hostile.scripts[how] = row.scripts
        hostile.armed.add(how)
        if how != "nobody-listens":
            ends_unsent(tenancy, house, config)
    if how == "nobody-listens":
        ends_unsent(tenancy, house, config)
    assert hostile.calls(how) == 0


@gate("gate.12")
@pytest.mark.parametrize("classification", CLASSES.values(), ids=list(CLASSES))
def test_a_process_that_no_longer_starts_is_unavailable_for_every_class(
    acme: Tenancy, houses: Callable[..., House], tmp_path: Path, classification: Classification
) -> None:
    program = tmp_path / "server.py"
    program.write_text(
        f"import runpy, sys; sys.argv[1:] = ['is-well']; runpy.run_path({SCRIPT!r}, run_name='__main__')"
    )
    command = StdioCommand((sys.executable, str(program)))
    house = houses({"peer": command})
    config = ServerConfig(acme.id, "peer", Transport.STDIO, "peer", command=command)
    tenancy, config = offered(acme, house, config, classification)
    program.write_text("raise SystemExit(3)")
    ends_unsent(tenancy, house, config)


def offered(
    tenancy: Tenancy, house: House, config: ServerConfig, classification: Classification
) -> tuple[Tenancy, ServerConfig]:
    config = replace(
        config, tenant_id=tenancy.id, server_id="peer", classification=classification, key_place=KeyPlace.META,
        key_name="key",
    )  # fmt: skip
    return house.offer(tenancy, config), config


def ends_unsent(tenancy: Tenancy, house: House, config: ServerConfig) -> None:
    call = proposed(tenancy, config)
    assert ended(tenancy, house, call) == (OutcomeStatus.UNAVAILABLE, "tool.server_unreachable")
    with tenant_transaction(tenancy.id):
        assert Invocation.objects.get(pk=call.invocation_id).effect_sent_at is None
    (clock,) = tenancy.propose(("system.time", {}))
    assert ended(tenancy, house, clock)[0] is OutcomeStatus.SUCCEEDED, "the run goes on"


@gate("discovery.singly")
def test_bad_tools_and_colliding_names_cost_only_themselves(
    acme: Tenancy, houses: Callable[[], House], doors: Doors
) -> None:
    fine = {"type": "object"}
    tools = [{"name": "good", "inputSchema": fine}, {"name": "bad", "inputSchema": {"type": "object", "$ref": "http://x/"}},
             {"name": "Get-It", "inputSchema": fine}, {"name": "get_it", "inputSchema": fine}, 7]  # fmt: skip
    name, _ = doors.peer(tools=tools)
    house = houses()
    acme = house.offer(acme, doors.at(name, acme.id, classification=READ))
    assert [spec.name for spec in house.provider.specs(acme.id)] == [f"mcp.{name}.good"]
    assert events(acme, "mcp.catalog.conflict") == [{"remote_names": ["Get-It", "get_it"]}]
    rejected = events(acme, "mcp.tool.rejected")
    assert {event["remote_name"] for event in rejected} == {"bad", ""}
