"""Calls of the SQL functions: one statement, server-side parameters, prepared, one round trip.

Outside a transaction each call is a transaction of its own. Used by `store` and `selectors`; everything else goes
through the ORM. Source: DESIGN §13.
"""

from collections.abc import Sequence
from typing import Any, cast

import psycopg
import pydantic_core
from django.db import DEFAULT_DB_ALIAS, connections
from django.db.models import DateTimeField, Func

from toolsys.postgres import prepared


def call(statement: str, parameters: Sequence[Any], using: str = DEFAULT_DB_ALIAS) -> list[tuple[Any, ...]]:
    """Run one statement and return its rows. Transaction: its own, or the open one."""
    wrapper = cast(Any, connections[using])
    wrapper.ensure_connection()
    with wrapper.wrap_database_errors:
        if not wrapper.in_atomic_block and wrapper.autocommit:
            return prepared.execute(wrapper.connection, statement, parameters)
        with psycopg.Cursor(wrapper.connection) as cursor:
            return cursor.execute(statement.encode(), parameters, prepare=True).fetchall()


def as_json(value: Any) -> str:
    """Serialize for a jsonb parameter; NUL cannot be stored in jsonb and is refused by whoever builds the value."""
    return pydantic_core.to_json(value, fallback=str).decode()


def from_json(value: Any) -> Any:
    """jsonb arrives as text through Django's connection, and parsed through a bare one."""
    return pydantic_core.from_json(value) if isinstance(value, str | bytes) else value


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
