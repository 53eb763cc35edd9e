"""The supervisor over tiny stub programs, and the faults that `manage.py up` reports before it starts anything."""

import json
import os
import re
import signal
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from config import supervisor
from config.supervisor import Child, Program
from tests.integration.processes import ROOT, Running, eventually, is_alive, running

pytestmark = pytest.mark.slow

RUN = """
import json, os, sys
from pathlib import Path
from config.supervisor import Child, Program, Supervisor
folder = Path(sys.argv[1])
programs = [
    Program(name, (sys.executable, "-c", code, str(folder), name), dict(os.environ), stop_seconds=0.5)
    for name, code in json.loads(sys.argv[2])
]
children = [Child(program, folder / "log") for program in programs]
say = lambda line: print(line, flush=True)
sys.exit(Supervisor(children, say, guardian_seconds=0.5).run(lambda: say("ready")))
"""

# Each writes its process id when it is set up, and its name to `stopped` when it is asked to stop.
STUB = """
import os, signal, subprocess, sys
folder, name = sys.argv[1:]
def stop(*_):
    with open(f"{folder}/stopped", "a") as file: file.write(name + " ")
    sys.exit(0)
signal.signal(signal.SIGTERM, stop)
def tell(what, pid):
    with open(f"{folder}/{what}.part", "w") as file: file.write(str(pid))
    os.rename(f"{folder}/{what}.part", f"{folder}/{what}.pid")
"""
OBEDIENT = STUB + "tell(name, os.getpid())\nwhile True: signal.pause()\n"
STUBBORN = STUB + "signal.signal(signal.SIGTERM, signal.SIG_IGN)\ntell(name, os.getpid())\nwhile True: signal.pause()\n"
PARENT = STUB + (
    "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
    "tell('grandchild', subprocess.Popen(['sleep', '1000']).pid)\n"
    "tell(name, os.getpid())\n"
    "while True: signal.pause()\n"
)
MORTAL = STUB + "tell(name, os.getpid())\nsys.exit(3)\n"


@contextmanager
def supervising(folder: Path, *programs: tuple[str, str]) -> Iterator[Running]:
    """Run a supervisor over the stubs."""
    with running([sys.executable, "-c", RUN, str(folder), json.dumps(programs)], folder) as process:
        yield process


def pid_of(folder: Path, name: str, besides: int = 0) -> int:
    """Return the process id that a stub has written, once it differs from an earlier one."""
    path = folder / f"{name}.pid"
    eventually(lambda: path.exists() and int(path.read_text()) != besides, f"{name} has started")
    return int(path.read_text())


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
def test_a_stop_ends_all_in_reverse_order_with_exit_code_0(tmp_path: Path, how: signal.Signals) -> None:
    with supervising(tmp_path, ("first", OBEDIENT), ("second", OBEDIENT), ("third", OBEDIENT)) as process:
        pids = [pid_of(tmp_path, name) for name in ("first", "second", "third")]
        assert process.end(how) == 0
        assert (tmp_path / "stopped").read_text() == "third second first "
        assert not any(is_alive(pid) for pid in pids)


def test_a_stop_kills_who_does_not_listen_and_their_children(tmp_path: Path) -> None:
    with supervising(tmp_path, ("stubborn", STUBBORN), ("parent", PARENT)) as process:
        pids = [pid_of(tmp_path, name) for name in ("stubborn", "parent", "grandchild")]
        assert process.end(signal.SIGTERM) == 0
        for pid in pids:
            eventually(lambda pid=pid: not is_alive(pid), "everything has ended")  # type: ignore[misc]


def test_a_killed_supervisor_leaves_nothing_behind(tmp_path: Path) -> None:
    with supervising(tmp_path, ("obedient", OBEDIENT), ("stubborn", STUBBORN), ("parent", PARENT)) as process:
        pids = [pid_of(tmp_path, name) for name in ("obedient", "stubborn", "parent", "grandchild")]
        process.end(signal.SIGKILL)
        for pid in pids:
            eventually(lambda pid=pid: not is_alive(pid), "everything has ended")  # type: ignore[misc]


def test_a_dead_child_is_restarted_with_one_line_and_its_children_are_cleared(tmp_path: Path) -> None:
    with supervising(tmp_path, ("parent", PARENT), ("other", OBEDIENT)) as process:
        process.wait_for("ready")
        grandchild, dead, other = (pid_of(tmp_path, name) for name in ("grandchild", "parent", "other"))
        os.kill(dead, signal.SIGKILL)
        assert is_alive(pid_of(tmp_path, "parent", besides=dead))
        assert process.text() == f"ready\nparent died (signal 9), restarted; log: {tmp_path}/log/parent.log\n"
        eventually(lambda: not is_alive(grandchild), "the dead one's child has ended")
        assert pid_of(tmp_path, "other") == other


