"""Plays the egress table against the real client and real listeners; `make egress` prints what it finds.

Nothing leaves the machine: the dial is watched, a public address leads to the stand-in, and whatever else is dialled
leads to the sink. A dialled *name* is resolved again, as the system would, and so falls for rebinding.
"""

import asyncio
import ipaddress
import os
import ssl
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpcore2
import httpx2

from tests.crash import others
from tests.egress.peers import LOOPBACKS, PublicServer, Sink, peers
from tests.egress.table import (
    ANSWERED,
    API,
    BLACK_HOLE,
    CLOSED,
    MAXIMUM_BYTES,
    NEVER,
    NO_SUCH_NAME,
    PUBLIC,
    PUBLIC_6,
    Row,
    rows,
)
from toolsys.egress import EgressClient, EgressCounts, EgressError, EgressPolicy, EgressRefused, Origin, policy_for

STAND_INS = {ipaddress.ip_address(text) for text in (PUBLIC, PUBLIC_6, f"::ffff:{PUBLIC}", f"64:ff9b::{PUBLIC}")}
# Kernel buffers on both sides of a loopback connection hold a few of these; an endless answer fills any number.
MAXIMUM_BUFFERED = 16 * 1024 * 1024
PRIVATE_FIELDS = (b"\nauthorization:", b"\ncookie:", b"\nproxy-")


class Resolver:
    """Answers as the row says, and counts."""

    def __init__(self, answers: tuple[tuple[str, ...], ...]) -> None:
        self._answers = answers
        self.asked = 0

    async def __call__(self, host: str, port: int) -> list[str]:
        answer = self._answers[min(self.asked, len(self._answers) - 1)]
        self.asked += 1
        if answer == NEVER:
            await asyncio.sleep(30)
        if answer == NO_SUCH_NAME:
            raise OSError(-2, "Name or service not known")
        return list(answer)


@dataclass
class WatchedNetwork(httpcore2.AsyncNetworkBackend):
    """Dials the stand-in for a public address and the sink for all others."""

    sink: Sink
    public: PublicServer
    resolver: Resolver
    dialled: list[str] = field(default_factory=list)
    led_to_sink: int = 0

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109 - the signature is httpcore2's
        *_rest: Any,
        **_more: Any,
    ) -> httpcore2.AsyncNetworkStream:
        self.dialled.append(host)
        try:
            address = ipaddress.ip_address(host)
        except ValueError:
            address = ipaddress.ip_address((await self.resolver(host, port))[0])
        if address == ipaddress.ip_address(BLACK_HOLE):
            await asyncio.sleep(30)
        if address in ipaddress.ip_network(f"{CLOSED}/28", strict=False):
            raise httpcore2.ConnectError("refused")
        real = httpcore2.AnyIOBackend()
        if address in STAND_INS:
            return await real.connect_tcp(LOOPBACKS[0], self.public.port, timeout)
        self.led_to_sink += 1
        loopback = self.sink.families[-1 if address.version == 6 else 0]
        return await real.connect_tcp(loopback, self.sink.port, timeout)

    async def sleep(self, seconds: float) -> None:
        raise AssertionError("nothing waits to try again")


def policy_of(row: Row, url: str, sink_port: int) -> EgressPolicy:
    """Allow what the row allows: by default whatever any reader, careful or not, could take for its destination."""
    allowed = row.allowed if row.allowed is not None else (url, API)
    origins = {origin for text in allowed for origin in _readings(text.replace("{sink}", str(sink_port)))}
    base = policy_for([], open_networks=row.opened, denied_hosts=row.denied_hosts, denied_networks=row.denied_networks)
    plain = frozenset(origin.authority for origin in origins) if row.is_plain_allowed else frozenset[str]()
    return EgressPolicy(frozenset(origins), base.open_networks, plain, base.denied_hosts, base.denied_networks)


def _readings(url: str) -> Iterator[Origin]:
    with suppress(EgressRefused):
        yield Origin.of(url)
    try:
        read = httpx2.URL(url)
    except (httpx2.InvalidURL, UnicodeError):
        return
    if read.host and read.scheme in {"http", "https"}:
        port = read.port if read.port is not None else {"http": 80, "https": 443}[read.scheme]
        yield from (Origin(read.scheme, host, port) for host in (read.host, read.raw_host.decode()))


