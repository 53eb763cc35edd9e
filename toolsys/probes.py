"""Crash probes: what the store tells of its commit points. Injected by `config.wiring`, never a global switch.

The pausing probe is for demonstrations and crash tests: a worker that reaches a named point waits there while a file
of that name exists in a folder, long enough to be killed at exactly that line.
"""

import os
import time
from pathlib import Path
from typing import Final

POLL_SECONDS: Final = 0.02
MAXIMUM_SECONDS: Final = 60.0


class NoProbe:
    def reached(self, point: str, tool_name: str) -> None:
        """Nothing happens in production."""


class PausingProbe:
    """Pauses at `point` while `<folder>/<point>` exists; writes its process id to `<folder>/<point>.pid`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def reached(self, point: str, tool_name: str) -> None:
        gate = self._folder / point
        if not gate.exists() or gate.read_text().strip() not in {"", tool_name}:
            return
        (self._folder / f"{point}.pid").write_text(str(os.getpid()))
        until = time.monotonic() + MAXIMUM_SECONDS
        while gate.exists() and time.monotonic() < until:
            time.sleep(POLL_SECONDS)
