"""Gates 11 and 12, and that a catalog loses only what is bad in it: through the pipeline, against scripted servers."""

from collections.abc import Callable

import pytest

from tests.factories import Tenancy, events_of
from tests.integration.mcp.conftest import Doors, House
from tests.integration.mcp.test_ladder import READ, WRITE, ended, events, proposed
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
