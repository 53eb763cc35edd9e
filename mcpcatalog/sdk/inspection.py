"""One connection of its own to a server, watched: what each part took, and how far it came.

It goes through the same pool, transport and policy as calls do, sends no call, and keeps nothing open. Imported by
`mcpcatalog.provider` when a worker starts, and by nothing else.
"""

import time
from collections.abc import Callable

from mcpcatalog.checks import Seen
from mcpcatalog.remote import RemoteError, RemoteServer, ResolveCredential, ServerConfig
from mcpcatalog.sdk.connection import Timeouts
from mcpcatalog.sdk.pool import ConnectionPool, PoolLimits
from toolsys.egress import EgressCounts, EgressPolicy, Watch

SESSION = "check"


async def inspect(
    config: ServerConfig,
    resolve: ResolveCredential,
    policy: EgressPolicy,
    counts: EgressCounts | None = None,
    tell: Callable[[Seen], object] = lambda _seen: None,
) -> Seen:
    """Connect, list the tools, and leave. Raises nothing of its own; every wait has a deadline.

    `tell` hears how far it came, on the loop, and must not block.
    """
    watch, begun = Watch(), time.monotonic()
    watch.told = lambda: tell(Seen(tuple(watch.marks), at=watch.at))
    pool = ConnectionPool(
        lambda _config: policy, timeouts=Timeouts(request=15.0), limits=PoolLimits(connections=1, processes=1),
        counts=counts, watch=watch,
    )  # fmt: skip
    seen = Seen(tuple(watch.marks))
    try:
        connection = await pool.acquire(config, SESSION, resolve)
        seen = Seen((), connected_in_seconds=time.monotonic() - begun, revision=connection.revision)
        tell(seen.with_marks(tuple(watch.marks)))
        watch.told = lambda: None
        seen = await _listed(connection, seen)
    except RemoteError as error:
        seen = seen.failed(error)
    finally:
        await pool.close_all(drain_seconds=0.0)
    return seen.with_marks(tuple(watch.marks))


async def _listed(connection: RemoteServer, seen: Seen) -> Seen:
    begun = time.monotonic()
    try:
        catalog = await connection.discover()
    except RemoteError as error:
        return seen.failed(error, listing_seconds=time.monotonic() - begun)
    return seen.listed(catalog, time.monotonic() - begun)
