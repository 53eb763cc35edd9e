"""The client beyond the table: what it sends, what it keeps of an answer, and that it leaves the loop to others."""

import asyncio
import socket
import ssl
import threading
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing, suppress
from datetime import UTC, datetime
from typing import Any

import httpcore2
import httpx2
import pytest

from tests.egress.peers import PublicServer, Sink, peers
from tests.egress.run import Resolver, WatchedNetwork
from tests.egress.table import PUBLIC
from tests.spec.requirements import gate
from toolsys import dialling
from toolsys.departure import MAY_SEND
from toolsys.egress import (
    EgressClient,
    EgressCounts,
    EgressFailed,
    EgressPolicy,
    EgressRefused,
    HttpAnswer,
    Origin,
    PinnedTransport,
    policy_for,
    retry_after_seconds,
)

API = "https://api.example"
NOW = datetime(2026, 11, 30, 12, 0, 0, tzinfo=UTC)


class Bench:
    """A client of the public server, and what came of it."""

    def __init__(self, sink: Sink, public: PublicServer, trusted: ssl.SSLContext) -> None:
        self.public, self.trusted, self.counts = public, trusted, EgressCounts()
        self.resolver = Resolver(((PUBLIC,),))
        self.network = WatchedNetwork(sink, public, self.resolver)
        self.policy = policy_for([API])
        self.client = EgressClient(
            self.policy, counts=self.counts, resolver=self.resolver, network=self.network, tls=trusted
        )

    async def get(self, path: str, *, maximum_bytes: int = 100_000, keeps_partial: bool = False) -> HttpAnswer:
        return await self.client.send(
            "GET", f"{API}/{path}", timeout_seconds=5, maximum_bytes=maximum_bytes, keeps_partial=keeps_partial
        )

    async def stream(self, path: str, maximum_bytes: int) -> AsyncIterator[bytes]:
        transport = PinnedTransport(
            self.policy, maximum_bytes=maximum_bytes, resolver=self.resolver, network=self.network, tls=self.trusted
        )
        async with transport:
            response = await transport.handle_async_request(httpx2.Request("GET", f"{API}/{path}"))
            async with aclosing(response):
                async for chunk in response.aiter_raw():
                    yield chunk


def played[T](scene: Callable[[Bench], Awaitable[T]]) -> T:
    async def go() -> T:
        async with peers() as (sink, public, trusted):
            return await scene(Bench(sink, public, trusted))

    return asyncio.run(go())


@gate("egress.destinations")
def test_the_host_that_is_named_is_the_one_that_was_checked() -> None:
    async def scene(bench: Bench) -> bytes:
        await bench.client.send(
            "POST", f"{API}/raw/ok?a=b#c", headers={"Host": "127.0.0.1", "Accept-Encoding": "gzip", "X-A": "b"},
            content=b"body", timeout_seconds=5, maximum_bytes=100,
        )  # fmt: skip
        return bench.public.requests[0].lower()

    head = played(scene)
    assert head.startswith(b"post /raw/ok?a=b http/1.1\r\n")
    assert b"\r\nhost: api.example\r\n" in head
    assert b"127.0.0.1" not in head
    assert b"gzip" not in head
    assert b"\r\nx-a: b\r\n" in head


@gate("egress.bounded")
def test_a_body_that_is_too_large_is_refused_or_kept_up_to_the_bound() -> None:
    async def scene(bench: Bench) -> tuple[HttpAnswer, EgressCounts]:
        for path in ("endless/body", "raw/declared"):
            with pytest.raises(EgressRefused) as refused:
                await bench.get(path)
            assert (refused.value.reason, refused.value.was_sent) == ("too_large", True)
        with pytest.raises(EgressRefused):
            await bench.get("raw/declared", keeps_partial=True)
        return await bench.get("endless/body", keeps_partial=True), bench.counts

    answer, counts = played(scene)
    assert (answer.status, answer.body, answer.is_whole) == (200, b"x" * 100_000, False)
    assert counts.read() == {"too_large": 4}


