"""A test run that is killed leaves no process of its own behind."""

import signal
import sys
from pathlib import Path

import pytest

from tests.integration.processes import eventually, is_alive, running

pytestmark = pytest.mark.slow

# A test run: what it starts says who it is, and then does nothing.
RUN = """
import signal, sys
from tests.integration.processes import child_process
say = "import os, signal; print(os.getpid(), flush=True); signal.pause()"
child = child_process([sys.executable, "-c", say], start_new_session=True)
signal.pause()
"""


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM], ids=lambda how: how.name)
def test_whoever_kills_a_test_run_leaves_none_of_its_processes(tmp_path: Path, how: signal.Signals) -> None:
    with running([sys.executable, "-c", RUN], tmp_path) as run:
        eventually(lambda: run.text().endswith("\n"), "a process of the run")
        child = int(run.text())
        assert is_alive(child)
        run.end(how)
        eventually(lambda: not is_alive(child), "its end")
