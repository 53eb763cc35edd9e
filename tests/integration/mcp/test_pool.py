"""Which calls share a connection, how many there may be, and that descriptors are given back."""

import asyncio
import contextlib
import socket
import threading
import time
from collections.abc import Callable
from concurrent.futures import CancelledError
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mcpcatalog import remote
from mcpcatalog.remote import CallSpec
from mcpcatalog.sdk.connection import Connection, Timeouts
from mcpcatalog.sdk.pool import NotClosed
from tests.integration.mcp.conftest import Bench, Doors, Web, peer, secret, stdio
from tests.spec.requirements import gate

pytestmark = pytest.mark.slow


def test_a_session_keeps_its_connection_and_shares_it_with_no_other(bench: Callable[..., Bench], web: Web) -> None:
    here, config = bench(), web.at("ok")
    assert here.connect(config, "s1") is here.connect(config, "s1")
    assert here.connect(config, "s1") is not here.connect(config, "s2")
    assert here.connect(replace(config, tenant_id="globex"), "s1") is not here.connect(config, "s1")


def test_sessions_share_a_stateless_server_but_tenants_never_do(bench: Callable[..., Bench], web: Web) -> None:
    here, config = bench(), web.at("ok", is_stateless=True)
    assert here.connect(config, "s1") is here.connect(config, "s2")
    assert here.connect(replace(config, tenant_id="globex"), "s1") is not here.connect(config, "s1")


def test_a_changed_configuration_gets_a_new_connection_and_retires_the_old(
    bench: Callable[..., Bench], web: Web
) -> None:
    here, config = bench(), web.at("ok")
    old = here.connect(config)
    new = here.connect(replace(config, auth_scheme=remote.AuthScheme.BEARER, credential_ref="env:x"))
    assert new is not old
    _until(lambda: not old.is_alive)


def test_callers_of_one_key_wait_for_one_handshake(bench: Callable[..., Bench], web: Web) -> None:
    here, config = bench(), web.at("ok", "legacy")
    before = web.app.calls("ok", "initialize")

    async def together() -> list[Connection]:
        return await asyncio.gather(*(here.pool.acquire(config, "s1", secret) for _ in range(8)))

    assert len(set(map(id, here.run(together())))) == 1
    assert web.app.calls("ok", "initialize") == before + 1


def test_the_era_that_worked_is_tried_first_next_time(bench: Callable[..., Bench], web: Web) -> None:
    here, config = bench(), web.at("ok", "legacy")
    here.connect(config, "s1")
    before = web.app.calls("ok", "server/discover")
    assert here.connect(config, "s2").revision == "2025-11-25"
    assert web.app.calls("ok", "server/discover") == before