def test_a_body_of_exactly_the_bound_is_whole() -> None:
    answer = played(lambda bench: bench.get("raw/ok", maximum_bytes=5, keeps_partial=True))
    assert (answer.body, answer.is_whole, answer.fields["content-type"]) == (b"hello", True, "text/plain")


@gate("egress.redirects")
def test_where_a_redirect_points_is_told_and_not_followed() -> None:
    async def scene(bench: Bench) -> tuple[EgressRefused, int]:
        with pytest.raises(EgressRefused) as refused:
            await bench.get("redirect/302//raw/ok")
        return refused.value, len(bench.public.requests)

    refusal, requests = played(scene)
    assert (refusal.reason, refusal.location, refusal.was_sent, requests) == ("redirect", "/raw/ok", True, 1)


def test_a_protocol_that_was_switched_is_a_lost_connection() -> None:
    async def scene(bench: Bench) -> EgressFailed:
        with pytest.raises(EgressFailed) as failed:
            await bench.client.send(
                "GET", f"{API}/raw/upgrade", headers={"connection": "upgrade", "upgrade": "h2c"},
                timeout_seconds=5, maximum_bytes=100,
            )  # fmt: skip
        return failed.value

    assert (played(scene).reason, str(played(scene))) == ("connection_lost", "connection_lost: status 101")


@gate("egress.counted")
def test_whoever_stops_waiting_is_counted() -> None:
    async def scene(bench: Bench) -> dict[str, int]:
        for path in ("silent", "drip/body"):
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(bench.get(path), 0.2)
        await bench.get("raw/ok")
        return bench.counts.read()

    assert played(scene) == {"cancelled": 2, "answered": 1}


