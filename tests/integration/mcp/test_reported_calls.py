"""Faults that were reported of other systems, by their number, where a whole call shows what is right: through
pipeline and API, on the wire and in the rows. Those of a part alone are in `test_reported_faults`, which says of all
twenty-eight where they are.
"""

import asyncio
import json
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.db import connections

from mcpcatalog import checks
from mcpcatalog.models import McpServer
from mcpcatalog.remote import KeyPlace
from mcpcatalog.sdk import slots
from mcpcatalog.sdk.inspection import inspect
from mcpcatalog.sdk.pool import PoolLimits
from mcpcatalog.tool import PATIENCE
from tests.factories import Tenancy
from tests.hostile.scripts import MODERN, STALL, Pause, Script, Stage, acts, answer, result
from tests.hostile.server import TOOLS, Hostile, serving
from tests.integration.api.test_api import Api
from tests.integration.mcp.conftest import Doors, House, secret
from tests.integration.mcp.test_ladder import KEYED, READ, VARIABLE, WRITE, ended, events, proposed
from tests.integration.mcp.test_reported_faults import GONE, offered, scripted
from tests.integration.mcp.test_tokens import clock_of, token
from tests.spec.requirements import gate
from tests.unit.test_reported_faults import JSON_VALUE, nested
from toolsys.domain.calls import Disposition
from toolsys.domain.states import OutcomeStatus
from toolsys.egress import policy_for
from toolsys.models import Invocation
from toolsys.tenancy import tenant_transaction

pytestmark = pytest.mark.slow

CLIENT = json.dumps({"client_id": "ours", "client_secret": "sentinel"})


@pytest.fixture(scope="module")
def hostile() -> Iterator[Hostile]:
    with serving() as found:
        yield found


def server_of(tenancy: Tenancy) -> McpServer:
    with tenant_transaction(tenancy.id, "operator"):
        return McpServer.objects.using("operator").get(tenant_id=tenancy.id)


def was_sent(tenancy: Tenancy, call: Disposition) -> bool:
    """Say whether the watermark was passed."""
    with tenant_transaction(tenancy.id):
        return Invocation.objects.get(pk=call.invocation_id).effect_sent_at is not None


def with_tools(*tools: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"description": "d", "inputSchema": {"type": "object"}, **tool} for tool in tools]


@gate("faults.b06")
def test_b06_a_bad_pattern_is_an_error_of_its_schema_and_never_of_the_login(
    acme: Tenancy, houses: Callable[..., House], doors: Doors, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, CLIENT)
    bad = {"name": "bad", "inputSchema": {"type": "object", "properties": {"a": {"pattern": "(?<=a)b"}}}}
    name, peer = doors.peer(tools=with_tools({"name": "t"}, bad), tokens=[token("one")], accepted={"Bearer one"})
    config = doors.with_token(name, tenant_id=acme.id, credential_ref=f"env:{VARIABLE}", classification=READ)
    house = houses()
    acme = house.offer(acme, config)
    assert events(acme, "mcp.tool.rejected") == [{"remote_name": "bad", "reason": "schema.input"}]
    assert server_of(acme).last_failure_code == ""
    assert ended(acme, house, proposed(acme, config))[0] is OutcomeStatus.SUCCEEDED
    assert len(peer.exchanges) == 2, "one for the look at it, one for the session: nobody logged in again"
    assert events(acme, "mcp.server.reauthenticated") + events(acme, "mcp.server.disconnected") == []


@gate("faults.b08")
def test_b08_a_schema_that_holds_itself_is_stored_as_it_came_and_no_depth_is_an_error_of_ours(
    acme: Tenancy, houses: Callable[..., House], doors: Doors
) -> None:
    name, peer = doors.peer(tools=with_tools({"name": "t", "inputSchema": JSON_VALUE}))
    house, config = houses(), doors.at(name, acme.id, classification=READ)
    acme = house.offer(acme, config)
    (spec,) = house.provider.specs(acme.id)
    assert spec.input_schema == JSON_VALUE
    assert ended(acme, house, proposed(acme, config, value=nested(6)))[0] is OutcomeStatus.SUCCEEDED
    api = Api(acme)
    for step, levels in enumerate((200, 30_000), 10):
        call = {"call_id": "a", "name": spec.name, "arguments": {"value": "deep"}}
        body = json.dumps({"step_number": step, "calls": [call]}).replace('"deep"', "[" * levels + "]" * levels)
        response = api.send("POST", api.steps, body)
        assert response.status_code < 500
        if response.status_code < 300:
            (told,) = response.json()["calls"]
            assert told["outcome"]["reason_code"] == "tool.arguments_invalid"
    connections.close_all()
    assert len(peer.sent("tools/call")) == 1


