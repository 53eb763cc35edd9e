"""Run as a script between the worker and a stdio server: the server's keeper, which outlives whatever it started.

`python -I -S launch.py PARENT_PID COMMAND [ARGUMENT ...]`. When the server ends, or the worker dies (SIGKILL
included), the keeper kills everything that descends from the server, in whatever session or group it hid, and reaps
it. The worker asks by signals: TERM is passed on, USR1 ends everything now. Imports the standard library only.
"""

import ctypes
import os
import resource
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
END_NOW = signal.SIGUSR1
CHECK_SECONDS = 1.0
KILLING_SECONDS = 3.0
IS_LINUX = sys.platform == "linux"
HEARD = {signal.SIGTERM, END_NOW, signal.SIGCHLD, signal.SIGALRM, signal.SIGINT, signal.SIGHUP}


def main(parent: int, argv: list[str]) -> int:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.pthread_sigmask(signal.SIG_BLOCK, HEARD)
    if IS_LINUX:
        _prctl(PR_SET_CHILD_SUBREAPER, 1)
        _prctl(PR_SET_PDEATHSIG, END_NOW)
    else:
        signal.setitimer(signal.ITIMER_REAL, CHECK_SECONDS, CHECK_SECONDS)
    if os.getppid() != parent:  # the worker died before the line above took hold
        return 1
    server = os.fork()
    if server == 0:
        _become(argv, keeper=os.getppid())
    with suppress(OSError):
        os.setpgid(server, server)
    _let_go_of_streams()
    return _keep(server, parent)


def _prctl(option: int, value: int) -> None:
    ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0)


def _become(argv: list[str], keeper: int) -> None:
    """Turn the fork into the server."""
    try:
        os.setpgid(0, 0)
        if IS_LINUX:
            _prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != keeper:
            os._exit(1)
        for number in (signal.SIGPIPE, signal.SIGXFSZ):  # the interpreter ignores both, and that is inherited
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, HEARD)
        os.execvp(argv[0], argv)  # noqa: S606 - becoming the server is the purpose
    except OSError as error:
        print(f"cannot start {argv[0]}: {error.strerror}", file=sys.stderr, flush=True)  # noqa: T201
    os._exit(127)


def _let_go_of_streams() -> None:
    """Leave the pipes to the server: its death must be seen as their end."""
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nothing, stream)


def _keep(server: int, parent: int) -> int:
    while True:
        heard = signal.sigwait(HEARD)
        if heard == signal.SIGTERM:
            _kill(-server, signal.SIGTERM)
        elif heard == END_NOW or (heard == signal.SIGALRM and os.getppid() != parent):
            _end_everything(server)
            return 1
        elif heard == signal.SIGCHLD and (code := _reap(server)) is not None:
            _end_everything(server)
            return code


def _reap(server: int) -> int | None:
    """Collect the dead; return the server's exit code once it is among them."""
    code = None
    with suppress(ChildProcessError):
        while True:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                break
            if pid == server:
                code = max(os.waitstatus_to_exitcode(status), 1) if status else 0
    return code


def _end_everything(server: int) -> None:
    """Kill until nothing descends from here: what lost its parent has become this process's child."""
    _kill(-server, signal.SIGKILL)
    until = time.monotonic() + KILLING_SECONDS
    while (found := _descendants()) and time.monotonic() < until:
        for pid in found:
            _kill(pid, signal.SIGKILL)
        _reap(server)
        time.sleep(0.005)


def _descendants() -> list[int]:
    if not IS_LINUX:
        return []
    parents: dict[int, int] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError, ValueError, IndexError):
            parents[int(stat.parent.name)] = int(stat.read_text().rpartition(")")[2].split()[1])
    found = [os.getpid()]
    for each in found:
        found += [pid for pid, parent in parents.items() if parent == each]
    return found[1:]


def _kill(pid: int, number: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), sys.argv[2:]))
