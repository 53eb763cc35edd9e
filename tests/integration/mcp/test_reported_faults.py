"""Faults that were reported of other systems, by their number, each with what is right here: transports, logins, pools.

`WHERE` says for all twenty-eight which test holds the right value; schemas, names and results are in `tests/unit`, the
database and the queue in `tests/integration` and `tests/races`.
"""

import asyncio
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest
from prometheus_client import REGISTRY

from mcpcatalog import remote, services
from mcpcatalog.models import McpServer
from mcpcatalog.remote import CallSpec
from mcpcatalog.sdk import listing
from mcpcatalog.sdk.pool import PoolLimits
from mcpcatalog.validators import InvalidConfiguration
from tests.factories import Tenancy
from tests.hostile.leftovers import children, held
from tests.hostile.play import READ, config_of, ending, pool
from tests.hostile.row import Row
from tests.hostile.scripts import DROP, MODERN, STALL, Forever, Script, Stage, acts, answer, events, head, http, result
from tests.hostile.server import TOOLS, Hostile, serving
from tests.integration.mcp.conftest import Bench, Doors, House, peer, policy_of, secret
from tests.integration.mcp.test_ladder import WRITE, ended, proposed
from tests.integration.mcp.test_listing import tool
from tests.integration.mcp.test_tokens import CLIENT, clock_of, token
from tests.spec.requirements import gate
from toolsys.domain.states import OutcomeStatus
from toolsys.egress import policy_for
from toolsys.models import Invocation
from toolsys.tenancy import tenant_transaction

ROOT: Final = Path(__file__).resolve().parents[3]
CORPUS: Final = ROOT.parent / "shared" / "corpus" / "reported-faults.md"
UNIT, HERE = "tests/unit/test_reported_faults.py", "tests/integration/mcp/test_reported_faults.py"
WHERE: Final = {
    **dict.fromkeys(("B01", "B03", "B06", "B08", "B10", "B11", "B13", "B15", "B18", "B19", "B39"), UNIT),
    **dict.fromkeys(("B23", "B25", "B27", "B29", "B33", "B41", "B43", "B45", "B50", "B53", "B55"), HERE),
    **dict.fromkeys(("B21", "B35", "B37", "B47", "B52"), "tests/integration/test_reported_faults.py"),
    "B31": "tests/unit/test_mcp_messages.py",
}  # fmt: skip
# Of these a whole call shows more than the part of it that the first file has.
AND_AS_CALLS: Final = ("B06", "B08", "B10", "B13", "B15", "B23", "B27", "B33", "B45", "B53", "B55")


@gate("faults.table")
def test_every_reported_fault_has_a_test() -> None:
    assert is_named(WHERE) == WHERE.keys()
    assert is_named(dict.fromkeys(AND_AS_CALLS, "tests/integration/mcp/test_reported_calls.py")) == set(AND_AS_CALLS)
    assert len(WHERE) == 28
    if CORPUS.exists():
        assert sorted(WHERE) == sorted(re.findall(r"^### (B\d\d)", CORPUS.read_text(), re.MULTILINE))


def is_named(where: dict[str, str]) -> set[str]:
    return {number for number, path in where.items() if f"def test_{number.lower()}_" in (ROOT / path).read_text()}


@pytest.fixture(scope="module")
def hostile() -> Iterator[Hostile]:
    with serving() as found:
        yield found


def scripted(hostile: Hostile, name: str, era: str = "legacy", **scripts: Script | list[Script]) -> Row:
    """Arm a server; the keywords are names of stages."""
    row = Row(name, "", "unknown", {Stage[stage.upper()]: given for stage, given in scripts.items()}, era)
    hostile.scripts[name] = row.scripts
    hostile.armed.add(name)
    return row


def offered(hostile: Hostile, house: House, acme: Tenancy, row: Row, **changes: Any) -> tuple[Tenancy, Any]:
    hostile.armed.discard(row.name)
    config = replace(config_of(row, hostile), tenant_id=acme.id, server_id="peer", **changes)
    tenancy = house.offer(acme, config)
    hostile.armed.add(row.name)
    return tenancy, config


GONE: Final = http("", "404 Not Found", None)


