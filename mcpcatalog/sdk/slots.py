"""Who may prepare a server now: connect, shake hands and list, counted over all sessions of one worker process.

A preparation is one hold from its first byte to the end of its listing, so that no holder ever waits for a second one.
A process waits for its start before it takes a general slot, and gives the start back once it has shaken hands: queued
processes do not crowd out HTTP. Waiting here precedes every time-out of a server. Source: TS "Discovery".
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Final
from weakref import WeakValueDictionary

from mcpcatalog.remote import ServerBusy, ServerUnreachable, Transport

# What a server may take for its lists as a whole, however many pages each are in time.
LISTING_SECONDS: Final = 30.0

type Started = Callable[[], Awaitable[None]]


class Slots:
    """Lives on one event loop."""

    def __init__(self, preparations: int = 8, per_tenant: int = 4, process_starts: int = 2) -> None:
        self._per_tenant = {Transport.HTTP: per_tenant, Transport.STDIO: process_starts}
        self._preparations = asyncio.Semaphore(preparations)
        self._process_starts = asyncio.Semaphore(process_starts)
        self._shares: WeakValueDictionary[tuple[str, Transport], asyncio.Semaphore] = WeakValueDictionary()

    @asynccontextmanager
    async def preparing(
        self, tenant_id: str, transport: Transport, *, is_open: bool = False, patience_seconds: float | None = None
    ) -> AsyncIterator[Started]:
        """Hold a slot; await what is given once the server has started. `is_open`: it has, and is only looked at.

        Raises: ServerBusy after `patience_seconds`; without them the wait has no end of its own.
        """
        async with AsyncExitStack() as held, AsyncExitStack() as start:
            try:
                async with asyncio.timeout(patience_seconds):
                    await held.enter_async_context(self._share_of(tenant_id, transport))
                    if transport is Transport.STDIO and not is_open:
                        await start.enter_async_context(self._process_starts)
                    await held.enter_async_context(self._preparations)
            except TimeoutError:
                raise ServerBusy("every preparation slot of this worker is taken", effect="not_applied") from None
            yield start.aclose

    def _share_of(self, tenant_id: str, transport: Transport) -> asyncio.Semaphore:
        """Return how much one tenant may prepare or wait for; it lives while somebody holds it or waits for it.

        Its stalled remote servers leave slots to others. Of processes it may prepare as many as there are starts, since
        it may be alone; what it wants beyond that waits here and not in the others' way: so they take turns.
        """
        found = self._shares.get((tenant_id, transport))
        if found is None:
            found = self._shares[tenant_id, transport] = asyncio.Semaphore(self._per_tenant[transport])
        return found


async def in_time[T](looking: Awaitable[T]) -> T:
    """Bound a look at a server, so that it gives its slot back. Raises: ServerUnreachable."""
    bound = asyncio.timeout(LISTING_SECONDS)
    try:
        async with bound:
            return await looking
    except TimeoutError:
        if not bound.expired():
            raise
        raise ServerUnreachable("no list in time", effect="not_applied") from None
