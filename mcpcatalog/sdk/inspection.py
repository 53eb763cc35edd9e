"""One connection of its own to a server, watched: what each part took, and how far it came.

It goes through a pool, transport and policy as calls do, takes a slot of theirs, sends no call, and keeps nothing
open. Imported by `mcpcatalog.provider` when a worker starts, and by nothing else.
"""

import time
from collections.abc import Callable
from typing import Final

from mcpcatalog.checks import Seen
from mcpcatalog.remote import RemoteError, RemoteServer, ResolveCredential, ServerConfig
from mcpcatalog.sdk.connection import Timeouts
from mcpcatalog.sdk.pool import ConnectionPool, PoolLimits
from mcpcatalog.sdk.slots import Slots
from toolsys.egress import EgressCounts, EgressPolicy, Watch

# How long a check waits for a slot; its server has not been asked then.
PATIENCE_SECONDS: Final = 10.0


async def inspect(
    config: ServerConfig,
    resolve: ResolveCredential,
    policy: EgressPolicy,
    counts: EgressCounts | None = None,
    tell: Callable[[Seen], object] = lambda _seen: None,
    slots: Slots | None = None,
) -> Seen:
    """Connect, list the tools, and leave. Raises nothing of its own; every wait has a deadline.

    `tell` hears how far it came, on the loop, and must not block.
    """
    watch = Watch()
    watch.told = lambda: tell(Seen(tuple(watch.marks), at=watch.at))
    pool = ConnectionPool(
        lambda _config: policy, timeouts=Timeouts(request=15.0), limits=PoolLimits(connections=1, processes=1),
        counts=counts, watch=watch, slots=slots,
    )  # fmt: skip
    seen = Seen(tuple(watch.marks))

    async def look(connection: RemoteServer) -> None:
        nonlocal seen
        seen = Seen((), connected_in_seconds=connection.connected_in_seconds, revision=connection.revision)
        tell(seen.with_marks(tuple(watch.marks)))
        watch.told = lambda: None
        seen = await _listed(connection, seen)

    try:
        await pool.visit(config, resolve, look, patience_seconds=PATIENCE_SECONDS)
    except RemoteError as error:
        seen = seen.failed(error)
    finally:
        await pool.close_all(drain_seconds=0.0)
    return seen.with_marks(tuple(watch.marks))


async def _listed(connection: RemoteServer, seen: Seen) -> Seen:
    begun = time.monotonic()
    try:
        catalog = await connection.discover(with_prompts=True)
    except RemoteError as error:
        return seen.failed(error, listing_seconds=time.monotonic() - begun)
    return seen.listed(catalog, time.monotonic() - begun)