@gate("faults.b23")
def test_b23_a_lost_session_is_opened_once_more_by_class(
    acme: Tenancy, houses: Callable[[], House], hostile: Hostile
) -> None:
    for classification, expected, sent in ((READ, OutcomeStatus.SUCCEEDED, 2), (WRITE, OutcomeStatus.UNCERTAIN, 1)):
        row = scripted(hostile, f"b23-{expected}", call=[GONE, answer(result())])
        house = houses()
        tenancy, config = offered(hostile, house, acme, row, classification=classification)
        opened, before = hostile.calls(row.name, Stage.INITIALIZE), hostile.calls(row.name)
        assert ended(tenancy, house, proposed(tenancy, config))[0] is expected
        assert hostile.calls(row.name) - before == sent
        assert hostile.calls(row.name, Stage.INITIALIZE) - opened == sent, "no more than one new session"
        with tenant_transaction(acme.id, "operator"):
            McpServer.objects.using("operator").filter(tenant_id=acme.id).delete()


@gate("faults.b23")
def test_b23_a_404_without_a_session_is_a_method_that_is_not_there(
    bench: Callable[..., Bench], hostile: Hostile
) -> None:
    row = scripted(hostile, "b23-modern", "modern", call=GONE)
    here, config = bench(), config_of(row, hostile)
    first = here.connect(config)
    with pytest.raises(remote.UpstreamError) as raised:
        here.call(config)
    assert (raised.value.effect, here.connect(config) is first) == ("not_applied", True)


@gate("faults.b25")
def test_b25_a_stream_that_closes_without_an_answer_is_noticed_at_once(hostile: Hostile) -> None:
    for name, then, reason in (("closed", DROP, "tool.server_unreachable"), ("open", STALL, "tool.timeout"),
                               ("talks", Forever(b": x\n\n", 0.05), "tool.timeout")):  # fmt: skip
        row = scripted(hostile, f"b25-{name}", "modern", call=acts(head(kind="text/event-stream") + b": x\n\n", then))

        async def go(row: Row = row) -> tuple[str, float]:
            connections = pool()
            await connections.acquire(config_of(row, hostile), "s", secret)
            found = await ending(connections, config_of(row, hostile), "s", 1.0)
            await connections.close_all()
            return found.reason, found.seconds

        ended_with, seconds = asyncio.run(go())
        assert ended_with == reason
        assert (seconds < 0.9) if name == "closed" else (1.0 <= seconds < 3.0)


def listed(*pages: Any) -> tuple[list[str], list[str | None]]:
    asked: list[str | None] = []

    async def page_at(cursor: str | None) -> dict[str, Any]:
        asked.append(cursor)
        page = pages[min(len(asked), len(pages)) - 1]
        if isinstance(page, Exception):
            raise page
        return dict(page)

    tools, _ = asyncio.run(listing.list_tools(page_at, checks_headers=False))
    return [found.name for found in tools], asked


@gate("faults.b27")
@pytest.mark.parametrize(
    ("pages", "names"),
    [
        ([{"tools": [tool("a")], "nextCursor": ""}], ["a"]),
        ([{"tools": [tool("a")], "nextCursor": ""}, remote.UpstreamError("-32602")], ["a"]),
        ([{"tools": [tool("a")], "nextCursor": ""}, {"tools": [tool("b")]}], ["a", "b"]),
        ([{"tools": [tool("a")], "nextCursor": ""}, {"tools": [tool("b")], "nextCursor": ""}], ["a", "b"]),
    ],
    ids=["same page", "refused", "one more", "empty for ever"],
)
def test_b27_an_empty_cursor_is_followed_once(pages: list[Any], names: list[str]) -> None:
    assert listed(*pages) == (names, [None, ""])


@gate("faults.b27")
def test_b27_a_list_that_does_not_end_leaves_the_catalog_as_it_was(
    acme: Tenancy, houses: Callable[[], House], hostile: Hostile
) -> None:
    row = scripted(hostile, "b27", "modern", list=answer({"tools": TOOLS, "nextCursor": "again"}))
    house = houses()
    offered(hostile, house, acme, row)
    before = [spec.name for spec in house.provider.specs(acme.id)]
    with tenant_transaction(acme.id, "operator"):
        McpServer.objects.using("operator").filter(tenant_id=acme.id).update(last_discovered_at=None)
    house.provider.refresh(acme.id, "peer")
    with tenant_transaction(acme.id, "operator"):
        server = McpServer.objects.using("operator").get(tenant_id=acme.id)
    assert ([spec.name for spec in house.provider.specs(acme.id)], server.last_failure_code) == (
        before, "tool.protocol_error",
    )  # fmt: skip


@gate("faults.b29")
def test_b29_strays_are_ignored_up_to_a_thousand(hostile: Hostile) -> None:
    stray, mine = 'data: {"jsonrpc":"2.0","method":"odd"}\n\n', 'data: {"jsonrpc":"2.0","id":"@id@","result":{}}\n\n'
    for number, reason in ((1_000, "tool.succeeded"), (1_001, "tool.protocol_error")):
        row = scripted(hostile, f"b29-{number}", "modern", call=events(stray * number, mine))

        async def go(row: Row = row) -> str:
            connections = pool()
            found = await ending(connections, config_of(row, hostile), "s", 30.0)
            await connections.close_all()
            return found.reason

        assert asyncio.run(go()) == reason