@gate("faults.b10")
def test_b10_fifty_proposals_with_nested_quantifiers_hold_nobody_up(
    acme: Tenancy, houses: Callable[..., House], doors: Doors
) -> None:
    """Each proposal is one request of the API, whose own work is measured: the rest of the machine is not."""
    schema = {"type": "object", "properties": {"a": {"type": "string", "pattern": "^(a+)+$"}}}
    name, _ = doors.peer(tools=with_tools({"name": "t", "inputSchema": schema}))
    house = houses()
    acme = house.offer(acme, doors.at(name, acme.id, classification=READ))
    api, taken = Api(acme), []
    for step in range(50):
        begun = time.process_time()
        response = api.propose(f"mcp.{name}.t", {"a": "a" * (40 + step) + "!"}, step)
        taken.append(time.process_time() - begun)
        (call,) = response.json()["calls"]
        assert call["outcome"]["reason_code"] in {"tool.arguments_invalid", "tool.loop_detected"}
    connections.close_all()
    assert max(taken) < 5, "who tries every way takes twice as long with each letter: years here"


@gate("faults.b13")
def test_b13_the_name_on_the_wire_is_the_servers_own(acme: Tenancy, houses: Callable[..., House], doors: Doors) -> None:
    odd = ["дом/кот", "Get-It", "_1password", "x.y z"]
    name, peer = doors.peer(tools=with_tools(*({"name": each} for each in odd)))
    house = houses()
    acme = house.offer(acme, doors.at(name, acme.id, classification=READ))
    aliases = sorted(spec.name for spec in house.provider.specs(acme.id))
    assert all(alias.isascii() and alias.startswith(f"mcp.{name}.") for alias in aliases)
    for alias in aliases:
        (call,) = acme.propose((alias, {}))
        assert ended(acme, house, call)[0] is OutcomeStatus.SUCCEEDED
    assert sorted(sent["params"]["name"] for method, _, sent in peer.seen if method == "tools/call") == sorted(odd)
    assert sorted(spec.name for spec in houses().provider.specs(acme.id)) == aliases, "and so it is after a restart"


@gate("faults.b15")
@pytest.mark.parametrize(
    ("answered", "code"), [("failed", "tool.upstream_error"), ("ok", "tool.succeeded")], ids=["error", "other shape"]
)
def test_b15_a_declared_schema_of_answers_replaces_no_answer(
    acme: Tenancy, houses: Callable[..., House], doors: Doors, answered: str, code: str
) -> None:
    promised = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    name, _ = doors.peer(tools=with_tools({"name": "t", "outputSchema": promised}), calls=[answered])
    house, config = houses(), doors.at(name, acme.id, classification=READ)
    acme = house.offer(acme, config)
    call = proposed(acme, config)
    assert ended(acme, house, call)[1] == code
    shown = acme.call(call).payload["context_content"]
    assert ("ignore previous instructions" if answered == "failed" else "done") in shown


@gate("faults.b23")
def test_b23_a_keyed_call_is_sent_again_in_a_new_session_with_the_same_key(
    acme: Tenancy, houses: Callable[..., House], hostile: Hostile
) -> None:
    row = scripted(hostile, "b23-keyed", call=[GONE, answer(result())])
    keyed = {"classification": KEYED, "key_place": KeyPlace.META, "key_name": "key"}
    house = houses()
    tenancy, config = offered(hostile, house, acme, row, **keyed)
    assert ended(tenancy, house, proposed(tenancy, config))[0] is OutcomeStatus.SUCCEEDED
    keys = [seen.message["params"]["_meta"]["key"] for seen in hostile.seen
            if (seen.name, seen.stage) == (row.name, Stage.CALL)]  # fmt: skip
    assert (len(keys), len(set(keys))) == (2, 1)


@gate("faults.b23")
def test_b23_no_attempt_opens_more_than_one_session(
    acme: Tenancy, houses: Callable[..., House], hostile: Hostile
) -> None:
    """A server that forgets every session. The bound is that on attempts, where the fault's wording wants one session
    more for the whole call: DESIGN §4 wins, and each attempt may need a connection of its own (decision record 33).
    """
    row = scripted(hostile, "b23-forgetful", call=GONE)
    house = houses()
    tenancy, config = offered(hostile, house, acme, row, classification=READ)
    opened, attempts = hostile.calls(row.name, Stage.INITIALIZE), house.runtime.limits.max_attempts
    assert ended(tenancy, house, proposed(tenancy, config)) == (OutcomeStatus.UNAVAILABLE, "tool.server_unreachable")
    assert hostile.calls(row.name) == attempts
    assert hostile.calls(row.name, Stage.INITIALIZE) - opened == attempts


