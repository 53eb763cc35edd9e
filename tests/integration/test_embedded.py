"""The embedded PostgreSQL and Valkey: real processes, each test on a data folder of its own."""

import os
import pwd
import shutil
import signal
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest
import redis

from config import embedded, embedded_places
from config.datafolder import DataFolder, ensure_secrets, recorded_environment
from config.embedded import Servers
from config.supervisor import StartError
from tests.integration.processes import PATIENCE_SECONDS, eventually, is_alive, running

pytestmark = pytest.mark.slow

is_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root has an account to drop to")


def remove(folder: Path) -> None:
    """Remove a data folder and what it links to."""
    link = folder / "servers"
    if link.is_symlink():
        shutil.rmtree(link.resolve(), ignore_errors=True)
    shutil.rmtree(folder, ignore_errors=True)


def open_folder() -> Path:
    """Make a folder that the servers' account can reach, which pytest's own are not."""
    folder = Path(tempfile.mkdtemp(prefix="toolsys-test-"))
    folder.chmod(0o711)
    return folder


@pytest.fixture
def data() -> Iterator[Path]:
    folder = open_folder()
    yield folder / "data"
    remove(folder / "data")
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="module")
def servers() -> Iterator[Servers]:
    folder = open_folder()
    found = embedded.start(folder / "data", durable=False)
    yield found
    found.stop()
    shutil.rmtree(folder, ignore_errors=True)


def connect(servers: Servers, role: str, database: str = "toolsys") -> psycopg.Connection:
    url = servers.environment()["DATABASE_OWNER_URL"]
    url = url.replace("toolsys_owner", role).replace("/toolsys?", f"/{database}?")
    return psycopg.connect(url, autocommit=True)


def valkey(servers: Servers) -> redis.Redis:
    return redis.Redis.from_url(servers.environment()["REDIS_URL"])


def test_no_role_is_superuser_or_passes_row_level_security(servers: Servers) -> None:
    with connect(servers, "toolsys_app") as app:
        found = app.execute(
            "SELECT rolname, rolsuper, rolbypassrls, rolcreaterole, rolcreatedb, rolcanlogin"
            " FROM pg_roles WHERE rolname LIKE 'toolsys%' ORDER BY rolname"
        ).fetchall()
    assert found == [
        ("toolsys_app", False, False, False, False, True),
        ("toolsys_definer", False, False, False, False, False),
        ("toolsys_operator", False, False, False, False, True),
        ("toolsys_owner", False, False, False, True, True),
    ]


@pytest.mark.parametrize("role", ["toolsys_app", "toolsys_operator"])
@pytest.mark.parametrize(
    "statement",
    [
        "CREATE TABLE mine ()",
        "CREATE TEMPORARY TABLE mine ()",
        "CREATE SCHEMA mine",
        "CREATE FUNCTION mine() RETURNS int LANGUAGE sql AS 'SELECT 1'",
        "SET ROLE toolsys_owner",
        "SET ROLE toolsys_definer",
    ],
)
def test_app_and_operator_create_nothing_and_become_nobody(servers: Servers, role: str, statement: str) -> None:
    with connect(servers, role) as connection, pytest.raises(psycopg.errors.InsufficientPrivilege):
        connection.execute(statement.encode())


def test_the_owner_s_tables_are_read_and_written_by_app_and_operator_but_not_altered(servers: Servers) -> None:
    with connect(servers, "toolsys_owner") as owner:
        owner.execute("CREATE TABLE thing (id bigserial PRIMARY KEY, name text)")
    for role in ("toolsys_app", "toolsys_operator"):
        with connect(servers, role) as connection:
            connection.execute("INSERT INTO thing (name) VALUES ('a')")
            connection.execute("UPDATE thing SET name = 'b'")
            connection.execute("DELETE FROM thing")
            for statement in (b"TRUNCATE thing", b"ALTER TABLE thing DISABLE ROW LEVEL SECURITY", b"DROP TABLE thing"):
                with pytest.raises(psycopg.errors.InsufficientPrivilege):
                    connection.execute(statement)


