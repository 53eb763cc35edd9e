"""Workers for tests: one in this process without a queue, and real ones as child processes."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from django.conf import settings

from tests.integration.processes import child_process
from toolsys.execution import LoopThread, WorkerExecution
from toolsys.leases import LeaseKeeper
from toolsys.ports import Runtime

ROOT = Path(__file__).resolve().parent.parent


class WorkerRuntime:
    """What `manage.py worker` composes, without the queue."""

    def __init__(self) -> None:
        from config import wiring

        self._loop = LoopThread()
        self._keeper = LeaseKeeper(wiring.SystemClock(), settings.TOOLSYS.lease_seconds)
        self._keeper.start()
        self._workbench = wiring.open_mcp(self._loop)
        self.execution = WorkerExecution(self._loop, self._keeper, wiring.SystemClock())
        self.runtime: Runtime = wiring.compose_worker(self.execution, self._workbench).runtime

    def close(self) -> None:
        self._workbench.close()
        self._keeper.stop()
        self._loop.stop()


@contextmanager
def process(command: str, **environment: str) -> Iterator["subprocess.Popen[bytes]"]:
    """Run `manage.py <command>` as a real process against this test process's database and queue."""
    child = child_process(
        [sys.executable, "manage.py", command], cwd=ROOT, env={**os.environ, **environment}, start_new_session=True
    )
    try:
        yield child
    finally:
        if child.poll() is None:
            child.terminate()
        try:
            child.wait(15)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait(5)
