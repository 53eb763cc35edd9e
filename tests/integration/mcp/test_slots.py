"""What prepares a server holds one slot from its first byte to the end of its listing, and never waits for a second."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from mcpcatalog import checking, provider, remote
from mcpcatalog.models import McpServer
from mcpcatalog.provider import Workbench
from mcpcatalog.remote import RemoteServer
from mcpcatalog.sdk import inspection, slots
from mcpcatalog.sdk.connection import Timeouts
from mcpcatalog.sdk.pool import PoolLimits
from tests.factories import Tenancy
from tests.integration.mcp.conftest import Bench, Doors, House, Web, peer, secret
from tests.integration.mcp.test_ladder import READ, ended, events, proposed
from tests.spec.requirements import gate
from toolsys.domain.states import OutcomeStatus
from toolsys.tenancy import tenant_transaction

pytestmark = pytest.mark.slow


@dataclass
class Listing:
    """A look at a server that ends when the test says so, and counts how many of it there are at a time."""

    now: int = 0
    most: int = 0
    kinds: list[str] = field(default_factory=list)
    over: asyncio.Event = field(default_factory=asyncio.Event)

    async def look(self, connection: RemoteServer) -> str:
        self.now += 1
        self.most = max(self.most, self.now)
        self.kinds.append(connection.config.transport)  # type: ignore[attr-defined]
        try:
            await self.over.wait()
        finally:
            self.now -= 1
        return "seen"


async def settled(listing: Listing, count: int) -> None:
    """Wait until so many are at work, and long enough for one more to show itself."""
    for _ in range(500):
        if listing.now >= count:
            break
        await asyncio.sleep(0.01)
    await asyncio.sleep(0.3)


@gate("connections.slots")
def test_listings_count_among_the_preparations_whoever_lists(bench: Callable[..., Bench], web: Web) -> None:
    here = bench(preparations=3, preparations_per_tenant=3)

    async def together() -> list[Any]:
        listing = Listing()
        calls = [here.pool.acquire(web.at("ok"), f"s{each}", secret, look=listing.look) for each in range(4)]
        waiting: list[asyncio.Task[Any]] = [asyncio.create_task(each) for each in calls]
        await settled(listing, 3)
        visits = [here.pool.visit(web.at("ok"), secret, listing.look, patience_seconds=10.0) for _ in range(4)]
        waiting += [asyncio.create_task(each) for each in visits]
        await settled(listing, 3)
        had = len(here.pool._open)
        listing.over.set()
        return [*await asyncio.gather(*waiting), had, listing.most, len(listing.kinds)]

    *found, had, most, looked = here.run(together(), 30.0)
    assert (most, looked) == (3, 8)
    assert had == 0, "nobody has a connection that is not listed yet"
    assert all(connection.is_alive for connection in found[:4])
    assert found[4:] == ["seen"] * 4


@gate("connections.slots")
def test_one_slot_is_enough_for_everything_at_once(bench: Callable[..., Bench], web: Web) -> None:
    """Opening, listing what is open, and visiting: whoever holds the slot waits for nobody who wants it."""
    here, config = bench(preparations=1, preparations_per_tenant=1, process_starts=1), web.at("ok")
    unlisted = here.connect(config, "open")

    async def look(connection: RemoteServer) -> None:
        await connection.discover()
        connection.declared = {}

    async def together() -> list[Any]:
        mine = [here.pool.acquire(config, f"s{each % 2}", secret, look=look) for each in range(6)]
        open_too = [here.pool.acquire(config, "open", secret, look=look) for _ in range(2)]
        plain = [here.pool.acquire(each, "plain", secret) for each in (config, peer(), web.at("ok", "legacy"))]
        visits = [here.pool.visit(each, secret, look, patience_seconds=20.0) for each in (config, peer())]
        return await asyncio.gather(*mine, *open_too, *plain, *visits)

    found = here.run(together(), 40.0)
    assert found[6] is found[7] is unlisted
    assert all(connection.declared == {} for connection in found[:8])


@gate("connections.slots")
def test_what_is_open_and_not_listed_is_listed_in_a_slot_of_its_own(bench: Callable[..., Bench], web: Web) -> None:
    here, config = bench(preparations=1), web.at("ok")
    here.connect(config, "s1")

    async def together() -> tuple[int, int]:
        listing = Listing()
        visit = asyncio.create_task(here.pool.visit(config, secret, listing.look))
        await settled(listing, 1)
        late = asyncio.create_task(here.pool.acquire(config, "s1", secret, look=listing.look))
        await settled(listing, 1)
        listing.over.set()
        await asyncio.gather(visit, late)
        return listing.most, len(listing.kinds)

    assert here.run(together()) == (1, 2)


@gate("connections.slots")
def test_a_process_that_has_started_lends_its_start_while_it_is_listed(bench: Callable[..., Bench], web: Web) -> None:
    """Two that stall after their start hold up neither the next tenant's processes nor anybody's HTTP."""
    here = bench()

    async def together() -> tuple[list[str], list[str]]:
        stalled, others = Listing(), Listing()
        waiting = [asyncio.create_task(here.pool.acquire(peer(), f"s{each}", secret, look=stalled.look))
                   for each in range(5)]  # fmt: skip
        await settled(stalled, 2)
        elsewhere = [replace(config, tenant_id="globex") for config in (peer(), peer(), web.at("ok"))]
        waiting += [asyncio.create_task(here.pool.acquire(config, f"s{each}", secret, look=others.look))
                    for each, config in enumerate(elsewhere)]  # fmt: skip
        await settled(others, 3)
        found = list(stalled.kinds), sorted(others.kinds)
        stalled.over.set()
        others.over.set()
        await asyncio.gather(*waiting)
        return found

    mine, theirs = here.run(together(), 30.0)
    assert mine == ["stdio", "stdio"], "of one tenant no more are prepared than can start"
    assert theirs == ["http", "stdio", "stdio"]


@gate("connections.slots")
def test_a_listing_that_stalls_gives_its_slot_back_at_its_deadline(
    bench: Callable[..., Bench], web: Web, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slots, "LISTING_SECONDS", 0.3)
    here, config = bench(preparations=1), web.at("ok")

    async def together() -> list[Any]:
        stalled = Listing()
        called = here.pool.acquire(config, "s1", secret, look=stalled.look)
        visited = here.pool.visit(config, secret, stalled.look, patience_seconds=10.0)
        third = here.pool.acquire(config, "s2", secret)
        return list(await asyncio.gather(called, visited, third, return_exceptions=True))

    called, visited, third = here.run(together())
    for failed in (called, visited):
        assert isinstance(failed, remote.ServerUnreachable)
        assert (failed.detail, failed.effect) == ("no list in time", "not_applied")
    assert third.is_alive
    assert list(here.pool._open.values()) == [third], "what could not be listed is not kept"


@gate("connections.slots", "timeouts.separate")
def test_who_waits_for_a_slot_loses_nothing_of_its_connect_time_out(bench: Callable[..., Bench], web: Web) -> None:
    here = bench(preparations=1, timeouts=Timeouts(connect=0.6, probe=0.3))

    async def together() -> str:
        listing, after = Listing(), Listing()
        after.over.set()
        first = asyncio.create_task(here.pool.visit(web.at("ok"), secret, listing.look))
        await settled(listing, 1)
        second = asyncio.create_task(here.pool.visit(web.at("ok"), secret, after.look, patience_seconds=5.0))
        await asyncio.sleep(0.8)
        with pytest.raises(remote.ServerBusy):
            await here.pool.visit(web.at("ok"), secret, after.look, patience_seconds=0.1)
        listing.over.set()
        await first
        return await second

    assert here.run(together()) == "seen"


@gate("connections.slots")
def test_a_visit_that_nobody_waits_for_any_more_is_over(bench: Callable[..., Bench], web: Web) -> None:
    here = bench(preparations=1)

    async def together() -> None:
        listing = Listing()
        visit = asyncio.create_task(here.pool.visit(web.at("ok"), secret, listing.look))
        await settled(listing, 1)
        visit.cancel()
        await asyncio.wait({visit})
        listing.over.set()
        assert await here.pool.visit(web.at("ok"), secret, listing.look) == "seen"
        listing.over.clear()
        visit = asyncio.create_task(here.pool.visit(web.at("ok"), secret, listing.look))
        await settled(listing, 1)
        await here.pool.close_all(drain_seconds=0.2)
        assert visit.cancelled(), "nor is one that a worker leaves behind"

    here.run(together())


@contextmanager
def every_slot_taken(workbench: Workbench) -> Iterator[None]:
    pool: Any = workbench.connections
    semaphore = pool.slots._preparations

    async def take() -> None:
        for _ in range(PoolLimits().preparations):
            await semaphore.acquire()

    async def give() -> None:
        for _ in range(PoolLimits().preparations):
            semaphore.release()

    workbench.run(take(), 5.0)
    yield
    workbench.run(give(), 5.0)


@gate("connections.slots")
def test_who_found_no_slot_says_nothing_about_the_server(
    acme: Tenancy, houses: Callable[[], House], doors: Doors, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither a discovery nor a person's check: the server was not asked."""
    monkeypatch.setattr(provider, "PATIENCE_SECONDS", 0.1)
    monkeypatch.setattr(inspection, "PATIENCE_SECONDS", 0.1)
    name, door = doors.peer()
    house, config = houses(), doors.at(name, acme.id, classification=READ)
    workbench = house.provider.workbench
    assert workbench is not None
    with every_slot_taken(workbench):
        acme = house.offer(acme, config)
        found = checking.walk(config, workbench.look, clock=house.provider.clock, ceiling=1_048_576)
        assert found.first_failed is not None
        assert found.first_failed.reason == "tool.server_busy"
        assert (door.seen, events(acme, "mcp.server.disconnected")) == ([], [])
        with tenant_transaction(acme.id):
            assert McpServer.objects.get(server_id=name).last_failed_at is None
    assert house.provider.refresh_keys(acme.id) == [name], "the next session has it looked at"
    house.provider.refresh(acme.id, name)
    acme = house.new_session(acme)
    assert ended(acme, house, proposed(acme, config))[0] is OutcomeStatus.SUCCEEDED
