"""`manage.py up`: servers where none are given, secrets, migrations, demo data, and the product's processes.

It imports no Django: what needs it runs in a child (`manage.py prepare`), which alone gets the owner's database.
Secrets travel in the environment, never on a command line. Imported by `manage.py` and the `up` command only.
"""

import errno
import http.client
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any, Never

from config.datafolder import DOCS_TOKEN, ROOT, DataFolder, default_folder, ensure_secrets
from config.embedded import start_in
from config.supervisor import (
    Child,
    Program,
    StartError,
    Supervisor,
    describe_exit,
    dies_with_parent,
    stop_signals,
)

HOST = "127.0.0.1"
DEFAULT_PORT = 8000
CONSOLE_PATH = "/admin/"
HEALTH_PATH = "/healthz"
BLOCKING_THREADS = 64
# A machine that does much else needs minutes for what takes seconds; a program that has died is noticed at once.
READY_SECONDS = 300
READY_MAXIMUM_SECONDS = 3600
# After a kill -9 the old web process may need a moment to let go of the port.
PORT_PATIENCE_SECONDS = 10.0
OWNER_ONLY = ("DATABASE_OWNER_URL",)
FOREIGN_VARIABLES = ("PATH", "HOME", "LANG", "TMPDIR", "LD_LIBRARY_PATH", "PYTHONPYCACHEPREFIX")


@dataclass(frozen=True, slots=True)
class Plan:
    """What this start runs with. `recorded` is what other commands on the same data folder may know."""

    folder: DataFolder
    port: int
    is_demo: bool
    recorded: Mapping[str, str] = field(default_factory=dict)
    secrets: Mapping[str, str] = field(default_factory=dict)

    def environment(self, *, with_owner: bool = False) -> dict[str, str]:
        """Return the whole environment of a child."""
        environment = {**os.environ, **self.recorded, **self.secrets}
        left_out = {"PYTHONDONTWRITEBYTECODE", *(() if with_owner else OWNER_ONLY)}
        return {name: value for name, value in environment.items() if name not in left_out}


