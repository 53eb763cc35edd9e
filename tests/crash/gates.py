"""The gate of the world: like `PausingProbe`, but it stops the first one only; whoever comes later passes.

So a request of a killed worker can be kept on its way until another worker has long done the same. Standard library
only: the relay starts without site packages.
"""

import time
from contextlib import suppress
from pathlib import Path

from toolsys.probes import MAXIMUM_SECONDS, POLL_SECONDS, leave_mark


class OneShotProbe:
    """Waits at `point` while `<folder>/<point>.taken` exists, having made it of `<folder>/<point>`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def reached(self, point: str, tenant: str) -> None:
        gate, taken = self._folder / point, self._folder / f"{point}.taken"
        with suppress(FileNotFoundError):
            if gate.read_text() != tenant:
                return
            gate.rename(taken)
            leave_mark(self._folder / f"{point}.pid")
            until = time.monotonic() + MAXIMUM_SECONDS
            while taken.exists() and time.monotonic() < until:
                time.sleep(POLL_SECONDS)
