"""Database URLs as Django's settings. Pure; imported by `config.settings` only.

`postgres://user:password@host:5432/name?option=value`, everything percent-encoded where needed. A unix socket is given
as `?host=/folder/of/the/socket`. Other options go to libpq (`sslmode`, `connect_timeout`, …).
"""

from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

import psycopg

from toolsys.postgres.liveness import is_ended

ENGINE = "toolsys.postgres"
SCHEMES = ("postgres", "postgresql")
POOL_MAXIMUM = 16
# Who else of a worker may want a connection at a time: the eight threads of its event loop, the lease keeper, and what
# keeps the MCP connections (one that notes, two that sweep and warm up).
BESIDE_JOBS = 12
# A pool alone would try ever more seldom, and for that long keep the places of connections that it lost: it gives up at
# once, and tries again whenever somebody asks. `toolsys.postgres` asks again until its own time is up.
POOL_ASK_SECONDS = 1.0
POOL_RECONNECT_SECONDS = 0.5
# No wait for the database is without an end. A peer that is gone is noticed by TCP; a lock, a statement, and a
# transaction that somebody left open (a frozen process, which holds its locks) are ended by the server. Far above what
# anything here takes: they end what would never end. What the URL says goes before.
TCP_BOUNDS = {
    "connect_timeout": "10", "keepalives_idle": "15", "keepalives_interval": "5", "keepalives_count": "3",
    "tcp_user_timeout": "30000",
}  # fmt: skip
SESSION_BOUNDS = {
    "lock_timeout": "30s", "statement_timeout": "120s", "idle_in_transaction_session_timeout": "60s",
}  # fmt: skip


def parse_database_url(url: str) -> dict[str, Any]:
    """Return NAME, USER, PASSWORD, HOST, PORT and OPTIONS. Raises: ValueError saying what is wrong, never the URL."""
    parts = urlsplit(url)
    if parts.scheme not in SCHEMES:
        raise ValueError("must begin with postgres://")
    options: dict[str, Any] = dict(parse_qsl(parts.query, strict_parsing=bool(parts.query)))
    name = unquote(parts.path.removeprefix("/"))
    user = unquote(parts.username or "") or options.pop("user", "")
    if not name or not user:
        raise ValueError("must name a user and a database: postgres://user:password@host:5432/name")
    return {
        "NAME": name,
        "USER": user,
        "PASSWORD": unquote(parts.password or "") or options.pop("password", ""),
        "HOST": options.pop("host", "") or parts.hostname or "",
        "PORT": str(options.pop("port", "") or parts.port or ""),
        "OPTIONS": options,
    }


def database(url: str, *, pool_maximum: int | None = None, is_bounded: bool = True) -> dict[str, Any]:
    """Return one entry of DATABASES, with a connection pool where a maximum is given.

    Not `is_bounded`: migrations may take as long as they take.
    """
    settings = {"ENGINE": ENGINE, "CONN_MAX_AGE": 0, **parse_database_url(url)}
    given = settings["OPTIONS"]
    bounds = " ".join(f"-c {name}={value}" for name, value in SESSION_BOUNDS.items()) if is_bounded else ""
    said = f"{bounds} {given.pop('options', '')}".strip()
    # Django switches server-side preparation off; the commit points are prepared at their first use.
    settings["OPTIONS"] = {**TCP_BOUNDS, **given, **({"options": said} if said else {}), "prepare_threshold": 0}
    if pool_maximum is not None:
        settings["OPTIONS"] |= {"pool": {
            "min_size": 1, "max_size": pool_maximum, "timeout": POOL_ASK_SECONDS, "check": refuse_ended,
            "reconnect_timeout": POOL_RECONNECT_SECONDS,
        }}  # fmt: skip
    return settings


def pool_maximum(worker_threads: int) -> int:
    """Return how many connections a process may hold: never so few that a worker's own threads wait for each other."""
    return max(POOL_MAXIMUM, worker_threads + BESIDE_JOBS)


def refuse_ended(connection: "psycopg.Connection[Any]") -> None:
    """Tell the pool of a connection whose server has gone. Raises: OperationalError."""
    if is_ended(connection):
        # Closed, or the pool would take it back and offer it again.
        connection.close()
        raise psycopg.OperationalError("the server has ended this idle connection")
