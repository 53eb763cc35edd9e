"""What the pipeline makes of a server that misbehaves: status, reason and how often the call left, for a call that may
be repeated and for one that may not. The rows are those of `tests/hostile`: a few here, all with `make hostile`.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Final

import pytest

from config import wiring
from mcpcatalog.provider import McpProvider, Workbench
from mcpcatalog.remote import ServerConfig, Transport
from mcpcatalog.sdk.connection import Timeouts
from mcpcatalog.sdk.pool import ConnectionPool, PoolLimits
from tests.factories import make_tenancy
from tests.hostile.row import DONE, UNAUTHORIZED, Row
from tests.hostile.server import Hostile, serving
from tests.hostile.table import ROWS
from tests.integration.mcp.conftest import House, policy_of
from tests.integration.mcp.test_ladder import READ, WRITE, ended, proposed
from tests.spec.requirements import gate
from toolsys.domain.spec import Classification
from toolsys.domain.states import OutcomeStatus
from toolsys.execution import LoopThread, WorkerExecution
from toolsys.leases import LeaseKeeper

pytestmark = pytest.mark.slow

# TS "Advertisement is pinned" and "Authentication"; what is not there has failed.
STATUSES: Final = {
    DONE: OutcomeStatus.SUCCEEDED, "tool.server_unreachable": OutcomeStatus.UNAVAILABLE,
    UNAUTHORIZED: OutcomeStatus.UNAVAILABLE, "tool.auth_failed": OutcomeStatus.UNAVAILABLE,
    "tool.auth_unsupported": OutcomeStatus.UNAVAILABLE, "tool.withdrawn": OutcomeStatus.UNAVAILABLE,
}  # fmt: skip
UNKNOWN: Final = OutcomeStatus.UNCERTAIN, "tool.outcome_unknown"
# The one proof that lets a write be an ordinary failure (TS "Failure modes").
PROVED: Final = {"reports-an-error-with-proof"}
CHOSEN: Final = (
    "handshake-drops", "handshake-401", "redirect-307", "list-never-ends", "lost-the-tool", "stalls-in-the-body",
    "drops-in-the-body", "status-401", "status-404-of-a-method", "status-404-of-a-session", "too-much-declared",
    "malformed-of-another", "reports-an-error-with-proof", "speaks-as-the-platform", "floods-with-progress",
)  # fmt: skip
# Their listener misbehaves before it is asked for anything, so that nothing could be offered.
PLAYED: Final = [row for row in ROWS if row.dial == "http"]


@pytest.fixture(scope="module")
def hostile() -> Iterator[Hostile]:
    with serving() as found:
        yield found


@pytest.fixture
def house(database: None) -> Iterator[House]:
    loop, clock = LoopThread(), wiring.SystemClock()
    keeper = LeaseKeeper(clock, 2.0)
    keeper.start()
    timeouts = Timeouts(connect=4.0, probe=2.0, request=3.0)
    pool = ConnectionPool(policy_of, timeouts=timeouts, limits=PoolLimits(message_bytes=1_000_000))
    workbench = Workbench(pool, loop.run, wiring.credentials().of)
    provider = McpProvider(clock, {}, 1_048_576, workbench)
    composed = wiring.compose({"mcp": provider}, WorkerExecution(loop, keeper, clock))
    yield House(provider, composed.runtime, composed.registry)
    workbench.close()
    keeper.stop()
    loop.stop()


def played(row: Row, hostile: Hostile, house: House, classification: Classification) -> tuple[Any, int]:
    """Offer the tool while the server is well, let it misbehave, call. Return the end, and how often it was sent."""
    hostile.armed.discard(row.name)
    hostile.scripts[row.name] = row.scripts
    tenancy = make_tenancy("acme")
    config = ServerConfig(
        tenancy.id, "peer", Transport.HTTP, hostile.url(row.name, row.era), classification=classification,
        timeout_seconds=1 if row.reason == "tool.timeout" else 20,
        negotiated_revision="2025-11-25" if row.era == "legacy" else "2026-07-28",
    )  # fmt: skip
    tenancy = house.offer(tenancy, config)
    hostile.armed.add(row.name)
    before = hostile.calls(row.name)
    found = ended(tenancy, house, proposed(tenancy, config))
    return found, hostile.calls(row.name) - before


def faults(rows: Sequence[Row], hostile: Hostile, house: House) -> dict[str, Any]:
    wrong: dict[str, Any] = {}
    for row in rows:
        ordinary = STATUSES.get(row.reason, OutcomeStatus.FAILED), row.reason
        is_settled = not row.is_dispatched or row.reason == DONE or row.name in PROVED
        found, sent = played(row, hostile, house, READ)
        if found != ordinary or not row.sent <= sent <= row.sent * house.runtime.limits.max_attempts:
            wrong[f"{row.name} read"] = found, sent
        found, sent = played(row, hostile, house, WRITE)
        if found != (ordinary if is_settled else UNKNOWN) or sent != row.sent:
            wrong[f"{row.name} write"] = found, sent
    return wrong


@gate("mcp.hostile", "gate.12")
@pytest.mark.parametrize("part", range(3))
def test_a_misbehaviour_has_its_status_by_class(hostile: Hostile, house: House, part: int) -> None:
    chosen = [row for row in PLAYED if row.name.removeprefix("list-") in CHOSEN or row.name in CHOSEN]
    assert len(chosen) == len(CHOSEN)
    assert faults(chosen[part::3], hostile, house) == {}


@pytest.mark.long
@pytest.mark.parametrize("part", range(16))
def test_every_misbehaviour_has_its_status_by_class(hostile: Hostile, house: House, part: int) -> None:
    assert faults(PLAYED[part::16], hostile, house) == {}
