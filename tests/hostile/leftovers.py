"""What many calls leave in a process: descriptors, threads, tasks and children, against what was there before."""

import asyncio
import gc
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

from tests.hostile.play import arm, play_one, pool
from tests.hostile.row import Row
from tests.hostile.server import Hostile

AT_ONCE: Final = 24
# So many of the calls go over HTTP before one goes over a pipe.
HTTP_CALLS: Final = 9
PATIENCE_SECONDS: Final = 30.0


def left_behind(rows: Sequence[Row], pipes: Sequence[Row], hostile: Hostile, *, calls: int) -> list[str]:
    """Make calls over the rows, each on a connection of its own, every tenth over a pipe; compare with before."""
    arm(rows, hostile)
    before: dict[str, int] = {}

    async def go() -> list[str]:
        # One thread for what blocks, so that their number is not a matter of luck.
        asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(1))
        connections, gate = pool(), asyncio.Semaphore(AT_ONCE)

        async def one(number: int) -> None:
            turn, place = divmod(number, HTTP_CALLS + 1)
            is_pipe = place == HTTP_CALLS
            row = pipes[turn % len(pipes)] if is_pipe else rows[(turn * HTTP_CALLS + place) % len(rows)]
            async with gate:
                await play_one(row, None if is_pipe else hostile, connections, session=f"s{number}")
                await connections.close_session(f"s{number}:{row.name}")

        await one(0)
        await one(HTTP_CALLS)
        before.update(await settled({}))
        await asyncio.gather(*map(one, range(calls)))
        after = await settled(before)
        await connections.close_all()
        return [
            f"{what}: {before[what]} before, {count} after" for what, count in after.items() if count > before[what]
        ]

    return asyncio.run(go())


async def settled(wanted: dict[str, int]) -> dict[str, int]:
    """Count again and again, for some seconds at most, until it is what was there before."""
    began = time.monotonic()
    while True:
        await asyncio.sleep(0.2)
        gc.collect()
        found = {**held(), "tasks": len(asyncio.all_tasks())}
        waited = time.monotonic() - began
        if not wanted and waited > 2.0:
            return found
        if waited > PATIENCE_SECONDS or (wanted and all(found[key] <= wanted[key] for key in wanted)):
            return found


def held() -> dict[str, int]:
    descriptors = len(list(Path("/proc/self/fd").iterdir()))
    return {"descriptors": descriptors, "threads": threading.active_count(), "children": len(children())}


def children() -> list[int]:
    """Every process of ours, zombies included."""
    found: list[int] = []
    for task in Path("/proc/self/task").iterdir():
        found += map(int, (task / "children").read_text().split())
    return found
