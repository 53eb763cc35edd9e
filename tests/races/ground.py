"""Servers of the races' own, to be stopped and cut: a durable PostgreSQL cluster, Valkey, a relay, and processes.

While it is open, this test process itself is connected to them (through the relay), so that tests use the factories
and services as everywhere else. Waiting is always for a fact, and bounded.
"""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qsl, quote, urlsplit

import psycopg
from django.conf import settings
from django.db import connections

from config import embedded
from config.databases import parse_database_url
from config.embedded_places import find_places
from tests.integration.processes import child_process, is_alive
from tests.races import actor
from tests.races.relay import Relay
from tests.races.tools import World
from toolsys import queue

ROOT: Final = Path(__file__).resolve().parent.parent.parent
FOLDER: Final = ROOT / ".data" / "races"
PATIENCE_SECONDS: Final = 120.0
ALIASES: Final = {
    "default": "DATABASE_URL", "operator": "DATABASE_OPERATOR_URL", "owner": "DATABASE_OWNER_URL",
}  # fmt: skip


def until(is_so: Callable[[], Any], what: str, seconds: float = PATIENCE_SECONDS) -> None:
    end = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < end, f"not within {seconds:.0f} s: {what}"
        time.sleep(0.02)


class Ground:
    """Open it in the main thread; one at a time on a machine, by the data folder's lock."""

    def __init__(self, lease_seconds: float = 1.0, sweep_seconds: float = 0.5, *, folder: Path = FOLDER) -> None:
        self.lease_seconds = lease_seconds
        self._folder = folder
        self._servers = embedded.start(folder / "servers", durable=True)
        self._run = Path(tempfile.mkdtemp(prefix="races-"))
        self.gates = self._run / "gates"
        self.gates.mkdir()
        self._children: dict[int, subprocess.Popen[bytes]] = {}
        self._called: dict[int, str] = {}
        self.world = World(self._run / "effects.jsonl")
        self.jobs = self._run / "jobs.jsonl"
        urls = self._servers.environment()
        self._sockets = Path(dict(parse_qsl(urlsplit(urls["DATABASE_URL"]).query))["host"])
        self.relay = Relay(self._run, self._sockets)
        through = {
            name: f"{url.partition('?')[0]}?host={quote(str(self._run), safe='')}"
            for name, url in urls.items() if name in ALIASES.values()
        }  # fmt: skip
        self.environment = {
            **os.environ, **urls, **through, "TOOLSYS_LEASE_SECONDS": str(lease_seconds), "TOOLSYS_DEMO": "1",
            "TOOLSYS_SWEEP_SECONDS": str(sweep_seconds), "TOOLSYS_WORKER_THREADS": "4", "LOG_LEVEL": "WARNING",
            "TOOLSYS_PROBE_DIR": str(self.gates), actor.EFFECTS: str(self._run / "effects.jsonl"),
            actor.JOBS: str(self.jobs), "TOOLSYS_DATA_DIR": str(folder / "files"),
        }  # fmt: skip
        subprocess.run(
            [sys.executable, "manage.py", "migrate", "--database", "owner", "-v", "0"],
            cwd=ROOT, check=True, env={**self.environment, **urls},
        )  # fmt: skip
        self._before = {alias: dict(connections.databases[alias]) for alias in ALIASES}
        self._queue_before = settings.RQ_QUEUES["calls"]["URL"]
        self._point_here()

    def close(self) -> None:
        for pid in list(self._children):
            self.kill(pid)
        self._drop_connections()
        for alias, values in self._before.items():
            connections.databases[alias].update(values)
        settings.RQ_QUEUES["calls"]["URL"] = self._queue_before
        queue.call_queue.cache_clear()
        self.relay.close()
        self._servers.stop()
        if not os.environ.get("RACES_KEEP"):
            shutil.rmtree(self._run, ignore_errors=True)

    def _point_here(self) -> None:
        self._drop_connections()
        for alias, variable in ALIASES.items():
            address = parse_database_url(self.environment[variable])
            connections.databases[alias].update({name: address[name] for name in ("NAME", "USER", "HOST", "PORT")})
        settings.RQ_QUEUES["calls"]["URL"] = self.environment["REDIS_URL"]
        queue.call_queue.cache_clear()

    def _drop_connections(self) -> None:
        connections.close_all()
        for alias in ALIASES:
            wrapper: Any = connections[alias]
            wrapper.close_pool()

    # -- processes

    def spawn(self, part: str, **environment: str) -> int:
        """Start a worker or scheduler; return its process id."""
        return self.run([sys.executable, "-m", "tests.races.actor", part], part, **environment)

    def run(self, argv: list[str], name: str, **environment: str) -> int:
        """Start a process whose database sessions carry a name of their own."""
        called = f"{name}-{len(self._called)}"
        named = {
            variable: f"{self.environment[variable]}&application_name={called}" for variable in ALIASES.values()
        }  # fmt: skip
        with self.log_path(name).open("ab") as log:
            child = child_process(
                argv, cwd=ROOT, env=self.environment | named | environment, stdout=log, stderr=log,
                start_new_session=True,
            )  # fmt: skip
        self._children[child.pid] = child
        self._called[child.pid] = called
        return child.pid

    def sessions(self, pid: int) -> int:
        """How many sessions of the database a process has, its children's included."""
        found = self.ask("SELECT count(*) FROM pg_stat_activity WHERE application_name = %s", self._called[pid])
        return int(found[0][0])

    def log_path(self, name: str) -> Path:
        return self._run / f"{name}.log"

    def kill(self, pid: int) -> None:
        """SIGKILL for it and its children, and wait until it is dead."""
        child = self._children.pop(pid)
        with suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGKILL)
        child.wait(PATIENCE_SECONDS)

    def is_running(self, pid: int) -> bool:
        child = self._children.get(pid)
        return child is not None and child.poll() is None and is_alive(pid)

    def signal(self, pid: int, number: signal.Signals) -> None:
        os.kill(pid, number)

    # -- gates

    def close_gate(self, point: str, tool: str = "") -> Path:
        mark = self.gates / f"{point}.pid"
        mark.unlink(missing_ok=True)
        part = self.gates / f"{uuid.uuid4().hex}.part"
        part.write_text(tool)
        part.replace(self.gates / point)
        return mark

    def open_gate(self, point: str) -> None:
        (self.gates / point).unlink(missing_ok=True)

    def victim_at(self, point: str) -> int:
        """Return the process that waits at the gate."""
        mark = self.gates / f"{point}.pid"
        until(lambda: mark.exists() and mark.read_text(), f"somebody at {point}")
        return int(mark.read_text())

    # -- PostgreSQL

    def superuser(self) -> "psycopg.Connection[Any]":
        """A connection past the relay, which sees every tenant."""
        return psycopg.connect(
            host=str(self._sockets), user="postgres", dbname="toolsys", autocommit=True, connect_timeout=30
        )

    def ask(self, statement: str, *parameters: Any) -> list[tuple[Any, ...]]:
        with self.superuser() as link:
            found = link.execute(statement.encode(), parameters or None)
            return found.fetchall() if found.description else []

    def terminate_backends(self) -> int:
        """End every connection of the application, workers' and ours alike; ours are made anew."""
        found = self.ask(
            "SELECT count(*) FILTER (WHERE pg_terminate_backend(pid)) FROM pg_stat_activity"
            " WHERE usename IN ('toolsys_app', 'toolsys_operator') AND pid <> pg_backend_pid()"
        )  # fmt: skip
        self._drop_connections()
        return int(found[0][0])

    def stop_postgres(self, how: str) -> None:
        """Fast: sessions are ended and the rest is written. Immediate: as a crash, recovered at the next start."""
        child = self._servers.children[0]
        assert child.process is not None
        child.process.send_signal({"fast": signal.SIGINT, "immediate": signal.SIGQUIT}[how])
        child.process.wait(PATIENCE_SECONDS)

    def start_postgres(self) -> None:
        child = self._servers.children[0]
        child.start()
        child.wait_until_ready(PATIENCE_SECONDS)
        self._drop_connections()

    # -- Valkey

    def lose_queue(self, how: str) -> None:
        """flushed: emptied. killed: gone for a moment. old: back with what it held when `keep_old_queue` was asked."""
        if how == "flushed":
            queue.call_queue().connection.flushall()
            return
        child = self._servers.children[1]
        assert child.process is not None
        child.process.kill()
        child.process.wait(PATIENCE_SECONDS)
        data, old = self._valkey_data(), self._valkey_data().with_name("valkey.old")
        if how == "old":
            shutil.rmtree(data)
            subprocess.run(["cp", "-a", str(old), str(data)], check=True)

    def find_queue(self) -> None:
        """Have Valkey again, if it is gone."""
        child = self._servers.children[1]
        if not child.is_running():
            child.start()
        child.wait_until_ready(PATIENCE_SECONDS)

    def keep_old_queue(self) -> None:
        """Remember what the queue's file holds now."""
        data = self._valkey_data()
        shutil.rmtree(data.with_name("valkey.old"), ignore_errors=True)
        subprocess.run(["cp", "-a", str(data), str(data.with_name("valkey.old"))], check=True)

    def settle_queue_file(self) -> None:
        """Wait until the queue's file holds what the queue holds: it is synced every second."""
        queue.call_queue().connection.execute_command("WAITAOF", 1, 0, 5_000)  # type: ignore[no-untyped-call]

    def _valkey_data(self) -> Path:
        return find_places(self._folder / "servers").valkey_data
