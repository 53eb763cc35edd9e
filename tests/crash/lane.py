"""One lane: a database, a queue and a worker of its own, and the gates at which its processes are stopped and killed.

Waiting is always for a fact (a mark file, an answer file, a row), never for a time, and always bounded.
"""

import json
import os
import shutil
import signal
import threading
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol

import psycopg
from psycopg.rows import dict_row

from tests.crash.expected import Kill
from tests.crash.points import CrashPoint, Match, Role
from tests.integration.processes import is_alive

PATIENCE_SECONDS: Final = 30.0
POLL_SECONDS: Final = 0.01
TENANTS_AT_ONCE: Final = 8


class Timed(Protocol):
    @property
    def lease_seconds(self) -> float: ...

    @property
    def sweep_seconds(self) -> float: ...


@dataclass(frozen=True, slots=True)
class Finished:
    """What a cell that passed has left: requests in the world, rows in its tenant. Neither may grow."""

    sends: int
    calls: int


class Stuck(Exception):
    """What had to happen did not, within its bound."""


class Stopped(Exception):
    """Whoever plays was told to stop: nobody waits any more, and what is in hand counts for nothing."""


class Lane:
    def __init__(
        self, name: str, folder: Path, fork: Callable[[dict[str, Any]], int],
        effects: Callable[[str], list[dict[str, Any]]], port: int, timing: Timed, *, redis: str,
        address: str, files: Path,
    ) -> None:  # fmt: skip
        self.name = name
        self.effects = effects
        self.timing = timing
        self.files = files
        self.gates = folder / "gates"
        self._answers = folder / "answers"
        self._fork = fork
        self._log = folder / "processes.log"
        self._common = {"database": name, "redis": redis, "port": port, "gates": str(self.gates)}
        self._living: dict[Role, int] = {}
        self._tenants: list[dict[str, str]] = []
        self._read = 0
        self.finished: dict[str, Finished] = {}
        self._stopping = threading.Event()
        shutil.rmtree(folder, ignore_errors=True)
        self._answers.mkdir(parents=True)
        for role in Role:
            (self.gates / role).mkdir(parents=True)
        self._sql = psycopg.connect(address, autocommit=True, row_factory=dict_row)

    # -- processes

    def ensure(self, role: Role) -> None:
        """Have a living worker, or scheduler, before a cell begins."""
        if role not in self._living or not is_alive(self._living[role]):
            self.start("work" if role is Role.WORKER else "schedule", role)

    def start(self, part: str, role: Role, **order: Any) -> Path:
        """Begin a process; return where its answer will be."""
        answer = self._answers / f"{uuid.uuid4().hex}.json"
        self._living[role] = self._fork(
            self._common | {"part": part, "role": role, "log": str(self._log), "answer": str(answer)} | order
        )
        return answer

    def ask(self, part: str, role: Role, **order: Any) -> Any:
        """Begin a process and wait for its answer."""
        return self.answer(self.start(part, role, **order), part)

    def answer(self, path: Path, what: str) -> Any:
        self.until(path.exists, f"an answer to {what}")
        return json.loads(path.read_text())

    def kill(self, role: Role, how: Kill) -> float:
        """SIGKILL, and wait until it is dead. Return the moment, in Unix seconds."""
        victim = self._living.pop(role)
        moment = time.time()
        if how is Kill.GROUP:
            os.killpg(victim, signal.SIGKILL)
        else:
            os.kill(victim, signal.SIGKILL)
        self.until(lambda: not is_alive(victim), f"the death of {role}")
        return moment

    def terminate(self, role: Role) -> None:
        """Ask it to stop, as a deployment does, and do not wait for it."""
        os.kill(self._living[role], signal.SIGTERM)

    def tenant(self) -> dict[str, str]:
        """Return a tenant that no cell has used."""
        if not self._tenants:
            self._tenants = self.ask("found", Role.CLIENT, count=TENANTS_AT_ONCE)
        return self._tenants.pop()

    # -- gates

    def close_gate(self, point: CrashPoint, *, tool: str, tenant: str) -> None:
        """Make whoever reaches this moment wait there."""
        self._mark(point).unlink(missing_ok=True)
        content = {Match.TOOL: tool, Match.TENANT: tenant, Match.ANY: ""}[point.match]
        gate = self.gates / point.role / point.moment
        part = gate.with_suffix(".part")
        part.write_text(content)
        part.replace(gate)

    def open_gate(self, point: CrashPoint) -> None:
        for name in (point.moment, f"{point.moment}.taken"):
            (self.gates / point.role / name).unlink(missing_ok=True)

    def is_reached(self, point: CrashPoint) -> bool:
        return self._mark(point).exists()

    def clear(self) -> None:
        """Take away what an earlier cell has left."""
        for path in self.gates.glob("*/*"):
            path.unlink(missing_ok=True)

    def forget_files(self, tenant: str) -> None:
        """Delete what a tenant stored: every collector of every lane walks all folders, and they slow later cells."""
        shutil.rmtree(self.files / tenant, ignore_errors=True)

    def _mark(self, point: CrashPoint) -> Path:
        return self.gates / point.role / f"{point.moment}.pid"

    # -- facts

    def complaints(self) -> list[str]:
        """Return what the lane's processes have logged as errors since the last time; they name no cell."""
        text = self._log.read_text() if self._log.exists() else ""
        new, self._read = text[self._read :], len(text)
        return [line[:400] for line in new.splitlines() if '"error"' in line or "Traceback" in line]

    def rows(self, statement: str, *parameters: Any) -> list[dict[str, Any]]:
        return self._sql.execute(statement.encode(), parameters).fetchall()

    def execute(self, statement: str, *parameters: Any) -> None:
        self._sql.execute(statement.encode(), parameters or None)

    def until(self, holds: Callable[[], Any], what: str, seconds: float = PATIENCE_SECONDS) -> None:
        """Raises: Stuck; Stopped."""
        end = time.monotonic() + seconds
        while not holds():
            if self._stopping.is_set():
                raise Stopped
            if time.monotonic() > end:
                raise Stuck(f"not within {seconds:.0f} s: {what}; see {self._log}")
            time.sleep(POLL_SECONDS)

    def stop(self) -> None:
        """End whatever waits here, from another thread."""
        self._stopping.set()

    def close_processes(self) -> None:
        for role in list(self._living):
            if is_alive(self._living[role]):
                self.kill(role, Kill.GROUP)

    def close(self) -> None:
        self._stopping.clear()
        self.close_processes()
        self._sql.close()