def test_the_owner_prepares_databases_of_its_own_and_hands_functions_to_the_definer(servers: Servers) -> None:
    with connect(servers, "toolsys_owner") as owner:
        owner.execute("CREATE DATABASE of_a_test")
    with connect(servers, "toolsys_owner", "of_a_test") as owner:
        embedded.apply_roles(owner)
        embedded.apply_roles(owner)
        owner.execute("CREATE TABLE thing (id bigserial PRIMARY KEY)")
        owner.execute("CREATE FUNCTION look() RETURNS int LANGUAGE sql SECURITY DEFINER AS 'SELECT 1'")
        owner.execute("ALTER FUNCTION look() OWNER TO toolsys_definer")
    with connect(servers, "toolsys_app", "of_a_test") as app:
        app.execute("INSERT INTO thing DEFAULT VALUES")
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            app.execute("CREATE TABLE mine ()")


def test_sockets_are_private_and_nothing_listens_on_the_network(servers: Servers) -> None:
    sockets = servers.folder.path / "servers" / "run"
    assert sockets.stat().st_mode & 0o777 == 0o700
    with connect(servers, "postgres") as connection:
        assert connection.execute("SHOW listen_addresses").fetchone() == ("",)
        assert connection.execute("SHOW unix_socket_permissions").fetchone() == ("0700",)
    assert valkey(servers).config_get("port") == {"port": "0"}


@is_root
def test_the_servers_do_not_run_as_root(servers: Servers) -> None:
    for child in servers.children:
        status = Path(f"/proc/{child.pid}/status").read_text().splitlines()
        ids = {line.split()[0]: set(line.split()[1:]) for line in status if line.startswith(("Uid", "Gid", "Groups"))}
        assert "0" not in ids["Uid:"] | ids["Gid:"] | ids["Groups:"]


def test_a_second_start_keeps_the_data(data: Path) -> None:
    first = embedded.start(data)
    with connect(first, "toolsys_owner") as owner:
        owner.execute("CREATE TABLE kept AS SELECT 1 AS one")
    valkey(first).set("kept", "1")
    first.stop()
    second = embedded.start(data)
    with connect(second, "toolsys_owner") as owner:
        assert owner.execute("SELECT one FROM kept").fetchone() == (1,)
    assert valkey(second).get("kept") == b"1"
    second.stop()


def test_a_stop_leaves_no_process_and_no_record(data: Path) -> None:
    servers = embedded.start(data, durable=False)
    pids = [child.pid for child in servers.children]
    assert recorded_environment(data) == servers.environment()
    assert (data / "runtime.json").stat().st_mode & 0o777 == 0o600
    servers.stop()
    assert not any(is_alive(pid) for pid in pids)
    assert recorded_environment(data) == {}
    assert list((data / "servers" / "run").iterdir()) == []


def test_killed_servers_start_again_with_what_was_committed(data: Path) -> None:
    servers = embedded.start(data)
    with connect(servers, "toolsys_owner") as owner:
        owner.execute("CREATE TABLE kept AS SELECT 1 AS one")
    for child in servers.children:
        os.kill(child.pid, signal.SIGKILL)
        eventually(lambda child=child: not child.is_running(), "it is dead")  # type: ignore[misc]
        child.start()
        child.wait_until_ready(PATIENCE_SECONDS)
    with connect(servers, "toolsys_owner") as owner:
        assert owner.execute("SELECT one FROM kept").fetchone() == (1,)
    servers.stop()


START = """
import signal, sys
from pathlib import Path
from config import embedded
servers = embedded.start(Path(sys.argv[1]), durable=False)
print(*(child.pid for child in servers.children), "ready", flush=True)
signal.pause()
"""


@pytest.mark.skipif(sys.platform != "linux", reason="needs the kernel's death signal")
def test_a_killed_starter_leaves_no_server(data: Path, tmp_path: Path) -> None:
    with running([sys.executable, "-c", START, str(data)], tmp_path) as starter:
        starter.wait_for("ready")
        starter.end(signal.SIGKILL)
        for word in starter.text().split()[:-1]:
            eventually(lambda word=word: not is_alive(int(word)), "the server has ended")  # type: ignore[misc]


