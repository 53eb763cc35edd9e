"""Runs a list of programs as children of this process, restarts the dead, and stops all of them in order.

Generic: it knows nothing of Django, PostgreSQL or this product, so tests run it with tiny stub programs. Children are
leaders of their own process groups and are told by the kernel when this process dies; `config/guardian.py` clears
what that cannot reach. Everything here belongs to the main thread: the kernel ties the death signal to the thread that
forked, and only the main thread may set signal handlers. Imported by `config.embedded` and `config.up`.
"""

import ctypes
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import IO

PR_SET_PDEATHSIG = 1
LOG_MAXIMUM_BYTES = 5 * 1024 * 1024
DEATHS_ALLOWED = 2
DEATHS_WINDOW_SECONDS = 60.0
TICK_SECONDS = 0.25
# How long the guardian waits between asking and killing, when this process has vanished.
GUARDIAN_STOP_SECONDS = 8.0
POLL_SECONDS = 0.02
WAIT_LINE_SECONDS = 20.0

_libc = ctypes.CDLL(None, use_errno=True)


class StartError(Exception):
    """Something a person has to fix before the start can succeed; the message is one line that names the fix."""


@dataclass(frozen=True, slots=True)
class Account:
    """The unprivileged account that a child runs under when this process is root."""

    user_id: int
    group_id: int


@dataclass(frozen=True, slots=True)
class Program:
    """What to run: plain data. `environment` is the child's whole environment."""

    name: str
    argv: tuple[str, ...]
    environment: Mapping[str, str]
    folder: Path = Path("/")
    account: Account | None = None
    stop_signal: signal.Signals = signal.SIGTERM
    stop_seconds: float = 10.0
    is_ready: Callable[[], bool] = field(default=lambda: True)


def dies_with_parent(death_signal: signal.Signals, parent: int | None = None) -> Callable[[], None] | None:
    """Return the function that a forked child calls so that the kernel signals it when the forking thread ends.

    `parent` is this process unless told. None where the kernel cannot do it (macOS): there the guardian clears up.
    """
    if sys.platform != "linux":
        return None
    parent = os.getpid() if parent is None else parent

    def arrange() -> None:
        _libc.prctl(PR_SET_PDEATHSIG, int(death_signal))
        # The parent may have died between fork and prctl; then no signal would ever come.
        if os.getppid() != parent:
            os._exit(1)

    return arrange


def as_account(account: Account | None) -> dict[str, object]:
    """Return the arguments of `subprocess` that drop to `account`, supplementary groups included."""
    if account is None:
        return {}
    return {"user": account.user_id, "group": account.group_id, "extra_groups": []}


class Child:
    """One program and its present process, if any. Output goes to `<log folder>/<name>.log`, which is bounded."""

    def __init__(self, program: Program, log_folder: Path) -> None:
        self.program = program
        self.log_path = log_folder / f"{program.name}.log"
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def name(self) -> str:
        """The program's name."""
        return self.program.name

    @property
    def pid(self) -> int:
        """The present process's id, which is its process group as well; 0 before the first start."""
        return 0 if self.process is None else self.process.pid

    def start(self) -> None:
        """Start the process. Raises: StartError where the program cannot be executed."""
        self.bound_log()
        program = self.program
        self.log_path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with self.log_path.open("ab") as log:
            self.process = _spawn(program, log)

    def exit_code(self) -> int | None:
        """Return the exit code (negative: the signal) or None while it runs or was never started."""
        return None if self.process is None else self.process.poll()

    def is_running(self) -> bool:
        """Tell whether there is a live process."""
        return self.process is not None and self.process.poll() is None

    def wait_until_ready(self, seconds: float) -> None:
        """Wait until the program answers. Raises: StartError when it ends or stays silent."""
        end = time.monotonic() + seconds
        while not self.program.is_ready():
            if (code := self.exit_code()) is not None:
                raise StartError(f"{self.name} did not start ({describe_exit(code)}); its log: {self.log_path}")
            if time.monotonic() > end:
                raise StartError(f"{self.name} did not answer within {seconds:.0f} s; its log: {self.log_path}")
            time.sleep(POLL_SECONDS)

    def ask_to_stop(self) -> None:
        """Send the program's own stop signal to its leader."""
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(self.program.stop_signal)

    def stop(self, is_hurried: Callable[[], bool] = lambda: False) -> None:
        """Stop gracefully within the program's bound, then kill the whole group."""
        if self.process is None:
            return
        self.ask_to_stop()
        end = time.monotonic() + self.program.stop_seconds
        while self.process.poll() is None and time.monotonic() < end and not is_hurried():
            time.sleep(POLL_SECONDS)
        self.clear_group()
        self.process.wait()
        self.process = None

    def clear_group(self) -> None:
        """Kill whatever is left of the process group: a dead leader may leave children behind."""
        if self.process is not None:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self.process.pid, signal.SIGKILL)

    def bound_log(self) -> None:
        """Move a log that has grown too long aside, keeping one older part; writers append, so none is disturbed."""
        with suppress(FileNotFoundError):
            if self.log_path.stat().st_size > LOG_MAXIMUM_BYTES:
                shutil.copyfile(self.log_path, self.log_path.with_suffix(".log.1"))
                os.truncate(self.log_path, 0)


