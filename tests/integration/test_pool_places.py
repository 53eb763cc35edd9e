"""A worker's threads never wait for a connection that nobody uses: there are enough, and idle threads hold none."""

import asyncio
import threading
from collections.abc import Callable

import pytest
from django.core.exceptions import SynchronousOnlyOperation
from django.db import connections

from config.databases import BESIDE_JOBS, POOL_MAXIMUM, pool_maximum
from tests.spec.requirements import gate
from toolsys import database
from toolsys.execution import LOOP_THREADS, LoopThread

# The lease keeper; what keeps the MCP connections.
KEEPERS = 1 + 3


def asked() -> int:
    found: int = database.call("SELECT 1", ())[0][0]
    return found


@gate("pool.places")
@pytest.mark.parametrize("threads", [1, 8, 17, 256])
def test_the_pool_has_a_place_for_every_thread_of_a_worker(threads: int) -> None:
    assert LOOP_THREADS + KEEPERS <= BESIDE_JOBS
    assert pool_maximum(threads) >= max(POOL_MAXIMUM, threads + BESIDE_JOBS)


@gate("pool.places")
def test_what_asks_in_a_thread_of_the_loop_keeps_no_connection(database: None) -> None:
    loop, all_of_them = LoopThread(), threading.Barrier(LOOP_THREADS)

    def ask() -> int:
        all_of_them.wait(30.0)
        return asked()

    def holds() -> bool:
        all_of_them.wait(30.0)
        return connections["default"].connection is not None

    async def each[T](work: Callable[[], T]) -> list[T]:
        return await asyncio.gather(*(asyncio.to_thread(work) for _ in range(LOOP_THREADS)))

    try:
        assert loop.run(each(ask), 60.0) == [1] * LOOP_THREADS
        assert loop.run(each(holds), 60.0) == [False] * LOOP_THREADS
    finally:
        loop.stop()


@gate("pool.places")
def test_on_the_loop_itself_nobody_asks_the_database(database: None) -> None:
    loop = LoopThread()

    async def work() -> int:
        return asked()

    try:
        with pytest.raises(SynchronousOnlyOperation):
            loop.run(work(), 30.0)
    finally:
        loop.stop()
