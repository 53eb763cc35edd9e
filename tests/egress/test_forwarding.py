"""The operator's forward proxy: a real one that speaks CONNECT, well and badly, in front of the public stand-in."""

import asyncio
import base64
import logging
import traceback
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import httpcore2
import pytest

from tests.egress.peers import PublicServer, peers
from tests.egress.proxies import ANSWERS, Proxy, closed
from tests.egress.run import Resolver
from tests.egress.table import CLOSED, PUBLIC, PUBLIC_6
from tests.spec.requirements import gate
from toolsys import dialling
from toolsys.egress import (
    EgressClient,
    EgressCounts,
    EgressFailed,
    EgressRefused,
    ForwardProxy,
    HttpAnswer,
    PinnedTransport,
    Watch,
    policy_for,
)

API = "https://api.example"
USER, WORD = "toolsys", "proxy-pass:word/1"
SAYS = {
    "407": "the forward proxy answered 407", "has-no-end": "answered without end", "nothing": "ended before its answer",
    "first-words-of-the-target": "said more than its answer", "another-protocol": "speaks no HTTP/1.1",
}  # fmt: skip


async def _plain(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """A server without TLS, which speaks when it was asked."""
    with suppress(asyncio.IncompleteReadError):
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\nconnection: close\r\n\r\nplain")
    await closed(writer)


@dataclass
class Wire(httpcore2.AsyncNetworkBackend):
    """Dials what is on this machine, notes everything, and lets nothing else out."""

    dialled: list[tuple[str, int]] = field(default_factory=list)

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109 - the signature is httpcore2's
        *_rest: Any,
        **_more: Any,
    ) -> httpcore2.AsyncNetworkStream:
        self.dialled.append((host, port))
        if host != "127.0.0.1":
            raise httpcore2.ConnectError("nothing leaves a test")
        return await httpcore2.AnyIOBackend().connect_tcp(host, port, timeout)

    async def sleep(self, seconds: float) -> None:
        raise AssertionError("nothing waits to try again")


class Bench:
    """A proxy, what it leads to, and clients that know it."""

    def __init__(self, proxy: Proxy, plain: int, public: PublicServer, trusted: Any) -> None:
        self.proxy, self.plain, self.public, self.trusted = proxy, plain, public, trusted
        self.wire, self.counts, self.resolver = Wire(), EgressCounts(), Resolver(((PUBLIC,),))
        self.setting = ForwardProxy("127.0.0.1", proxy.port, USER, WORD)

    async def get(self, url: str = f"{API}/raw/ok", *, seconds: float = 5.0, **policy: Any) -> HttpAnswer:
        client = EgressClient(
            policy_for([url], **{"proxy": self.setting, **policy}), counts=self.counts, resolver=self.resolver,
            network=self.wire, tls=self.trusted,
        )  # fmt: skip
        return await client.send("GET", url, timeout_seconds=seconds, maximum_bytes=1_000)

    async def failure(self, url: str = f"{API}/raw/ok", *, seconds: float = 5.0, **policy: Any) -> EgressFailed:
        with pytest.raises(EgressFailed) as failed:
            await self.get(url, seconds=seconds, **policy)
        return failed.value

    async def refusal(self, **policy: Any) -> EgressRefused:
        with pytest.raises(EgressRefused) as refused:
            await self.get(**policy)
        return refused.value


def played[T](scene: Callable[[Bench], Awaitable[T]]) -> T:
    async def go() -> T:
        async with peers() as (_, public, trusted):
            other = await asyncio.start_server(_plain, "127.0.0.1", 0)
            plain: int = other.sockets[0].getsockname()[1]
            proxy = Proxy({f"{PUBLIC}:443": public.port, f"[{PUBLIC_6}]:443": public.port, "10.1.2.3:8080": plain})
            server = await asyncio.start_server(proxy.serve, "127.0.0.1", 0)
            proxy.port = server.sockets[0].getsockname()[1]
            try:
                return await scene(Bench(proxy, plain, public, trusted))
            finally:
                server.close()
                other.close()
                async with asyncio.timeout(5):
                    await asyncio.gather(*(task for task in proxy.serving if task is not None))

    return asyncio.run(go())


@gate("egress.proxy")
def test_the_address_that_was_checked_is_asked_of_the_proxy_and_tls_is_with_the_target() -> None:
    async def scene(bench: Bench) -> tuple[HttpAnswer, Bench]:
        return await bench.get(), bench

    answer, bench = played(scene)
    assert (answer.status, answer.body) == (200, b"hello")
    word = base64.b64encode(f"{USER}:{WORD}".encode())
    authority = f"{PUBLIC}:443".encode()
    assert bench.proxy.heads == [
        b"CONNECT %b HTTP/1.1\r\nHost: %b\r\nProxy-Authorization: Basic %b\r\n\r\n" % (authority, authority, word)
    ]
    assert bench.wire.dialled == [("127.0.0.1", bench.proxy.port)]
    (head,) = bench.public.requests
    assert b"\r\nhost: api.example\r\n" in head.lower()
    assert b"proxy-" not in head.lower()
    assert (bench.resolver.asked, bench.counts.read()) == (1, {"answered": 1})


@gate("egress.proxy")
@pytest.mark.parametrize(
    "answers", [("127.0.0.1",), ("10.0.0.1",), (PUBLIC, "169.254.169.254"), ("::ffff:10.0.0.1",), ("9.9.9.9",)]
)
def test_the_proxy_never_sees_an_address_that_is_denied(answers: tuple[str, ...]) -> None:
    async def scene(bench: Bench) -> tuple[str, bool, list[bytes], list[tuple[str, int]]]:
        bench.resolver = Resolver((answers,))
        refused = await bench.refusal(denied_networks=["9.9.9.0/24"])
        return refused.reason, refused.was_sent, bench.proxy.heads, bench.wire.dialled

    assert played(scene) == ("address", False, [], [])


