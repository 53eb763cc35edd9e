"""An early pytest plugin: the suite's own PostgreSQL and Valkey, and one database for each test process.

It runs before Django's settings are read. The cluster under `.data/test` (or TOOLSYS_TEST_DATA) has durability off;
the schema is migrated once and cloned, and what Python compiled is kept. The data of `make up` is never touched.
"""

import atexit
import hashlib
import logging
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit, urlunsplit

import psycopg

from config import embedded

ROOT = Path(__file__).resolve().parent.parent
WORKER = os.environ.get("PYTEST_XDIST_WORKER", "main")
DROP_SECONDS: Final = 60.0
URLS = ("DATABASE_URL", "DATABASE_OWNER_URL", "DATABASE_OPERATOR_URL")
ENVIRONMENT = {
    "SECRET_KEY": "for-tests-only-" + "0" * 40,
    "MASTER_ENCRYPTION_KEY": "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=",
    "DJANGO_SETTINGS_MODULE": "config.settings",
    "TOOLSYS_PLAIN_HTTP": "1",
    "TOOLSYS_DEMO": "1",
    # Servers of tests that have ended stay configured, and are gone.
    "TOOLSYS_MCP_WARMUP_ATTEMPTS": "0",
    "TOOLSYS_LEASE_SECONDS": "2",
    "TOOLSYS_SWEEP_SECONDS": "0.5",
    "LOG_LEVEL": "WARNING",
    # Nothing listens there unless a test starts an effect log of its own on this port.
    "TOOLSYS_DEMO_EFFECTS_URL": "http://127.0.0.1:9/effects",
    "TOOLSYS_EGRESS_PRIVATE_CIDRS": "127.0.0.1/32",
    "TOOLSYS_EGRESS_PLAIN_HTTP_HOSTS": "127.0.0.1:9",
}


def start() -> None:
    """Start the servers in the process that the user started; xdist's workers inherit their addresses."""
    if "PYTEST_XDIST_WORKER" not in os.environ:
        data = Path(os.environ.get("TOOLSYS_TEST_DATA", ROOT / ".data" / "test")).absolute()
        _keep_bytecode(data / "bytecode")
        servers = embedded.start(data, durable=False)
        atexit.register(servers.stop)
        atexit.register(_say_no_more)
        os.environ.update({**servers.environment(), **ENVIRONMENT, "TOOLSYS_DATA_DIR": str(data / "files")})
        os.environ["TEST_TEMPLATE"] = _migrated_template()
    _own_database(os.environ["TEST_TEMPLATE"])


def _keep_bytecode(folder: Path) -> None:
    """Keep out of the source folders where that is asked for, but let no process compile everything again.

    xdist's workers and the processes of tests are told through the environment.
    """
    if os.environ.pop("PYTHONDONTWRITEBYTECODE", ""):
        os.environ["PYTHONPYCACHEPREFIX"] = sys.pycache_prefix = str(folder)
        sys.dont_write_bytecode = False


def _say_no_more() -> None:
    """Threads that outlive the servers log of it, to streams that pytest has closed: the last line is the verdict."""
    logging.raiseExceptions = False


def _migrated_template() -> str:
    """Return the name of a database with today's schema; migrated once for each change of a migration."""
    files = sorted([*ROOT.glob("*/migrations/*.py"), *ROOT.glob("*/sql/*.sql"), ROOT / "toolsys/rowsecurity.py"])
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in files)).hexdigest()[:12]
    name = f"template_{digest}"
    with psycopg.connect(address("DATABASE_OWNER_URL", "postgres"), autocommit=True) as owner:
        known = [
            row[0] for row in owner.execute("SELECT datname FROM pg_database WHERE datname ~ '^(template_|making_)'")
        ]
        if name in known:
            return name
        for other in set(known) - {"template_0", "template_1"}:
            drop(owner, other)
        owner.execute("CREATE DATABASE making_template TEMPLATE toolsys")
        addresses = {variable: address(variable, "making_template") for variable in URLS}
        command = [sys.executable, "manage.py", "migrate", "--database", "owner", "-v", "0"]
        subprocess.run(command, cwd=ROOT, check=True, env={**os.environ, **addresses})
        owner.execute(f"ALTER DATABASE making_template RENAME TO {name}")
    return name


def drop(owner: "psycopg.Connection[Any]", name: str) -> None:
    """Drop a database that nobody of ours uses.

    The owner may not end an autovacuum worker, which is a superuser's: PostgreSQL ends it for a drop without force, and
    gives it five seconds to go. Whoever of ours is still connected is ended by the force.
    """
    until = time.monotonic() + DROP_SECONDS
    while True:
        for force in (" WITH (FORCE)", ""):
            try:
                owner.execute(f"DROP DATABASE IF EXISTS {name}{force}")
                return
            except (psycopg.errors.ObjectInUse, psycopg.errors.InsufficientPrivilege):
                if time.monotonic() >= until:
                    raise


def _own_database(template: str) -> None:
    """Clone the migrated database for this process, and take a Valkey database of its own."""
    name = f"toolsys_{WORKER}"
    with psycopg.connect(address("DATABASE_OWNER_URL", "postgres"), autocommit=True) as owner:
        drop(owner, name)
        owner.execute(f"CREATE DATABASE {name} TEMPLATE {template}")
    for variable in URLS:
        os.environ[variable] = address(variable, name)
    number = 1 if WORKER == "main" else 2 + int(WORKER.removeprefix("gw"))
    os.environ["REDIS_URL"] = f"{os.environ['REDIS_URL'].partition('?')[0]}?db={number}"


def address(variable: str, database: str) -> str:
    return urlunsplit(urlsplit(os.environ[variable])._replace(path=f"/{database}"))


start()