def test_a_start_at_once_after_a_killed_starter_succeeds(data: Path, tmp_path: Path) -> None:
    with running([sys.executable, "-c", START, str(data)], tmp_path) as starter:
        starter.wait_for("ready")
        pids = [int(word) for word in starter.text().split()[:-1]]
        with pytest.raises(StartError, match=f"is in use by process {starter.process.pid}: stop that one"):
            embedded.start(data)
        starter.end(signal.SIGKILL)
    # Without waiting for the old servers' end: two on one folder would destroy it.
    servers = embedded.start(data, durable=False)
    assert not any(is_alive(pid) for pid in pids)
    servers.stop()


def test_a_stale_pid_file_that_names_another_live_process_harms_neither(data: Path) -> None:
    embedded.start(data, durable=False).stop()
    servers_folder = data / "servers"
    (servers_folder / "postgres" / "postmaster.pid").write_text(f"{os.getpid()}\n{servers_folder}/postgres\n")
    (servers_folder / "run" / "valkey.pid").write_text(f"{os.getpid()}\n")
    embedded.start(data, durable=False).stop()


def test_a_long_path_gets_its_sockets_elsewhere(data: Path) -> None:
    deep = data / ("d" * 60) / ("e" * 60)
    deep.parent.parent.mkdir(mode=0o711)
    deep.parent.mkdir(mode=0o711)
    servers = embedded.start(deep, durable=False)
    sockets = Path(servers.environment()["REDIS_URL"].removeprefix("unix://")).parent
    assert sockets.parent == Path("/tmp")
    assert sockets.stat().st_mode & 0o777 == 0o700
    assert valkey(servers).ping()
    servers.stop()
    sockets.rmdir()


def test_a_squatted_socket_folder_is_refused(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedded_places, "SOCKET_PATH_MAXIMUM_BYTES", 1)
    data.mkdir(mode=0o711)
    sockets = embedded_places._sockets(data, None)
    sockets.chmod(0o755)
    with pytest.raises(StartError, match="is not a private folder of ours: remove it"):
        embedded_places._sockets(data, None)
    sockets.rmdir()


@is_root
def test_root_in_a_private_home_opens_nobody_s_folder(data: Path) -> None:
    home = data.parent
    home.chmod(0o700)
    servers = embedded.start(data, durable=False)
    assert home.stat().st_mode & 0o777 == 0o700
    assert (data / "servers").is_symlink()
    servers.stop()
    again = embedded.start(data, durable=False)
    assert valkey(again).ping()
    again.stop()


def as_nobody(act: Callable[[], None]) -> None:
    """Run a function in a forked child as the account `nobody`; fail if it fails."""
    nobody = pwd.getpwnam("nobody")
    with warnings.catch_warnings():
        # The test runner may have threads; the child uses none of theirs.
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:
        code = 1
        try:
            os.setgroups([])
            os.setgid(nobody.pw_gid)
            os.setuid(nobody.pw_uid)
            act()
            code = 0
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@is_root
def test_an_ordinary_user_starts_and_stops_them_too(data: Path) -> None:
    data.parent.chmod(0o777)

    def act() -> None:
        servers = embedded.start(data, durable=False)
        assert valkey(servers).ping()
        servers.stop()

    as_nobody(act)
    assert (data / "servers" / "postgres").stat().st_uid == pwd.getpwnam("nobody").pw_uid
    assert data.stat().st_mode & 0o777 == 0o700


@is_root
def test_an_ordinary_user_without_write_access_is_told_the_fix(data: Path) -> None:
    def act() -> None:
        with pytest.raises(StartError, match=r"Cannot write to the data folder .* \(Permission denied\): give this"):
            DataFolder(data)

    as_nobody(act)


def test_secrets_are_made_once_and_only_their_owner_reads_them(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SECRET_KEY", raising=False)
    monkeypatch.setenv("MASTER_ENCRYPTION_KEY", "given")
    found = ensure_secrets(data)
    assert found["MASTER_ENCRYPTION_KEY"] == "given"
    assert found == ensure_secrets(data)
    assert (data / "secrets" / "SECRET_KEY").stat().st_mode & 0o777 == 0o600
    assert (data / "secrets").stat().st_mode & 0o777 == 0o700
    assert not (data / "secrets" / "MASTER_ENCRYPTION_KEY").exists()
