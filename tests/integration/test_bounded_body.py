"""A body without an end is cut while it is read: what comes after the bound is never taken in."""

import asyncio

import pytest

from tests.spec.requirements import gate
from toolsys.egress import EgressRefused, policy_for, post_json

HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n"
CHUNK = b"x" * 65_536
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


@gate("egress.bounded")
def test_a_body_is_bounded_while_it_is_read() -> None:
    async def go() -> int:
        pouring = Pouring()
        server = await asyncio.start_server(pouring.serve, "127.0.0.1", 0)
        async with server:
            host = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
            policy = policy_for([f"http://{host}/"], open_networks=["127.0.0.1/32"], plain_http_hosts=[host])
            with pytest.raises(EgressRefused) as refused:
                await post_json(f"http://{host}/", {}, policy=policy, timeout_seconds=20, maximum_bytes=1_000_000)
            assert refused.value.reason == "too_large"
            await asyncio.wait_for(pouring.ended.wait(), 20)
        return pouring.poured

    assert asyncio.run(go()) < TOTAL