@gate("egress.bounded")
def test_a_tls_handshake_that_is_given_up_keeps_no_socket(monkeypatch: pytest.MonkeyPatch) -> None:
    """The peer accepts and says nothing. It sees the end when the dialler gives up, not when memory is collected."""
    given: list[httpcore2.AsyncNetworkStream] = []
    real = dialling.MeteredStream.start_tls

    async def kept(self: dialling.MeteredStream, *arguments: Any, **named: Any) -> httpcore2.AsyncNetworkStream:
        given.append(self)  # so that nobody collects it
        return await real(self, *arguments, **named)

    monkeypatch.setattr(dialling.MeteredStream, "start_tls", kept)

    async def go() -> None:
        ended = asyncio.Event()

        async def mute(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            while await reader.read(4_096):
                pass
            ended.set()
            writer.close()

        server = await asyncio.start_server(mute, "127.0.0.1", 0)
        url = f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
        transport = PinnedTransport(policy_for([url], open_networks=["127.0.0.1/32"]), maximum_bytes=1_000)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(transport.handle_async_request(httpx2.Request("GET", url)), 0.5)
        await asyncio.wait_for(ended.wait(), 5.0)
        await transport.aclose()
        server.close()
        await server.wait_closed()

    asyncio.run(go())
    assert len(given) == 1


@gate("egress.departure")
@pytest.mark.parametrize("is_live", [True, False])
def test_what_may_not_leave_any_more_once_connected_does_not_leave(is_live: bool) -> None:
    """Connecting took longer than the lease: the handshakes are done, and not a byte of the request follows."""

    async def scene(bench: Bench) -> tuple[list[int], int, dict[str, int]]:
        dialled: list[int] = []

        def asked() -> bool:
            dialled.append(len(bench.network.dialled))
            return is_live

        MAY_SEND.set(asked)
        with suppress(EgressFailed):
            await bench.get("raw/ok")
        return dialled, len(bench.public.requests), bench.counts.read()

    ended = ([1], 1, {"answered": 1}) if is_live else ([1], 0, {"unreachable": 1})
    assert played(scene) == ended


@gate("egress.departure")
def test_a_transport_without_a_deadline_of_its_own_asks_too() -> None:
    async def scene(bench: Bench) -> int:
        MAY_SEND.set(lambda: False)
        with pytest.raises(EgressFailed) as failed:
            await anext(bench.stream("raw/ok", 100))
        assert (failed.value.reason, failed.value.was_sent) == ("unreachable", False)
        return len(bench.public.requests)

    assert played(scene) == 0


@gate("egress.pinned")
def test_a_connection_that_is_kept_stays_at_the_address_that_was_checked() -> None:
    async def scene(bench: Bench) -> tuple[int, list[str], int]:
        bench.resolver = bench.network.resolver = Resolver(((PUBLIC,), ("127.0.0.1",)))
        transport = PinnedTransport(
            bench.policy, maximum_bytes=100, resolver=bench.resolver, network=bench.network, tls=bench.trusted
        )
        async with transport, httpx2.AsyncClient(transport=transport, trust_env=False) as client:
            for _ in range(3):
                assert (await client.get(f"{API}/kept/ok")).text == "hello"
        return bench.resolver.asked, bench.network.dialled, len(bench.public.requests)

    assert played(scene) == (1, [PUBLIC], 3)


@gate("egress.bounded")
def test_a_flood_of_small_chunks_leaves_the_loop_to_others() -> None:
    """The chunks are all here already, so nothing waits on its own: deadlines of other calls would not fire."""

    async def scene(bench: Bench) -> int:
        turns, done = 0, asyncio.Event()

        async def watch() -> None:
            nonlocal turns
            while not done.is_set():
                turns += 1
                await asyncio.sleep(0)

        watcher = asyncio.create_task(watch())
        at_turn: Counter[int] = Counter()

        async def listen() -> None:
            async for _ in bench.stream("endless/chunks", maximum_bytes=5_000):
                at_turn[turns] += 1

        with pytest.raises(EgressRefused, match="too_large"):
            await listen()
        done.set()
        await watcher
        assert at_turn.total() == 5_000
        return max(at_turn.values())

    assert played(scene) <= 64


@gate("egress.bounded")
def test_lookups_that_hang_do_not_hold_up_others(monkeypatch: pytest.MonkeyPatch) -> None:
    released = threading.Event()

    def getaddrinfo(host: str, port: int, **_options: int) -> list[tuple[object, ...]]:
        if host != "quick.example":
            released.wait(30)
        return [(2, 1, 6, "", ("8.8.8.8", port)), (2, 2, 17, "", ("8.8.8.8", port))]

    async def scene() -> list[str]:
        hanging = [asyncio.create_task(dialling.resolve("slow.example", 443)) for _ in range(16)]
        await asyncio.sleep(0)
        try:
            async with asyncio.timeout(5):
                elsewhere = await asyncio.get_running_loop().run_in_executor(None, lambda: "free")
                return [elsewhere, *await dialling.resolve("quick.example", 443)]
        finally:
            released.set()
            await asyncio.gather(*hanging)

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    assert asyncio.run(scene()) == ["free", "8.8.8.8"]


@pytest.mark.parametrize(
    ("url", "authority"),
    [
        ("https://API.example", "api.example:443"),
        ("http://[2001:DB8::0:1]:8080/x", "[2001:db8::1]:8080"),
        ("https://8.8.8.8:1", "8.8.8.8:1"),
    ],
)
def test_an_origin_has_one_spelling(url: str, authority: str) -> None:
    assert Origin.of(url).authority == authority


def test_a_policy_of_nothing_allows_nothing() -> None:
    with pytest.raises(EgressRefused) as refused:
        EgressPolicy().check_url("https://api.example/")
    assert refused.value.reason == "not_allowed"


@pytest.mark.parametrize(
    ("field", "seconds"),
    [
        ("7", 7.0), (" 120 ", 120.0), ("0", 0.0), ("9" * 50, 86_400.0), ("86401", 86_400.0),
        ("Mon, 30 Nov 2026 12:01:00 GMT", 60.0), ("Mon, 30 Nov 2026 11:00:00 GMT", 0.0),
        ("Fri, 31 Dec 2100 00:00:00 GMT", 86_400.0), ("Mon, 30 Nov 2026 12:01:00 -0000", 60.0),
        ("", None), ("-1", None), ("1.5", None), ("٣", None), ("soon", None), ("Mon, 99 Nov 2026 12:01:00 GMT", None),
    ],
)  # fmt: skip
def test_retry_after_is_read_and_bounded(field: str, seconds: float | None) -> None:
    assert retry_after_seconds(field, NOW) == seconds
