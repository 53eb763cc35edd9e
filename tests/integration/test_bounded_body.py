"""A body without an end is cut while it is read: what comes after the bound is never taken in."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from tests.spec.requirements import gate
from toolsys.egress import EgressClient, EgressPolicy, EgressRefused, HttpAnswer, policy_for, post_json

HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n"
CHUNK = b"x" * 65_536
BOUND = 1_000_000
TOTAL = 64 * 1024 * 1024


class Pouring:
    """Answers every request with 64 MiB, unless the other side hangs up. `poured` counts the bytes written."""

    def __init__(self) -> None:
        self.poured = 0
        self.ended = asyncio.Event()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(HEAD)
            while self.poured < TOTAL:
                writer.write(b"%x\r\n%b\r\n" % (len(CHUNK), CHUNK))
                await writer.drain()
                self.poured += len(CHUNK)
        except ConnectionError:
            pass
        finally:
            writer.transport.abort()
            self.ended.set()


async def _while_it_pours[T](ask: Callable[[str, EgressPolicy], Awaitable[T]]) -> tuple[T, int]:
    """Return what was answered, and the bytes that were poured until the other side hung up."""
    pouring = Pouring()
    server = await asyncio.start_server(pouring.serve, "127.0.0.1", 0)
    async with server:
        host = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
        policy = policy_for([f"http://{host}/"], open_networks=["127.0.0.1/32"], plain_http_hosts=[host])
        answered = await ask(f"http://{host}/", policy)
        await asyncio.wait_for(pouring.ended.wait(), 20)
    return answered, pouring.poured


@gate("egress.bounded")
def test_a_body_is_bounded_while_it_is_read() -> None:
    async def ask(url: str, policy: EgressPolicy) -> str:
        with pytest.raises(EgressRefused) as refused:
            await post_json(url, {}, policy=policy, timeout_seconds=20, maximum_bytes=BOUND)
        return refused.value.reason

    reason, poured = asyncio.run(_while_it_pours(ask))
    assert reason == "too_large"
    assert poured < TOTAL


@gate("egress.bounded")
def test_what_is_kept_of_a_body_ends_at_its_bound() -> None:
    async def ask(url: str, policy: EgressPolicy) -> HttpAnswer:
        return await EgressClient(policy).send(
            "GET", url, timeout_seconds=20, maximum_bytes=BOUND, keeps_partial=True
        )  # fmt: skip

    answer, poured = asyncio.run(_while_it_pours(ask))
    assert (len(answer.body), answer.is_whole) == (BOUND, False)
    assert poured < TOTAL
