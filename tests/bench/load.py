"""A small load generator: keep-alive HTTP over raw sockets on one asyncio loop, so that it costs little itself."""

import asyncio
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Figures:
    """Latencies in milliseconds; `per_second` is calls completed in the whole run."""

    count: int
    p50_ms: float
    p99_ms: float
    per_second: float

    def __str__(self) -> str:
        return (
            f"p50 {self.p50_ms:6.2f} ms   p99 {self.p99_ms:7.2f} ms   {self.per_second:7.1f}/s   ({self.count} calls)"
        )


def figures(seconds: list[float], elapsed: float) -> Figures:
    ordered = sorted(seconds)
    p99 = ordered[min(len(ordered) - 1, int(len(ordered) * 0.99))]
    return Figures(len(ordered), statistics.median(ordered) * 1000, p99 * 1000, len(ordered) / elapsed)


class Connection:
    """One keep-alive connection."""

    def __init__(self, host: str, port: int) -> None:
        self._address = (host, port)
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None

    async def exchange(self, head: str, body: bytes) -> tuple[int, bytes]:
        if self._writer is None:
            self._reader, self._writer = await asyncio.open_connection(*self._address)
        assert self._reader is not None
        self._writer.write(f"{head}\r\nHost: 127.0.0.1\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)
        raw = await self._reader.readuntil(b"\r\n\r\n")
        length = 0
        for line in raw.split(b"\r\n"):
            if line.lower().startswith(b"content-length:"):
                length = int(line.split(b":")[1])
        return int(raw.split(b" ", 2)[1]), await self._reader.readexactly(length)

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()


async def drive(
    port: int, count: int, concurrency: int, request: Callable[[int], tuple[str, bytes]],
    is_right: Callable[[int, bytes], bool],
) -> Figures:  # fmt: skip
    """Send `count` requests over `concurrency` connections; every answer is checked.

    Raises: AssertionError for the first wrong answer.
    """
    numbers = iter(range(count))
    latencies: list[float] = []

    async def one_connection() -> None:
        connection = Connection("127.0.0.1", port)
        for number in numbers:
            head, body = request(number)
            begun = time.perf_counter()
            status, answer = await connection.exchange(head, body)
            latencies.append(time.perf_counter() - begun)
            assert is_right(status, answer), (status, answer[:500])
        connection.close()

    begun = time.perf_counter()
    await asyncio.gather(*(one_connection() for _ in range(concurrency)))
    return figures(latencies, time.perf_counter() - begun)