@gate("egress.proxy", "egress.pinned")
def test_a_name_that_is_rebound_reaches_nobody_through_the_proxy() -> None:
    async def scene(bench: Bench) -> tuple[list[str], int]:
        bench.resolver = Resolver(((PUBLIC,), ("127.0.0.1",)))
        await bench.get()
        assert (await bench.refusal()).reason == "address"
        return bench.proxy.asked, bench.resolver.asked

    assert played(scene) == ([f"{PUBLIC}:443"], 2)


@gate("egress.proxy", "egress.bounded")
@pytest.mark.parametrize("name", [*ANSWERS, "stalls", "has-no-end", "drips"])
def test_a_proxy_that_makes_no_tunnel_is_a_connection_that_was_not_made(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, name: str
) -> None:
    monkeypatch.setattr(dialling, "CONNECT_SECONDS", 0.5)
    caplog.set_level(logging.DEBUG)

    async def scene(bench: Bench) -> tuple[EgressFailed, Bench]:
        bench.proxy.answer, bench.proxy.habit = ANSWERS.get(name), name
        failed = await bench.failure()
        await asyncio.wait_for(bench.proxy.ended.wait(), 5.0)
        return failed, bench

    failed, bench = played(scene)
    assert (failed.reason, failed.was_sent) == ("proxy", False)
    assert (bench.public.requests, bench.counts.read()) == ([], {"proxy": 1})
    told = "".join(traceback.format_exception(failed)) + repr(failed) + caplog.text
    assert not any(secret in told for secret in (WORD, base64.b64encode(f"{USER}:{WORD}".encode()).decode()))
    assert SAYS.get(name, "") in str(failed), "an operator sees what is wrong"


@gate("egress.proxy")
def test_the_whole_time_bounds_a_proxy_that_stalls() -> None:
    async def scene(bench: Bench) -> tuple[str, bool]:
        bench.proxy.habit = "stalls"
        failed = await bench.failure(seconds=0.3)
        await asyncio.wait_for(bench.proxy.ended.wait(), 5.0)
        return failed.reason, failed.was_sent

    assert played(scene) == ("timeout", False)


@gate("egress.proxy")
@pytest.mark.parametrize("host", ["127.0.0.1", "proxy.internal"])
def test_a_proxy_that_is_not_there_is_never_gone_around(host: str) -> None:
    async def scene(bench: Bench) -> tuple[str, bool, set[str]]:
        bench.setting, bench.resolver = ForwardProxy(host, 1), Resolver(((PUBLIC,), ("127.0.0.1",)))
        failed = await bench.failure()
        return failed.reason, failed.was_sent, {dialled for dialled, _ in bench.wire.dialled}

    assert played(scene) == ("proxy", False, {"127.0.0.1"})


@gate("egress.proxy")
def test_the_next_address_is_asked_for_where_the_proxy_cannot_reach_the_first() -> None:
    async def scene(bench: Bench) -> tuple[bytes, list[str]]:
        bench.resolver = Resolver(((CLOSED, PUBLIC_6),))
        return (await bench.get()).body, bench.proxy.asked

    assert played(scene) == (b"hello", [f"{CLOSED}:443", f"[{PUBLIC_6}]:443"])


@gate("egress.proxy")
def test_plain_http_takes_the_same_way_and_this_machine_itself_is_dialled_directly() -> None:
    async def scene(bench: Bench) -> tuple[bytes, bytes, list[str]]:
        bench.resolver = Resolver((("10.1.2.3",),))
        there = await bench.get("http://local.example:8080/x", open_networks=["10.1.2.0/24"],
                                plain_http_hosts=["local.example:8080"])  # fmt: skip
        own = f"127.0.0.1:{bench.plain}"
        here = await bench.get(f"http://{own}/x", open_networks=["127.0.0.1/32"], plain_http_hosts=[own])
        assert bench.wire.dialled == [("127.0.0.1", bench.proxy.port), ("127.0.0.1", bench.plain)]
        return there.body, here.body, bench.proxy.asked

    assert played(scene) == (b"plain", b"plain", ["10.1.2.3:8080"])


@gate("egress.proxy")
def test_without_the_setting_no_variable_of_the_environment_leads_to_a_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scene(bench: Bench) -> tuple[list[bytes], list[tuple[str, int]]]:
        for name in ("HTTPS_PROXY", "https_proxy", "ALL_PROXY", "TOOLSYS_EGRESS_PROXY"):
            monkeypatch.setenv(name, f"http://127.0.0.1:{bench.proxy.port}")
        await bench.failure(proxy=None)
        return bench.proxy.heads, bench.wire.dialled

    assert played(scene) == ([], [(PUBLIC, 443)])


@gate("egress.proxy")
def test_who_watches_the_dial_sees_the_target_s_address_fail_and_not_the_proxy_s_succeed() -> None:
    async def scene(bench: Bench) -> list[tuple[str, str, bool]]:
        import httpx2

        bench.proxy.answer, watch = ANSWERS["407"], Watch()
        transport = PinnedTransport(
            policy_for([API], proxy=bench.setting), maximum_bytes=100, resolver=bench.resolver, network=bench.wire,
            tls=bench.trusted, watch=watch,
        )  # fmt: skip
        async with transport:
            with pytest.raises(EgressFailed):
                await transport.handle_async_request(httpx2.Request("GET", API))
        return [(mark.part, mark.fact, mark.is_done) for mark in watch.marks]

    assert played(scene) == [("resolve", PUBLIC, True), ("connect", f"{PUBLIC} port 443, by the forward proxy", False)]