@gate("slots.shared")
def test_stalled_servers_of_one_tenant_leave_slots_to_the_others(bench: Callable[..., Bench], web: Web) -> None:
    here = bench(preparations=3, preparations_per_tenant=2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/mcp"
        stalled = [replace(web.at("ok"), server_id=f"s{n}", endpoint=url) for n in range(6)]
        waiting = [asyncio.run_coroutine_threadsafe(here.pool.acquire(each, "s", secret), here.loop.loop)
                   for each in stalled]  # fmt: skip
        _until(lambda: here.run(_all_slots_of("acme", here)))
        begun = time.monotonic()
        assert here.connect(replace(web.at("ok"), tenant_id="globex")).is_alive
        assert time.monotonic() - begun < 3.0, "nobody waited for the other tenant's time-outs"
        assert here.run(_free(here)) == 1, "one tenant holds its share and no more"
        here.run(here.pool.close_all(drain_seconds=0.0))
        for each in waiting:
            with pytest.raises((CancelledError, remote.RemoteError)):
                each.result(5)


@gate("slots.shared")
def test_slow_programs_of_one_tenant_are_started_in_turn_with_those_of_others(
    bench: Callable[..., Bench], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both slots are a tenant's that is alone; what others want to start waits for one start and not for all."""
    here, begun, ending = bench(), list[str](), asyncio.Semaphore(0)

    async def slow(connection: Connection) -> None:
        begun.append(connection.config.tenant_id)
        await ending.acquire()
        raise remote.ServerUnreachable("too slow")

    monkeypatch.setattr(Connection, "open", slow)

    async def together() -> None:
        many = [here.pool.acquire(peer(), f"s{number}", secret) for number in range(6)]
        waiting = [asyncio.create_task(each) for each in many]
        await asyncio.sleep(0.05)
        assert begun == ["acme", "acme"]
        waiting += [asyncio.create_task(here.pool.acquire(replace(peer(), tenant_id=other), "s", secret))
                    for other in ("globex", "initech")]  # fmt: skip
        for _ in range(len(waiting)):
            await asyncio.sleep(0.05)
            ending.release()
        await asyncio.gather(*waiting, return_exceptions=True)

    here.run(together())
    assert begun[2:4] == ["globex", "initech"]
    assert len(begun) == 8


async def _all_slots_of(tenant_id: str, here: Bench) -> bool:
    share = here.pool.slots._shares.get((tenant_id, remote.Transport.HTTP))
    return share is not None and share.locked()


async def _free(here: Bench) -> int:
    return here.pool.slots._preparations._value


def test_a_full_pool_gives_up_its_longest_unused_connection(bench: Callable[..., Bench], web: Web) -> None:
    here, config = bench(connections=2), web.at("ok")
    oldest, newer = here.connect(config, "s1"), here.connect(config, "s2")
    here.connect(config, "s3")
    _until(lambda: not oldest.is_alive)
    assert newer.is_alive


def test_a_pool_whose_every_connection_is_used_refuses_the_next(bench: Callable[..., Bench], web: Web) -> None:
    here = bench(connections=1)
    busy = here.connect(web.at("hang"))
    call = asyncio.run_coroutine_threadsafe(busy.call(CallSpec("t", {}, 10.0)), here.loop.loop)
    _until(lambda: not busy.is_idle)
    with pytest.raises(remote.ServerUnreachable):
        here.connect(web.at("ok"))
    call.cancel()


@gate("connections.shutdown")
def test_what_is_still_leaving_when_a_worker_stops_is_forced(bench: Callable[..., Bench], web: Web) -> None:
    """A call in flight would keep a connection that was let go of for as long as a request may take."""
    here = bench()
    leaving = here.connect(web.at("hang"))
    call = asyncio.run_coroutine_threadsafe(leaving.call(CallSpec("t", {}, 20.0)), here.loop.loop)
    _until(lambda: not leaving.is_idle)
    here.run(here.pool.close_session("s1"))
    opening = asyncio.run_coroutine_threadsafe(here.pool.acquire(stdio("sleep", "60"), "s2", secret), here.loop.loop)
    _until(lambda: bool(here.pool._opening))
    begun = time.monotonic()
    here.run(here.pool.close_all(drain_seconds=0.2), 15.0)
    assert time.monotonic() - begun < 10.0
    assert here.pool._leaving == {}
    for ended in (call, opening):
        with pytest.raises((remote.ServerUnreachable, CancelledError)):
            ended.result(5.0)


@gate("connections.shutdown")
def test_what_outlives_even_that_is_told_and_tried_again(
    bench: Callable[..., Bench], web: Web, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = bench()
    held = here.connect(web.at("ok"))
    monkeypatch.setattr("mcpcatalog.sdk.connection.CLOSE_SECONDS", 0.2)
    released = threading.Event()

    async def stubborn() -> None:
        while not released.is_set():
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.sleep(0.05)

    async def outlive() -> None:
        held._owner = asyncio.create_task(stubborn())

    here.run(outlive())
    for _ in range(2):
        with pytest.raises(NotClosed, match=held.config.server_id):
            here.run(here.pool.close_all(drain_seconds=0.1), 15.0)
    released.set()
    here.run(here.pool.close_all(drain_seconds=0.1), 15.0)
    assert held.has_ended


@gate("faults.b45")
def test_a_call_waits_for_room_and_a_burst_opens_no_more_than_there_is(bench: Callable[..., Bench], web: Web) -> None:
    here, config = bench(connections=2), web.at("ok")
    holding: Any = here.loop.loop.create_future()
    busy = here.connect(config, "busy")
    busy._sent.add(holding)
    most = 0

    async def burst() -> list[Connection]:
        nonlocal most

        async def one(number: int) -> Connection:
            nonlocal most
            found = await here.pool.acquire(config, f"s{number}", secret, patience_seconds=20.0)
            most = max(most, sum(each.is_alive for each in here.pool._open.values()))
            return found

        return await asyncio.gather(*(one(number) for number in range(12)))

    found = here.run(burst(), 40.0)
    assert (len(set(map(id, found))), most) == (12, 2)
    busy._sent.discard(holding)
    assert here.connect(config, "after").is_alive


@gate("connections.slots")
def test_at_most_two_processes_start_and_eight_servers_are_prepared_at_once(
    bench: Callable[..., Bench], web: Web, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Processes that wait for their two slots take none of the eight."""
    here = bench()
    now, most, opening = {"stdio": 0, "http": 0}, {"stdio": 0, "http": 0, "all": 0}, asyncio.Event()

    async def counted(connection: Connection) -> None:
        kind = connection.config.transport.value
        now[kind] += 1
        for name, count in (*now.items(), ("all", sum(now.values()))):
            most[name] = max(most[name], count)
        await opening.wait()
        now[kind] -= 1
        raise remote.ServerUnreachable("enough")

    monkeypatch.setattr(Connection, "open", counted)

    async def together() -> None:
        servers = (peer(), web.at("ok"), replace(web.at("ok"), tenant_id="globex"))
        wanted = [here.pool.acquire(config, f"s{number}", secret) for config in servers for number in range(10)]
        waiting = asyncio.gather(*wanted, return_exceptions=True)
        await asyncio.sleep(0.1)
        assert now == {"stdio": 2, "http": 6}
        opening.set()
        await waiting

    here.run(together())
    assert (most["stdio"], most["all"]) == (2, 8)


@gate("connections.slots", "timeouts.separate")
def test_waiting_for_a_slot_is_not_counted_as_connecting(bench: Callable[..., Bench], web: Web) -> None:
    here = bench(preparations=1, timeouts=Timeouts(connect=0.6, probe=0.3))

    async def together() -> list[Any]:
        silent = [here.pool.acquire(web.at("silent"), f"s{number}", secret) for number in range(2)]
        return await asyncio.gather(*silent, here.pool.acquire(web.at("ok"), "s", secret), return_exceptions=True)

    first, second, third = here.run(together())
    assert isinstance(first, remote.ServerUnreachable)
    assert isinstance(second, remote.ServerUnreachable)
    assert third.is_alive, "it waited for longer than its connect time-out"


def test_a_session_that_ends_releases_what_it_held(bench: Callable[..., Bench], web: Web) -> None:
    here = bench()
    mine, other = here.connect(web.at("ok"), "s1"), here.connect(web.at("ok"), "s2")
    here.run(here.pool.close_session("s1"))
    _until(lambda: not mine.is_alive)
    assert other.is_alive


def test_a_closed_pool_opens_nothing(bench: Callable[..., Bench], web: Web) -> None:
    here = bench()
    here.run(here.pool.close_all())
    with pytest.raises(remote.ServerUnreachable):
        here.connect(web.at("ok"))


def test_connections_that_come_and_go_leave_no_descriptors(bench: Callable[..., Bench], web: Web) -> None:
    here = bench()

    def come_and_go(number: int) -> int:
        session = f"s{number}"
        here.run(_one_call(here, web.at("ok"), session))
        here.run(_one_call(here, peer(), session))
        here.run(here.pool.close_session(session))
        deadline = time.monotonic() + 5
        while here.run(_leaving(here)) and time.monotonic() < deadline:
            time.sleep(0.02)
        return len(list(Path("/proc/self/fd").iterdir()))

    counts = [come_and_go(number) for number in range(4)]
    assert counts[-1] <= counts[0]


async def _one_call(here: Bench, config: Any, session: str) -> None:
    connection = await here.pool.acquire(config, session, secret)
    await connection.call(CallSpec("environment", {}, 5.0))


async def _leaving(here: Bench) -> int:
    return len(here.pool._leaving)


def _until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 5
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert condition()


@gate("connections.idle")
def test_a_call_in_flight_keeps_its_connection_and_starts_the_idle_time_anew(
    bench: Callable[..., Bench], doors: Doors
) -> None:
    here, (name, _) = bench(timeouts=Timeouts(idle=0.6)), doors.peer(calls=["hang"])
    connection = here.connect(doors.at(name))
    with pytest.raises(remote.RequestTimeout):
        here.run(connection.call(CallSpec("t", {}, 1.5)))
    assert connection.is_alive, "it was not unused for so long"
    _until(lambda: not connection.is_alive)
    assert connection._why == remote.Closing.IDLE