@dataclass
class Table:
    """The peers, and what a row left behind at them."""

    sink: Sink
    public: PublicServer
    trusted: ssl.SSLContext
    netrc: str

    async def faults(self, row: Row) -> list[str]:
        """Play one row; an empty list means that all is as it must be."""
        connections, requests, self.public.written = self.sink.connections, len(self.public.requests), 0
        url, resolver = row.url.replace("{sink}", str(self.sink.port)), Resolver(row.answers)
        network, counts = WatchedNetwork(self.sink, self.public, resolver), EgressCounts()
        client = EgressClient(policy_of(row, url, self.sink.port), counts=counts, resolver=resolver, network=network,
                              tls=self.trusted)  # fmt: skip
        started, outcomes, was_sent = time.monotonic(), [], False
        with environment(row, self.sink.port, self.netrc):
            for _ in range(row.tries):
                try:
                    await client.send("GET", url, timeout_seconds=row.seconds, maximum_bytes=MAXIMUM_BYTES)
                    outcomes.append(ANSWERED)
                except EgressError as error:
                    outcomes.append(error.reason)
                    was_sent = was_sent or error.was_sent
                except Exception as error:
                    outcomes.append(f"with {type(error).__name__}, which is no answer of ours")
        heads = self.public.requests[requests:]
        checks = {
            f"ended {outcomes[-1]}": outcomes[-1] == row.expected,
            f"counted {counts.read()}": counts.read() == Counter(outcomes),
            f"reached the sink {self.sink.connections - connections} times":
                self.sink.connections - connections == network.led_to_sink == row.sink,
            f"made {len(heads)} requests": len(heads) == row.requests,
            f"asked {resolver.asked} times": resolver.asked <= row.tries,
            f"dialled {network.dialled}": all(is_address(host) for host in network.dialled),
            "said that it was sent": not was_sent or row.requests > 0,
            "sent what is private": not any(name in head.lower() for head in heads for name in PRIVATE_FIELDS),
            "asked for an encoding": all(b"accept-encoding: identity\r\n" in head.lower() for head in heads),
            "took what has no end": self.public.written <= MAXIMUM_BUFFERED,
            "took too long": time.monotonic() - started < row.seconds + 5,
        }  # fmt: skip
        return [what for what, holds in checks.items() if not holds]


def is_address(host: str) -> bool:
    try:
        return str(ipaddress.ip_address(host)) == host
    except ValueError:
        return False


@contextmanager
def environment(row: Row, sink_port: int, netrc: str) -> Iterator[None]:
    changed = {
        name: value.replace("{sink}", str(sink_port)).replace("{netrc}", netrc) for name, value in row.environment
    }
    before = {name: os.environ.get(name) for name in changed}
    os.environ.update(changed)
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name) if value is None else os.environ.update({name: value})


async def play(chosen: Iterable[Row]) -> dict[str, list[str]]:
    """Play rows one after the other and return the faults by the row's name."""
    with tempfile.TemporaryDirectory() as folder:
        netrc = Path(folder) / "netrc"
        netrc.write_text("machine api.example login somebody password something\ndefault login a password b\n")
        async with peers() as (sink, public, trusted):
            table = Table(sink, public, trusted, str(netrc))
            return {row.name: await table.faults(row) for row in chosen}


def main() -> int:
    """Print progress, every fault, and one line at the end."""
    chosen = list(rows())
    started = time.monotonic()
    print(f"{len(chosen)} rows, {sum(row.expected != ANSWERED for row in chosen)} of them hostile")
    found: dict[str, list[str]] = {}
    for first in range(0, len(chosen), 50):
        found |= asyncio.run(play(chosen[first : first + 50]))
        print(f"  {len(found)} rows played in {time.monotonic() - started:.1f} s", flush=True)
    failed = {name: faults for name, faults in found.items() if faults}
    for name, faults in failed.items():
        print(f"FAILED {name}: {'; '.join(faults)}")
    hostile = sum(row.expected != ANSWERED for row in chosen)
    what = f"{len(chosen)} destinations and answers, {hostile} of them hostile; connections at the sink counted in each"
    others.keep("egress", passed=len(found) - len(failed), failed=len(failed), what=what)
    print(f"{len(found) - len(failed)} passed, {len(failed)} failed")
    return 1 if failed or len(found) != len(chosen) else 0


if __name__ == "__main__":
    sys.exit(main())