def _spawn(program: Program, log: IO[bytes]) -> subprocess.Popen[bytes]:
    try:
        return subprocess.Popen(  # type: ignore[call-overload,no-any-return]
            program.argv,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            env=dict(program.environment),
            cwd=program.folder,
            start_new_session=True,
            # Only processes without other threads call this: the hook is safe.
            preexec_fn=dies_with_parent(program.stop_signal),
            **as_account(program.account),
        )
    except OSError as error:
        raise StartError(f"{program.name} cannot be started: {program.argv[0]}: {error.strerror}") from error


def stop_signals() -> tuple[signal.Signals, ...]:
    """Return the signals that mean stop; a hang-up that was set to be ignored (`nohup`) stays ignored."""
    if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        return (signal.SIGINT, signal.SIGTERM)
    return (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def describe_exit(code: int) -> str:
    """Say how a process ended, for one line of output."""
    return f"signal {-code}" if code < 0 else f"exit {code}"


class Guardian:
    """The handle on `config/guardian.py`: tells it which process groups to end should this process vanish."""

    def __init__(self, stop_seconds: float) -> None:
        script = Path(__file__).with_name("guardian.py")
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", str(script), str(stop_seconds)],
            stdin=subprocess.PIPE,
            start_new_session=True,
            cwd="/",
        )

    def watch(self, group: int) -> None:
        """End this process group if the supervisor dies."""
        self._tell(f"+{group}\n")

    def forget(self, group: int) -> None:
        """Leave this group alone: it has ended, and somebody else may get its number."""
        self._tell(f"-{group}\n")

    def close(self) -> None:
        """Let the guardian go: nothing is left to watch."""
        if self._process.stdin is not None:
            with suppress(BrokenPipeError):
                self._process.stdin.close()
        self._process.wait()

    def _tell(self, line: str) -> None:
        if self._process.stdin is not None:
            # Without a guardian the kernel's death signal still covers the direct children.
            with suppress(BrokenPipeError):
                self._process.stdin.write(line.encode())
                self._process.stdin.flush()


