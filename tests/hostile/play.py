"""Plays rows of the table against the real adapter: whether each ends as it must, in time, and sent no more than once.

Concurrently, on one loop, through one pool, as a worker does it. A row's faults are sentences; none is what is wanted.
"""

import asyncio
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from mcpcatalog import mapping
from mcpcatalog.remote import CallResult, CallSpec, Catalog, Effect, RemoteError, ServerConfig, Transport
from mcpcatalog.results import result_of
from mcpcatalog.sdk import listing
from mcpcatalog.sdk.connection import Connection, Timeouts
from mcpcatalog.sdk.pool import ConnectionPool, PoolLimits
from tests.hostile import piping
from tests.hostile.row import BRIEF, DONE, TIMEOUT, UPSTREAM, WITHDRAWN, Row
from tests.hostile.server import TOOLS, Hostile
from tests.unit.specs import Shelf
from toolsys.domain.context import SecretValue
from toolsys.domain.results import TextPart
from toolsys.domain.spec import Classification, IdempotencyClass, RiskLevel, SideEffectClass
from toolsys.egress import EgressPolicy, policy_for

# Which way a row ends is what counts: so wide that sixteen handshakes at once, and starting programs, keep within them
# on two cores that others use as well.
TIMEOUTS: Final = Timeouts(connect=12.0, probe=6.0, request=4.0)
LIMITS: Final = PoolLimits(message_bytes=1_000_000, preparations=32)
# What a busy machine may add to a deadline.
SLACK_SECONDS: Final = 15.0
AT_ONCE: Final = 16
READ: Final = Classification(
    side_effect=SideEffectClass.NETWORK_READ, risk=RiskLevel.LOW, idempotency=IdempotencyClass.READ_ONLY
)


@dataclass(frozen=True, slots=True)
class Ending:
    """How one call ended, and after how many seconds."""

    reason: str
    effect: Effect
    seconds: float
    retry_after: float | None = None
    text: str = ""


def policy_of(config: ServerConfig) -> EgressPolicy:
    return policy_for(
        [config.endpoint], open_networks=["127.0.0.1/32"], plain_http_hosts=[config.endpoint.split("/")[2]]
    )


async def nobody(_reference: str) -> SecretValue:
    raise LookupError


def pool(limits: PoolLimits = LIMITS) -> ConnectionPool:
    return ConnectionPool(policy_of, timeouts=TIMEOUTS, limits=limits)


def config_of(row: Row, hostile: Hostile) -> ServerConfig:
    # What a deployment knows from an earlier connection, so that each era shakes hands its own way.
    revision = "2025-11-25" if row.era == "legacy" else "2026-07-28"
    url = hostile.url(row.name, row.era, row.dial)
    return ServerConfig("acme", "hostile", Transport.HTTP, url, negotiated_revision=revision)


async def ending(connections: ConnectionPool, config: ServerConfig, session: str, seconds: float) -> Ending:
    """Do what `McpTool` does, without a database: connect, list, compare with the pin, call once."""
    started = time.monotonic()
    try:
        connection = await connections.acquire(config, session, nobody)
        if not await _still_declares(connection, config):
            return Ending(WITHDRAWN, "not_applied", time.monotonic() - started)
        started = time.monotonic()
        answer = await connection.call(CallSpec("t", {}, seconds))
    except RemoteError as error:
        return Ending(error.reason_code, error.effect, time.monotonic() - started, error.retry_after_seconds)
    return await _read(answer, time.monotonic() - started)


async def _still_declares(connection: Connection, config: ServerConfig) -> bool:
    pinned = mapping.map_catalog(config, _listed(), output_ceiling_bytes=1_048_576).tools[0][0]
    if connection.declared is None:
        generation = mapping.map_catalog(config, await connection.discover(), output_ceiling_bytes=1_048_576)
        connection.declared = {tool.name: mapping.declaration_hash(tool) for tool, _ in generation.tools}
    return connection.declared.get("t") == mapping.declaration_hash(pinned)


def _listed() -> Catalog:
    tools, rejected = listing.sorted_out(list(TOOLS), checks_headers=False)
    return Catalog(tools, rejected, "2026-07-28")


async def _read(answer: CallResult, seconds: float) -> Ending:
    if answer.is_error:
        return Ending(UPSTREAM, answer.effect, seconds)
    result = await result_of(answer, READ, Shelf(), maximum_output_bytes=65_536)
    text = "\n".join(part.text for part in result.content if isinstance(part, TextPart))
    return Ending(DONE, answer.effect, seconds, text=f"{text}\n{result.structured}")


def faults(row: Row, found: Ending, sent: int) -> list[str]:
    """Return what is not as the row says."""
    longest = BRIEF if row.seconds == BRIEF else 2 * TIMEOUTS.connect if not row.is_dispatched else row.seconds / 2
    checks = {
        f"ended {found.reason}": found.reason == row.reason,
        f"says {found.effect}": found.effect == row.effect,
        f"was sent {sent} times": sent == row.sent,
        f"took {found.seconds:.1f} s": found.seconds < longest + SLACK_SECONDS,
        f"took only {found.seconds:.1f} s": row.reason != TIMEOUT or found.seconds >= BRIEF * 0.9,
        f"asks to wait {found.retry_after} s": found.retry_after == row.retry_after,
        f"returned {found.text[:80]!r}": all(text in found.text for text in row.holds),
        "returned what was meant for another": not any(word in found.text for word in ("stray", "smuggled", "late")),
    }  # fmt: skip
    return [what for what, holds in checks.items() if not holds]


async def play_one(row: Row, hostile: Hostile | None, connections: ConnectionPool, session: str = "s") -> list[str]:
    """Play one row, over a pipe where there is no HTTP server; one that succeeds twice, since what an answer leaves
    behind may spoil the next.
    """
    config = config_of(row, hostile) if hostile is not None else piping.config_of(row)
    found: list[str] = []
    for _ in range(2 if row.reason == DONE else 1):
        before = hostile.calls(row.name) if hostile is not None else 0
        given = await ending(connections, config, f"{session}:{row.name}", row.seconds)
        found += faults(row, given, hostile.calls(row.name) - before if hostile is not None else row.sent)
    return found


def arm(rows: Iterable[Row], hostile: Hostile) -> None:
    for row in rows:
        hostile.scripts[row.name] = row.scripts
        hostile.armed.add(row.name)


async def play(rows: Sequence[Row], hostile: Hostile | None) -> dict[str, list[str]]:
    """Return the faults by the name of the row."""
    if hostile is not None:
        arm(rows, hostile)
    gate, connections = asyncio.Semaphore(AT_ONCE), pool()

    async def one(row: Row) -> list[str]:
        async with gate:
            return await play_one(row, hostile, connections)

    try:
        return dict(zip([row.name for row in rows], await asyncio.gather(*map(one, rows)), strict=True))
    finally:
        await connections.close_all(drain_seconds=0.2)
