"""Calls of the SQL functions: one statement, server-side parameters, prepared, one round trip.

Outside a transaction each call is a transaction of its own. Used by `store` and `selectors`; everything else goes
through the ORM. Source: DESIGN §13.
"""

import json
from collections.abc import Sequence
from typing import Any, cast

import psycopg
from django.db import DEFAULT_DB_ALIAS, connections
from django.db.models import DateTimeField, Func


def call(statement: str, parameters: Sequence[Any], using: str = DEFAULT_DB_ALIAS) -> list[tuple[Any, ...]]:
    """Run one statement and return its rows. Transaction: its own, or the open one."""
    wrapper = cast(Any, connections[using])
    wrapper.ensure_connection()
    with wrapper.wrap_database_errors:
        cursor = psycopg.Cursor(wrapper.connection)
        try:
            return cursor.execute(statement.encode(), parameters, prepare=True).fetchall()
        finally:
            cursor.close()


def as_json(value: Any) -> str:
    """Serialize for a jsonb parameter; NUL cannot be stored in jsonb and is refused by whoever builds the value."""
    return json.dumps(value, default=str, ensure_ascii=False, separators=(",", ":"))


def from_json(value: Any) -> Any:
    """jsonb arrives as text through Django's connection, and parsed through a bare one."""
    return json.loads(value) if isinstance(value, str | bytes) else value


def release_connection(using: str = DEFAULT_DB_ALIAS) -> None:
    """Give the connection back to the pool: a waiting request holds none."""
    wrapper = connections[using]
    if not wrapper.in_atomic_block:
        wrapper.close()


def discard_connection(using: str = DEFAULT_DB_ALIAS) -> None:
    """Drop a connection that failed: the next call takes another one of the pool, or opens it."""
    connections[using].close()


def end_session(using: str = DEFAULT_DB_ALIAS) -> None:
    """End the session itself, with every lock that it holds: given back to the pool it would keep them."""
    wrapper = connections[using]
    if wrapper.connection is not None:
        wrapper.connection.close()
    wrapper.close()


def now() -> Any:
    """The database's clock as an expression: the only clock that decides."""
    return Func(function="clock_timestamp", output_field=DateTimeField())