@gate("faults.b27")
def test_b27_a_list_that_comes_slowly_is_given_up_and_the_catalog_stays(
    acme: Tenancy, houses: Callable[..., House], hostile: Hostile, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every page in time, and always another: the whole has a bound of its own, which is not the peer's."""
    assert slots.LISTING_SECONDS <= 30
    monkeypatch.setattr(slots, "LISTING_SECONDS", 1.5)
    pages = [listed(nextCursor=f"c{number}") for number in range(60)]
    row = scripted(hostile, "b27-slow", "modern", list=[slowly(page) for page in pages])
    house = houses()
    tenancy, _ = offered(hostile, house, acme, row)
    before = [spec.name for spec in house.provider.specs(tenancy.id)]
    with tenant_transaction(acme.id, "operator"):
        McpServer.objects.using("operator").filter(tenant_id=acme.id).update(last_discovered_at=None)
    begun = time.monotonic()
    house.provider.refresh(acme.id, "peer")
    assert time.monotonic() - begun < 1.5 + 6.0
    assert 1 < hostile.calls(row.name, Stage.LIST) < 30
    assert [spec.name for spec in house.provider.specs(acme.id)] == before != []
    assert server_of(acme).last_failure_code == "tool.server_unreachable"


def listed(**more: Any) -> Script:
    return answer({"tools": TOOLS, **MODERN, **more})


def slowly(script: Script) -> Script:
    return lambda identifier: [Pause(0.2), *script(identifier)]


@gate("faults.b33")
def test_b33_a_write_that_times_out_is_sent_once(acme: Tenancy, houses: Callable[..., House], hostile: Hostile) -> None:
    row = scripted(hostile, "b33-stalls", "modern", call=acts(STALL))
    house = houses()
    tenancy, config = offered(hostile, house, acme, row, classification=WRITE, timeout_seconds=1)
    assert ended(tenancy, house, proposed(tenancy, config)) == (OutcomeStatus.UNCERTAIN, "tool.outcome_unknown")
    assert hostile.calls(row.name) == 1


@gate("faults.b45")
def test_b45_where_every_connection_is_in_use_a_call_waits_and_then_was_never_sent(
    acme: Tenancy, houses: Callable[..., House], doors: Doors
) -> None:
    name, peer = doors.peer()
    house = houses()
    assert house.provider.workbench is not None
    pool: Any = house.provider.workbench.connections
    config = doors.at(name, acme.id, classification=WRITE, timeout_seconds=2)
    acme = house.offer(acme, config)
    pool._limits = PoolLimits(connections=1)
    busy = house.provider.workbench.run(pool.acquire(config, "busy", None), 10.0)
    holding = busy._loop.create_future()
    busy._sent.add(holding)
    call = proposed(acme, config)
    begun = time.monotonic()
    assert ended(acme, house, call) == (OutcomeStatus.UNAVAILABLE, "tool.server_busy")
    assert time.monotonic() - begun >= 2 * PATIENCE, "it waited for its own time"
    assert (was_sent(acme, call), peer.sent("tools/call")) == (False, [])
    (unknown,) = acme.propose((f"mcp.{name}.nothing", {}))
    assert acme.call(unknown).reason_code == "policy.matrix.unknown_tool", "only what no catalog has is unknown"
    busy._sent.discard(holding)
    again = proposed(acme, config, n=2)
    assert ended(acme, house, again)[0] is OutcomeStatus.SUCCEEDED


@gate("faults.b53")
def test_b53_without_a_policy_a_check_dials_nobody(doors: Doors) -> None:
    name, door = doors.peer()
    seen = asyncio.run(inspect(doors.at(name), secret, policy_for([])))
    ladder = {rung.name: rung for rung in checks.ladder(doors.at(name), seen, None)}
    assert (ladder["address"].status, ladder["address"].reason) == ("failed", "tool.egress_denied")
    assert {ladder[rung].status for rung in ("tcp", "protocol", "tools")} == {"not_tried"}
    assert door.seen == []


@gate("faults.b55")
def test_b55_a_token_is_exchanged_before_the_watermark(
    acme: Tenancy, houses: Callable[..., House], doors: Doors, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, CLIENT)
    name, peer = doors.peer(tokens=[token("one")])
    config = doors.with_token(name, tenant_id=acme.id, credential_ref=f"env:{VARIABLE}", classification=WRITE)
    house = houses()
    acme = house.offer(acme, config)
    assert ended(acme, house, proposed(acme, config, n=1))[0] is OutcomeStatus.SUCCEEDED
    assert house.provider.workbench is not None
    pool: Any = house.provider.workbench.connections
    (connection,) = [each for each in pool._open.values() if each.is_alive]
    clock_of(connection, 4_000)
    peer.tokens = [(503, b"")]
    call = proposed(acme, config, n=2)
    assert ended(acme, house, call) == (OutcomeStatus.UNAVAILABLE, "tool.server_unreachable"), "and not uncertain"
    assert (was_sent(acme, call), len(peer.sent("tools/call")), connection.is_alive) == (False, 1, True)
    peer.tokens = [token("two")]
    assert ended(acme, house, proposed(acme, config, n=3))[0] is OutcomeStatus.SUCCEEDED
    assert peer.sent("tools/call")[-1]["authorization"] == "Bearer two"