@gate("faults.b29")
def test_b29_a_megabyte_of_strays_ends_the_call_however_few_they_are(hostile: Hostile) -> None:
    """Within what one answer may have in bytes, and with far fewer messages than a thousand."""
    stray = f'data: {{"jsonrpc":"2.0","method":"odd","params":{{"x":"{"x" * 100_000}"}}}}\n\n'
    mine = 'data: {"jsonrpc":"2.0","id":"@id@","result":{}}\n\n'
    for number, reason in ((9, "tool.succeeded"), (11, "tool.protocol_error")):
        row = scripted(hostile, f"b29-bytes-{number}", "modern", call=events(stray * number, mine))

        async def go(row: Row = row) -> str:
            connections = pool(PoolLimits())
            found = await ending(connections, config_of(row, hostile), "s", 30.0)
            await connections.close_all()
            return found.reason

        assert asyncio.run(go()) == reason


@gate("metrics.strays")
def test_b29_each_kind_of_stray_is_counted(hostile: Hostile) -> None:
    """Over HTTP; what a server may tell of its own accord, and how far this call is, are no strays."""
    strays = {
        "progress": '{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"x","progress":1}}',
        "log": '{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"x"}}',
        "notification": '{"jsonrpc":"2.0","method":"odd"}', "request": '{"jsonrpc":"2.0","id":9,"method":"ping"}',
        "answer": '{"jsonrpc":"2.0","id":"nobodys","result":{}}',
    }  # fmt: skip
    told = [
        '{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}',
        '{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"@id@","progress":1}}',
    ]
    mine = '{"jsonrpc":"2.0","id":"@id@","result":{}}'
    row = scripted(hostile, "b29-kinds", "modern", call=events(*[f"data: {each}\n\n" for each in
                                                                 (*strays.values(), *told, mine)]))  # fmt: skip
    config = config_of(row, hostile)

    async def go() -> str:
        connections = pool()
        found = await ending(connections, config, "s", 30.0)
        await connections.close_all()
        return found.reason

    def counted() -> dict[str, float]:
        label = {"server": config.server_id}
        return {
            kind: REGISTRY.get_sample_value("mcp_stray_messages_total", {**label, "kind": kind}) or 0.0
            for kind in strays
        }

    before = counted()
    assert asyncio.run(go()) == "tool.succeeded"
    assert counted() == {kind: count + 1.0 for kind, count in before.items()}


@gate("faults.b33")
def test_b33_a_write_that_was_executed_and_dropped_is_sent_once(
    acme: Tenancy, houses: Callable[[], House], hostile: Hostile
) -> None:
    for name, script in {"dropped": acts(DROP), "429": http("", "429 Slow", None), "reset": acts(b"HT", DROP)}.items():
        row = scripted(hostile, f"b33-{name}", "modern", call=script)
        house = houses()
        tenancy, config = offered(hostile, house, acme, row, classification=WRITE)
        assert ended(tenancy, house, proposed(tenancy, config)) == (OutcomeStatus.UNCERTAIN, "tool.outcome_unknown")
        assert hostile.calls(row.name) == 1
        with tenant_transaction(acme.id, "operator"):
            McpServer.objects.using("operator").filter(tenant_id=acme.id).delete()


