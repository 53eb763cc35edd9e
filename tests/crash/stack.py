"""What a crash matrix runs on: the effect server, the process that forks actors, and lanes side by side.

A lane has a database and a queue of its own in shared servers, so that each has its own sweeper and worker, and nobody
takes another lane's work. The servers are `make crash`'s own (durable) or those of the test session.
"""

import hashlib
import json
import os
import subprocess
import sys
import threading
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qsl, urlsplit

import psycopg
from psycopg import sql
from psycopg.conninfo import make_conninfo

from tests.crash.lane import Lane
from tests.integration.processes import child_process

ROOT: Final = Path(__file__).resolve().parent.parent.parent


class Nursery:
    """The handle on `tests.crash.actors`: one order, one process."""

    def __init__(self, environment: dict[str, str], log: Path) -> None:
        with log.open("ab") as errors:
            # In a session of its own: a Ctrl-C is told to whoever plays the matrix, who ends everybody.
            self._process = child_process(
                [sys.executable, "-m", "tests.crash.actors"], start_new_session=True,
                cwd=ROOT, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True,
            )  # fmt: skip
        self._lock = threading.Lock()
        self._log = log
        self._read()

    def fork(self, order: dict[str, Any]) -> int:
        """Return the process id of whoever now does what was ordered."""
        with self._lock:
            assert self._process.stdin is not None
            self._process.stdin.write(json.dumps(order) + "\n")
            self._process.stdin.flush()
            return int(self._read()["pid"])

    def close(self) -> None:
        """End it: the kernel ends its children with it."""
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()

    def _read(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, f"the nursery ended; its log: {self._log}"
        found: dict[str, Any] = json.loads(line)
        return found


class EffectLog:
    """Reads what the effect server wrote, by call."""

    def __init__(self, path: Path) -> None:
        self._file = path.open(encoding="utf-8")
        self._lines: dict[str, list[dict[str, Any]]] = defaultdict(list)
        self._lock = threading.Lock()
        self._rest = ""

    def of(self, call: str) -> list[dict[str, Any]]:
        with self._lock:
            *whole, self._rest = (self._rest + self._file.read()).split("\n")
            for line in whole:
                found = json.loads(line)
                self._lines[found["call"]].append(found)
            return list(self._lines[call])

    def close(self) -> None:
        self._file.close()


@dataclass(frozen=True, slots=True)
class Timing:
    """Seconds; the recovery of every cell is bounded by these."""

    lease_seconds: float
    sweep_seconds: float

    def environment(self) -> dict[str, str]:
        return {
            "TOOLSYS_LEASE_SECONDS": str(self.lease_seconds), "TOOLSYS_SWEEP_SECONDS": str(self.sweep_seconds),
            "TOOLSYS_ORPHAN_SWEEP_SECONDS": "2",
            "TOOLSYS_WORKER_THREADS": "2", "TOOLSYS_DEMO": "1", "TOOLSYS_DEMO_EFFECTS_URL": "",
            "LOG_LEVEL": "WARNING",
        }  # fmt: skip


@contextmanager
def lanes(
    folder: Path, template: str, count: int, environment: dict[str, str], timing: Timing, *, prefix: str = "crash"
) -> Iterator[list[Lane]]:
    """Open `count` lanes over the servers that `environment` names, each with a fresh copy of `template`."""
    folder.mkdir(parents=True, exist_ok=True)
    effects = folder / "effects.jsonl"
    effects.write_text("")
    with _world(effects) as port:
        nursery = Nursery({**environment, **timing.environment()}, folder / "actors.log")
        log = EffectLog(effects)
        opened: list[Lane] = []
        try:
            for number in range(count):
                name = f"{prefix}_{number}"
                _clone(environment, template, name)
                opened.append(Lane(
                    name, folder / name, nursery.fork, log.of, port, timing,
                    redis=_queue(environment["REDIS_URL"], number), address=superuser(environment, name),
                    files=Path(environment["TOOLSYS_DATA_DIR"]) / "artifacts",
                ))  # fmt: skip
            yield opened
        finally:
            for lane in opened:
                lane.close()
            nursery.close()
            log.close()


@contextmanager
def _world(effects: Path) -> Iterator[int]:
    process = child_process(
        [sys.executable, "-m", "tests.crash.effect_server", str(effects)],
        cwd=ROOT, start_new_session=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout is not None
    try:
        yield int(process.stdout.readline())
    finally:
        process.communicate()


def superuser(environment: dict[str, str], database: str) -> str:
    """Return the address for the cluster's superuser, who sees every tenant: the embedded servers trust it."""
    host = dict(parse_qsl(urlsplit(environment["DATABASE_URL"]).query))["host"]
    return make_conninfo("", host=host, user="postgres", dbname=database)


def migrated(environment: dict[str, str], name: str, files: Sequence[Path]) -> str:
    """Return the name of a database with this checkout's schema, made anew where `files` have changed."""
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in files)).hexdigest()[:12]
    wanted = f"{name}_{digest}"
    with psycopg.connect(superuser(environment, "postgres"), autocommit=True) as owner:
        if owner.execute("SELECT 1 FROM pg_database WHERE datname = %s", [wanted]).fetchone() is None:
            owner.execute(sql.SQL("DROP DATABASE IF EXISTS making WITH (FORCE)"))
            owner.execute("CREATE DATABASE making TEMPLATE toolsys OWNER toolsys_owner")
            addresses = {
                variable: environment[variable].replace("/toolsys?", "/making?")
                for variable in ("DATABASE_URL", "DATABASE_OWNER_URL", "DATABASE_OPERATOR_URL")
            }
            command = [sys.executable, "manage.py", "migrate", "--database", "owner", "-v", "0"]
            subprocess.run(command, cwd=ROOT, check=True, env={**os.environ, **environment, **addresses})
            owner.execute(sql.SQL("ALTER DATABASE making RENAME TO {}").format(sql.Identifier(wanted)))
    return wanted


def _clone(environment: dict[str, str], template: str, name: str) -> None:
    names = {"name": sql.Identifier(name), "template": sql.Identifier(template)}
    with psycopg.connect(superuser(environment, "postgres"), autocommit=True) as owner:
        owner.execute(sql.SQL("DROP DATABASE IF EXISTS {name} WITH (FORCE)").format(**names))
        owner.execute(sql.SQL("CREATE DATABASE {name} TEMPLATE {template} OWNER toolsys_owner").format(**names))


def _queue(redis: str, number: int) -> str:
    """Lanes use the last of Valkey's sixteen databases; the suite's own processes the first."""
    return f"{redis.partition('?')[0]}?db={15 - number}"