def main(arguments: list[str]) -> int:
    """Run until told to stop; return the exit code."""
    if arguments:
        print("usage: manage.py up  (settings come from the environment: PORT, TOOLSYS_DATA_DIR, …)", file=sys.stderr)
        return 2
    for number in stop_signals():
        signal.signal(number, _interrupt)
    try:
        return _up()
    except StartError as error:
        print(f"up: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        _say("stopped")
        return 130


def _interrupt(_number: int, _frame: FrameType | None) -> Never:
    raise KeyboardInterrupt


def _say(line: str) -> None:
    print(line, flush=True)


def _up() -> int:
    port, patience = _port(), _ready_seconds()
    folder = DataFolder(default_folder())
    try:
        _check_port(port, PORT_PATIENCE_SECONDS if folder.was_left_unclean else 0)
        return _serve(folder, port, patience)
    finally:
        folder.close()


def _serve(folder: DataFolder, port: int, patience: int) -> int:
    is_embedded = not os.environ.get("DATABASE_URL")
    secrets = ensure_secrets(folder.path)
    servers = start_in(folder, with_postgres=is_embedded, with_valkey=not os.environ.get("REDIS_URL"))
    try:
        plan = make_plan(folder, port, {**servers.environment()}, secrets, is_embedded=is_embedded)
        folder.record(plan.recorded)
        seeded = _prepare(plan)
        children = [*servers.children, *(Child(program, folder.log_folder) for program in programs(plan))]
        more = f"a busy machine may need more: TOOLSYS_READY_SECONDS={min(2 * patience, READY_MAXIMUM_SECONDS)} make up"
        code = Supervisor(children, _say, remedy=more).run(lambda: _announce(plan, seeded), patience)
        _say("stopped")
        return code
    finally:
        servers.stop()


def make_plan(
    folder: DataFolder, port: int, servers: dict[str, str], secrets: Mapping[str, str], *, is_embedded: bool
) -> Plan:
    """Work out the environment: what the user has set wins over what we would set."""
    is_demo = os.environ.get("TOOLSYS_DEMO", "1" if is_embedded else "0").lower() in {"1", "true", "yes", "on"}
    ours = {
        **servers,
        "PORT": str(port),
        "TOOLSYS_DATA_DIR": str(folder.path),
        "TOOLSYS_PLAIN_HTTP": "1",
        "TOOLSYS_PUBLIC_URL": f"http://{HOST}:{port}",
        "TOOLSYS_DEMO": "1" if is_demo else "0",
        "PYTHONUNBUFFERED": "1",
        "PROMETHEUS_MULTIPROC_DIR": str(_fresh_metrics_folder(folder)),
    }
    if os.environ.get("PYTHONDONTWRITEBYTECODE"):
        # Keep out of the source folders, but do not let every process compile everything again at every start.
        ours |= {"PYTHONPYCACHEPREFIX": str(folder.path / "bytecode")}
    if is_demo:
        ours |= _demo_environment(folder, port)
    recorded = {name: os.environ.get(name) or value for name, value in ours.items()}
    return Plan(folder, port, is_demo, recorded, secrets)


def _fresh_metrics_folder(folder: DataFolder) -> Path:
    """Numbers begin anew with the processes that count them."""
    found = folder.path / "metrics"
    shutil.rmtree(found, ignore_errors=True)
    found.mkdir(mode=0o700)
    return found


def _demo_environment(folder: DataFolder, port: int) -> dict[str, str]:
    effects, spreadsheet, docs = _free_ports(port + 1, 3)
    probe = folder.path / "probe"
    probe.mkdir(mode=0o700, exist_ok=True)
    stdio = {"time": {"argv": [sys.executable, "-m", "mcp_server_time"]}}
    return {
        "TOOLSYS_PROBE_DIR": str(probe),
        "TOOLSYS_STDIO_SERVERS": json.dumps(stdio),
        "TOOLSYS_EGRESS_PRIVATE_CIDRS": "127.0.0.1/32",
        "TOOLSYS_EGRESS_PLAIN_HTTP_HOSTS": f"{HOST}:{effects},{HOST}:{spreadsheet},{HOST}:{docs}",
        "TOOLSYS_DEMO_EFFECTS_URL": f"http://{HOST}:{effects}",
        "TOOLSYS_DEMO_MCP_URL": f"http://{HOST}:{spreadsheet}/mcp",
        "TOOLSYS_DEMO_DOCS_URL": f"http://{HOST}:{docs}/mcp",
    }


def programs(plan: Plan) -> list[Program]:
    """Return the processes in start order; they stop in the reverse of it."""
    manage = (sys.executable, str(ROOT / "manage.py"))
    environment = plan.environment()
    listen = ("--interface", "wsgi", "--host", HOST, "--port", str(plan.port), "--no-ws", "--log-level", "warning")
    size = ("--workers", "1", "--blocking-threads", str(BLOCKING_THREADS))
    web = (sys.executable, "-m", "granian", *listen, *size, "config.wsgi:application")
    found = _demo_programs(plan, manage) if plan.is_demo else []
    return [
        *found,
        Program("worker", (*manage, "worker"), environment, ROOT),
        Program("web", web, environment, ROOT, is_ready=lambda: _is_healthy(plan.port)),
        Program("scheduler", (*manage, "scheduler"), environment, ROOT),
    ]


def _demo_programs(plan: Plan, manage: tuple[str, ...]) -> list[Program]:
    environment = plan.environment()
    effects = _port_of(environment["TOOLSYS_DEMO_EFFECTS_URL"])
    spreadsheet = _port_of(environment["TOOLSYS_DEMO_MCP_URL"])
    files = plan.folder.path / "excel"
    files.mkdir(mode=0o700, exist_ok=True)
    # A program that nobody here wrote gets none of our variables.
    foreign = {name: environment[name] for name in FOREIGN_VARIABLES if name in environment}
    docs = _port_of(environment["TOOLSYS_DEMO_DOCS_URL"])
    reader = {**foreign, "DOCS_SERVER_TOKENS": environment[DOCS_TOKEN]}
    foreign |= {"EXCEL_MCP_HOST": HOST, "EXCEL_MCP_PORT": str(spreadsheet), "EXCEL_FILES_PATH": str(files)}
    pages = str(ROOT / "toolsys" / "docs")
    return [
        Program(
            "docs",
            (sys.executable, "-m", "mcpcatalog.firstparty.docs", "--folder", pages, "--port", str(docs)),
            reader,
            ROOT,
            is_ready=lambda: _listens(docs),
        ),
        Program("effects", (*manage, "demo_effects"), environment, ROOT, is_ready=lambda: _listens(effects)),
        Program(
            "excel",
            (sys.executable, "-m", "excel_mcp", "streamable-http"),
            foreign,
            files,
            is_ready=lambda: _listens(spreadsheet),
        ),
    ]


def _prepare(plan: Plan) -> dict[str, Any]:
    """Migrate as the owner and seed the demo, in a child; return what the seed reports. Raises: StartError."""
    log_path = plan.folder.log_folder / "prepare.log"
    log_path.parent.mkdir(mode=0o700, exist_ok=True)
    with log_path.open("wb") as log:
        done = subprocess.run(
            [sys.executable, str(ROOT / "manage.py"), "prepare"],
            cwd=ROOT,
            env=plan.environment(with_owner=True),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=log,
            check=False,
            start_new_session=True,
            # This process has no other threads: the hook is safe.
            preexec_fn=dies_with_parent(signal.SIGTERM),
        )
    if done.returncode:
        last = (log_path.read_text(errors="replace").strip().splitlines() or ["no output"])[-1]
        raise StartError(f"preparing the database failed ({describe_exit(done.returncode)}): {last}; log: {log_path}")
    seeded: dict[str, Any] = json.loads(done.stdout or b"{}")
    return seeded


def _announce(plan: Plan, seeded: Mapping[str, Any]) -> None:
    lines = ["", "toolsys is up; Ctrl-C stops it.", "", f"  console    http://{HOST}:{plan.port}{CONSOLE_PATH}"]
    for login, password in seeded.get("console_users", []):
        lines.append(f"  sign in    {login}  {password or '(the password of the first start)'}")
    if seeded.get("api_key"):
        lines.append(f"  API key    {seeded['api_key']}")
    if seeded.get("curl"):
        lines += ["  try it", "", seeded["curl"], ""]
    lines.append(f"  logs       {plan.folder.log_folder}")
    _say("\n".join(lines))


def _port() -> int:
    text = os.environ.get("PORT") or str(DEFAULT_PORT)
    if not text.isdecimal() or not 1 <= int(text) <= 65_535:
        raise StartError(f"PORT must be a number from 1 to 65535, not {text!r}: PORT=8001 make up")
    return int(text)


def _ready_seconds() -> int:
    """Return how long the programs may take until they answer."""
    text = os.environ.get("TOOLSYS_READY_SECONDS") or str(READY_SECONDS)
    if not text.isdecimal() or not 1 <= int(text) <= READY_MAXIMUM_SECONDS:
        raise StartError(f"TOOLSYS_READY_SECONDS must be a number from 1 to {READY_MAXIMUM_SECONDS}, not {text!r}")
    return int(text)


def _check_port(port: int, patience_seconds: float) -> None:
    end = time.monotonic() + patience_seconds
    while (reason := _why_not(port)) is not None:
        if time.monotonic() >= end:
            raise StartError(
                f"Port {port} {reason}: choose another, for example PORT={_free_ports(port + 1, 1)[0]} make up"
            )
        time.sleep(0.1)


def _why_not(port: int) -> str | None:
    """Return why the port cannot be used, or None."""
    with socket.socket() as probe:
        # As servers do: connections of an earlier server that linger are no hindrance.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError as error:
            return "is in use" if error.errno == errno.EADDRINUSE else f"cannot be used ({error.strerror})"
    return None


def _free_ports(first: int, count: int) -> list[int]:
    """Return the first free ports from `first` on: the same ones at every start, as long as nobody takes them."""
    candidates = (port for port in (*range(first, 65_536), *range(1_024, first)) if _why_not(port) is None)
    return [next(candidates) for _ in range(count)]


def _port_of(url: str) -> int:
    return int(url.split("://", 1)[1].split("/", 1)[0].rsplit(":", 1)[1])


def _listens(port: int) -> bool:
    try:
        socket.create_connection((HOST, port), timeout=1).close()
    except OSError:
        return False
    return True


def _is_healthy(port: int) -> bool:
    connection = http.client.HTTPConnection(HOST, port, timeout=2)
    try:
        connection.request("GET", HEALTH_PATH)
        return connection.getresponse().status == http.HTTPStatus.OK
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()