class Wait:
    """One wait for programs to answer, with its deadline and with a line for whoever watches now and then."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._began = time.monotonic()
        self._next_line = WAIT_LINE_SECONDS

    def passed(self) -> float:
        """Return the seconds since it began."""
        return time.monotonic() - self._began

    def is_over(self) -> bool:
        """Tell whether the deadline has passed."""
        return self.passed() > self.seconds

    def is_worth_a_line(self) -> bool:
        """Tell whether something should be said; True once per WAIT_LINE_SECONDS."""
        if self.passed() < self._next_line:
            return False
        self._next_line += WAIT_LINE_SECONDS
        return True


class Supervisor:
    """Keeps the given children running until told to stop; stops them in the reverse of the given order.

    Children that already run when they are handed over are kept. `say` receives one line per event. A child that dies
    is restarted; the third death within 60 s ends everything. `remedy` is what a person may do where a program runs and
    does not answer in time.
    """

    def __init__(
        self,
        children: Sequence[Child],
        say: Callable[[str], None],
        *,
        guardian_seconds: float = GUARDIAN_STOP_SECONDS,
        remedy: str = "",
    ) -> None:
        self._children = list(children)
        self._say = say
        self._remedy = remedy
        self._guardian_seconds = guardian_seconds
        self._deaths: dict[str, deque[float]] = {child.name: deque() for child in children}
        self._restart_at: dict[str, float] = {}
        self._stop_requests = 0
        self._is_failed = False

    def run(self, announce: Callable[[], None], ready_seconds: float = 60.0) -> int:
        """Start, supervise and stop; return the exit code: 0 when asked to stop, 1 when giving up.

        `announce` is called once, when every program answers. Must be called in the main thread.
        """
        bell, previous = self._listen()
        guardian = Guardian(self._guardian_seconds)
        try:
            self._supervise(bell, guardian, announce, Wait(ready_seconds))
        except StartError as error:
            self._give_up(str(error))
        finally:
            self._stop_all(guardian)
            guardian.close()
            self._restore(bell, previous)
        return 1 if self._is_failed else 0

    def _supervise(self, bell: socket.socket, guardian: Guardian, announce: Callable[[], None], wait: "Wait") -> None:
        for child in self._children:
            if not child.is_running():
                child.start()
            guardian.watch(child.pid)
        waiting = list(self._children)
        while not self._stop_requests and not self._is_failed:
            self._tend(guardian)
            if waiting and not self._is_failed:
                waiting = [child for child in waiting if not (child.is_running() and child.program.is_ready())]
                if not waiting:
                    announce()
                else:
                    self._wait_for(waiting, wait)
            _sleep(bell)

    def _wait_for(self, waiting: Sequence[Child], wait: "Wait") -> None:
        """Say now and then who is waited for, and give up at the deadline: a dead program is another matter."""
        if wait.is_over():
            late = waiting[0]
            said = f"{late.name} runs and has not answered within {wait.seconds:.0f} s; its log: {late.log_path}"
            self._give_up(said + (self._remedy and f"; {self._remedy}"))
        elif wait.is_worth_a_line():
            names = ", ".join(child.name for child in waiting)
            self._say(f"waiting for {names} ({wait.passed():.0f} s); logs: {waiting[0].log_path.parent}")

    def _tend(self, guardian: Guardian) -> None:
        for child in self._children:
            child.bound_log()
            if child.name in self._restart_at:
                self._restart_when_due(child, guardian)
            elif (code := child.exit_code()) is not None:
                self._bury(child, code, guardian)
                if not self._is_failed:
                    self._restart_when_due(child, guardian)

    def _bury(self, child: Child, code: int, guardian: Guardian) -> None:
        child.clear_group()
        guardian.forget(child.pid)
        now = time.monotonic()
        deaths = self._deaths[child.name]
        deaths.append(now)
        while deaths[0] < now - DEATHS_WINDOW_SECONDS:
            deaths.popleft()
        how = describe_exit(code)
        if len(deaths) > DEATHS_ALLOWED:
            self._give_up(f"{child.name} died {len(deaths)} times within a minute (last: {how}); log: {child.log_path}")
            return
        self._say(f"{child.name} died ({how}), restarted; log: {child.log_path}")
        # The first restart is immediate; the second leaves time for whatever ended the first.
        self._restart_at[child.name] = now + (len(deaths) - 1)

    def _restart_when_due(self, child: Child, guardian: Guardian) -> None:
        if time.monotonic() >= self._restart_at[child.name]:
            del self._restart_at[child.name]
            child.start()
            guardian.watch(child.pid)

    def _give_up(self, why: str) -> None:
        self._is_failed = True
        self._say(f"stopping: {why}")

    def _stop_all(self, guardian: Guardian) -> None:
        asked = self._stop_requests
        for child in reversed(self._children):
            group = child.pid
            child.stop(lambda: self._stop_requests > asked)
            guardian.forget(group)

    def _listen(self) -> tuple[socket.socket, dict[signal.Signals, object]]:
        bell, ringer = socket.socketpair()
        bell.setblocking(False)  # noqa: FBT003 - positional only
        ringer.setblocking(False)  # noqa: FBT003
        self._ringer = ringer
        self._previous_fd = signal.set_wakeup_fd(ringer.fileno(), warn_on_full_buffer=False)
        previous: dict[signal.Signals, object] = {}
        for number in stop_signals():
            previous[number] = signal.signal(number, self._request_stop)
        # A handler, if an empty one, is what makes SIGCHLD ring the bell.
        previous[signal.SIGCHLD] = signal.signal(signal.SIGCHLD, lambda _number, _frame: None)
        return bell, previous

    def _request_stop(self, _number: int, _frame: FrameType | None) -> None:
        self._stop_requests += 1

    def _restore(self, bell: socket.socket, previous: Mapping[signal.Signals, object]) -> None:
        for number, handler in previous.items():
            signal.signal(number, handler)  # type: ignore[arg-type]
        signal.set_wakeup_fd(self._previous_fd)
        self._ringer.close()
        bell.close()


def _sleep(bell: socket.socket) -> None:
    """Sleep until a signal arrives or the next tick is due."""
    if select.select([bell], [], [], TICK_SECONDS)[0]:
        with suppress(BlockingIOError):
            bell.recv(4096)