def test_three_deaths_within_a_minute_stop_everything_with_one_line(tmp_path: Path) -> None:
    with supervising(tmp_path, ("other", OBEDIENT), ("mortal", MORTAL)) as process:
        assert process.process.wait(20) == 1
        last = f"stopping: mortal died 3 times within a minute (last: exit 3); log: {tmp_path}/log/mortal.log"
        assert process.text().splitlines()[-1] == last
        assert process.text().count("restarted") == 2
        assert not is_alive(pid_of(tmp_path, "other"))


def test_a_program_that_stays_silent_is_waited_for_aloud_and_then_named_with_the_fix(tmp_path: Path) -> None:
    code = """
import sys
from pathlib import Path
from config import supervisor
from config.supervisor import Child, Program, Supervisor
supervisor.WAIT_LINE_SECONDS = 0.5
silent = Program("excel", ("sleep", "1000"), {}, stop_seconds=0.5, is_ready=lambda: False)
say = lambda line: print(line, flush=True)
children = [Child(silent, Path(sys.argv[1]) / "log")]
sys.exit(Supervisor(children, say, guardian_seconds=0.5, remedy="MORE=2 make up").run(lambda: say("ready"), 1.2))
"""
    with running([sys.executable, "-c", code, str(tmp_path)], tmp_path) as process:
        assert process.process.wait(20) == 1
        *waits, last = process.text().splitlines()
    assert waits
    assert all(re.fullmatch(rf"waiting for excel \(\d s\); logs: {tmp_path}/log", each) for each in waits), waits
    log = f"{tmp_path}/log/excel.log"
    assert last == f"stopping: excel runs and has not answered within 1 s; its log: {log}; MORE=2 make up"


def test_a_program_that_cannot_be_executed_is_named(tmp_path: Path) -> None:
    child = Child(Program("web", (str(tmp_path / "missing"),), {}), tmp_path / "log")
    with pytest.raises(supervisor.StartError, match=r"web cannot be started: .*missing: No such file"):
        child.start()


def test_a_log_is_bounded_and_its_writer_undisturbed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervisor, "LOG_MAXIMUM_BYTES", 10)
    child = Child(
        Program("web", ("sh", "-c", "echo a long first line; read _ < go; echo second"), {}, tmp_path), tmp_path
    )
    os.mkfifo(tmp_path / "go")
    child.start()
    try:
        eventually(lambda: "first" in child.log_path.read_text(), "the first line")
        child.bound_log()
        (tmp_path / "go").write_text("\n")
        eventually(lambda: child.exit_code() is not None, "the end")
        assert child.log_path.read_text() == "second\n"
        assert child.log_path.with_suffix(".log.1").read_text() == "a long first line\n"
    finally:
        child.stop()


def up(folder: Path, **environment: str) -> tuple[int, str]:
    """Run `manage.py up` where it must fail at once; return its exit code and output."""
    cleared = {"DATABASE_URL": "", "REDIS_URL": ""}
    environment = {**cleared, "TOOLSYS_DATA_DIR": str(folder / "data"), **environment}
    with running([sys.executable, str(ROOT / "manage.py"), "up"], folder, environment) as process:
        return process.process.wait(20), process.text()


def test_a_port_in_use_is_one_line_that_names_the_fix(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        code, output = up(tmp_path, PORT=str(port))
    assert code == 1
    assert output.startswith(f"up: Port {port} is in use: choose another, for example PORT=")
    assert output.endswith(" make up\n")
    assert output.count("\n") == 1
    assert sorted(path.name for path in (tmp_path / "data").iterdir()) == ["lock"]


def test_a_nonsensical_port_is_one_line_that_names_the_fix(tmp_path: Path) -> None:
    assert up(tmp_path, PORT="http") == (
        1,
        "up: PORT must be a number from 1 to 65535, not 'http': PORT=8001 make up\n",
    )


@pytest.mark.parametrize("seconds", ["soon", "0", "3601"])
def test_a_nonsensical_wait_is_one_line_that_names_the_bounds(tmp_path: Path, seconds: str) -> None:
    line = f"up: TOOLSYS_READY_SECONDS must be a number from 1 to 3600, not {seconds!r}\n"
    assert up(tmp_path, TOOLSYS_READY_SECONDS=seconds) == (1, line)


def test_an_unwritable_data_folder_is_one_line_that_names_the_fix(tmp_path: Path) -> None:
    # A file in the way stops root as well, whom no permission does.
    (tmp_path / "file").write_text("")
    code, output = up(tmp_path, PORT="0" * 4 + "1", TOOLSYS_DATA_DIR=str(tmp_path / "file" / "data"))
    assert code == 1
    assert output.startswith(f"up: Cannot write to the data folder {tmp_path}/file/data (Not a directory): ")
    assert output.endswith("TOOLSYS_DATA_DIR=/a/folder/of/yours make up\n")
    assert output.count("\n") == 1
