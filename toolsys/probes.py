"""Crash probes: what the store tells of its commit points. Injected by `config.wiring`, never a global switch.

The pausing probe is for demonstrations and crash tests: a worker that reaches a named point waits there while a file
of that name exists in a folder, long enough to be killed at exactly that line.
"""

import os
import threading
import time
from contextlib import suppress
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
        try:
            named = gate.read_text().strip()
        except FileNotFoundError:
            return
        if named not in {"", tool_name}:
            return
        leave_mark(self._folder / f"{point}.pid")
        until = time.monotonic() + MAXIMUM_SECONDS
        while gate.exists() and time.monotonic() < until:
            time.sleep(POLL_SECONDS)


def leave_mark(path: Path) -> None:
    """Write this process's id to `path`: whoever sees the file can read it whole.

    Two threads may stand at one point, and whoever set the gate may clear the folder meanwhile: neither is an error.
    """
    part = path.with_name(f"{path.name}.{os.getpid()}.{threading.get_ident()}")
    part.write_text(str(os.getpid()))
    with suppress(FileNotFoundError):
        part.replace(path)
