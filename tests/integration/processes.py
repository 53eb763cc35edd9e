"""Real processes of tests, and bounded waits on them.

Whoever kills a test run leaves none of them behind: the kernel ends each with the process that started it.
"""

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any, Never

from config.supervisor import dies_with_parent, stop_signals

ROOT = Path(__file__).resolve().parents[2]
PATIENCE_SECONDS = 20.0


def eventually(is_so: Callable[[], bool], what: str, seconds: float = PATIENCE_SECONDS) -> None:
    """Wait until a condition holds, at most `seconds`."""
    end = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < end, f"not within {seconds} s: {what}"
        time.sleep(0.01)


def is_alive(pid: int) -> bool:
    """Tell whether a process runs; a zombie that nobody has collected yet does not."""
    stat = Path(f"/proc/{pid}/stat")
    if Path("/proc").exists():
        try:
            return stat.read_text().rpartition(")")[2].split()[0] != "Z"
        except (FileNotFoundError, ProcessLookupError):
            return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def child_process(
    argv: Sequence[str], *, death_signal: signal.Signals = signal.SIGKILL, **options: Any
) -> "subprocess.Popen[Any]":
    """Start a process that gets `death_signal` when the thread that started it ends, however that ends.

    Who has children of its own, and no bond with them, is told by SIGTERM. Where the kernel cannot do it (macOS) a test
    run that is killed leaves its processes behind.
    """
    return subprocess.Popen(argv, preexec_fn=dies_with_parent(death_signal), **options)


def be_interrupted() -> None:
    """Have whatever tells this process to stop raise KeyboardInterrupt, once: a second one must not leave the rest.

    Also where a shell began it in the background, with SIGINT ignored.
    """
    for number in stop_signals():
        signal.signal(number, _interrupt)


def _interrupt(number: int, frame: FrameType | None) -> Never:
    for each in stop_signals():
        signal.signal(each, signal.SIG_IGN)
    raise KeyboardInterrupt


class Running:
    """A subprocess of a test whose lines of output can be waited for."""

    def __init__(self, process: subprocess.Popen[bytes], output: Path) -> None:
        self.process = process
        self._output = output

    def text(self) -> str:
        """Return the output so far."""
        return self._output.read_text()

    def wait_for(self, words: str) -> None:
        """Wait until the output holds these words."""
        eventually(lambda: words in self.text() or self.process.poll() is not None, f"{words!r} in {self.text()!r}")
        assert words in self.text(), self.text()

    def end(self, how: signal.Signals) -> int:
        """Send a signal and return the exit code."""
        self.process.send_signal(how)
        return self.process.wait(PATIENCE_SECONDS)


@contextmanager
def running(argv: list[str], folder: Path, environment: Mapping[str, str] | None = None) -> Iterator[Running]:
    """Run a program of this checkout; kill it at the end, should it still run."""
    output = folder / "output.txt"
    with output.open("wb") as file:
        process = child_process(
            argv, stdout=file, stderr=subprocess.STDOUT, cwd=ROOT, env={**os.environ, **(environment or {})}
        )
    try:
        yield Running(process, output)
    finally:
        process.kill()
        process.wait()