@gate("faults.b41")
@pytest.mark.parametrize("calls", [100, pytest.param(1_000, marks=pytest.mark.long)])
def test_b41_children_and_grandchildren_do_not_pile_up(bench: Callable[..., Bench], calls: int) -> None:
    """Ten callers at once, whose servers start children of their own; every tenth call ends with its connection."""
    here, config, started, others = bench(), peer(), set[int](), set(children())

    async def one(number: int) -> None:
        session = f"b41-{number % 10}"
        connection = await here.pool.acquire(config, session, secret, patience_seconds=60.0)
        kind = ("child", "daemon", "environment")[number // 10 % 3]
        started.add(int((await connection.call(CallSpec(kind, {}, 30.0))).structured["pid"]))

    async def burst(first: int) -> None:
        await asyncio.gather(*(one(first + each) for each in range(10)))

    here.run(burst(0), 90.0)
    begun = held()
    assert begun["children"] == len(others) + 10, "the keepers of the ten that the sessions hold"
    for number in range(1, calls // 10):
        here.run(burst(number * 10), 90.0)
        if number % 10 == 9:
            here.run(here.pool.close_session(f"b41-{number // 10 % 10}"))
    here.run(burst(calls), 90.0)
    wait_until(lambda: held()["children"] <= begun["children"])
    left = held()
    assert (left["children"], left["threads"]) == (begun["children"], begun["threads"])
    assert left["descriptors"] <= begun["descriptors"] + 5
    here.run(here.pool.close_all(drain_seconds=0.5), 60.0)
    wait_until(lambda: not any(map(is_running, started)) and set(children()) <= others)
    assert len(started) > calls / 2
    assert ([pid for pid in started if is_running(pid)], set(children()) - others) == ([], set()), "zombies included"


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.1)


def is_running(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


@gate("faults.b43")
def test_b43_ordinary_errors_of_a_tool_bar_no_other_call(
    acme: Tenancy, houses: Callable[[], House], hostile: Hostile
) -> None:
    failed, fine = answer(result(isError=True)), answer(result())
    numbered = {**TOOLS[0], "inputSchema": {"type": "object", "properties": {"n": {"type": "integer"}}}}
    tools = answer({"tools": [numbered], **MODERN})
    row = scripted(hostile, "b43", "modern", list=tools, call=[failed, failed, failed, failed, fine])
    house, config = houses(), replace(config_of(row, hostile), tenant_id=acme.id, classification=READ)
    tenancy = house.offer(acme, config)
    found = [ended(tenancy, house, proposed(tenancy, config, n=n))[1] for n in range(5)]
    assert found == ["tool.upstream_error"] * 4 + ["tool.succeeded"]


@gate("faults.b45")
def test_b45_a_full_pool_is_no_unknown_tool_and_nothing_is_sent(bench: Callable[..., Bench], doors: Doors) -> None:
    here = bench(connections=1)
    name, door = doors.peer()
    config = doors.at(name)
    busy = here.connect(config, "one")
    holding: Any = here.loop.loop.create_future()
    busy._sent.add(holding)
    with pytest.raises(remote.ServerBusy) as raised:
        here.connect(config, "two")
    assert (raised.value.reason_code, raised.value.effect) == ("tool.server_busy", "not_applied")
    assert door.sent("tools/call") == []
    busy._sent.discard(holding)
    assert here.connect(config, "two").is_alive


@gate("faults.b50")
def test_b50_a_tool_of_another_tenant_looks_as_if_it_did_not_exist(
    acme: Tenancy, globex: Tenancy, houses: Callable[[], House], doors: Doors
) -> None:
    name, _ = doors.peer()
    house = houses()
    house.offer(acme, doors.at(name, acme.id))
    answers = [globex.propose((tool_name, {}))[0] for tool_name in (f"mcp.{name}.t", "mcp.nobody.t")]
    theirs, nobodys = ([globex.call(each).reason_code, globex.call(each).outcome_status] for each in answers)
    assert theirs == nobodys
    with tenant_transaction(globex.id):
        details = list(Invocation.objects.filter(tenant_id=globex.id).values_list("error", flat=True))
    assert not any(acme.id in str(detail) for detail in details)


@gate("faults.b53")
def test_b53_without_a_policy_no_server_can_be_registered_or_dialled(
    acme: Tenancy, bench: Callable[..., Bench], doors: Doors
) -> None:
    name, door = doors.peer()
    config = doors.at(name, acme.id)
    with pytest.raises(InvalidConfiguration) as raised:
        services.register_server(config, policy=policy_for([]), stdio_names=(), output_ceiling_bytes=65_536)
    assert [problem.code for problem in raised.value.problems] == ["egress_not_allowed"]
    here = bench()
    here.pool._policy_for = lambda _config: policy_for([])
    with pytest.raises(remote.DestinationRefused):
        here.connect(config)
    assert door.seen == []
    assert policy_of(config).check_url(config.endpoint)


@gate("faults.b55")
def test_b55_ten_calls_with_an_expired_token_exchange_once_and_a_failure_keeps_the_login(
    bench: Callable[..., Bench], doors: Doors
) -> None:
    here = bench()
    name, door = doors.peer(tokens=[token("one"), (503, b""), token("two")])
    connection = here.connect(doors.with_token(name, credential_ref=CLIENT))
    clock_of(connection, 4_000)
    with pytest.raises(remote.ServerUnreachable):
        here.run(connection.log_in())
    assert connection.is_alive

    async def together() -> list[Any]:
        return await asyncio.gather(*(connection.call(CallSpec("t", {}, 20.0)) for _ in range(10)))

    assert len(here.run(together(), 60.0)) == 10
    assert (len(door.exchanges), door.most_running) == (3, 1)
    assert {headers["authorization"] for headers in door.sent("tools/call")} == {"Bearer two"}
