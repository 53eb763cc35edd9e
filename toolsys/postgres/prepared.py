"""Calls of prepared statements straight over libpq: what the call path asks seven times a call.

A cursor of psycopg costs five times what the round trip costs here; conversion of rows and errors stays psycopg's.
Statements are constants of this program with `%s` for parameters; values never become a part of them.
"""

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, Final
from uuid import UUID

import psycopg
from psycopg.adapt import Transformer
from psycopg.errors import InvalidSqlStatementName, error_from_result
from psycopg.pq import ConnStatus, ExecStatus
from psycopg.pq.abc import PGresult

type Connection = "psycopg.Connection[Any]"
_TEXT, _BINARY = 0, 1


class _Prepared:
    """What one connection has prepared, by statement, and how it reads rows."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.names: dict[str, bytes] = {}
        self.rows = Transformer(connection)
        self._count = 0

    def name_of(self, statement: str) -> bytes:
        name = self.names.get(statement)
        if name is None:
            self._count += 1
            name = b"toolsys_%d" % self._count
            _check(self.connection.pgconn.prepare(name, _numbered(statement)), self.connection)
            self.names[statement] = name
        return name


# An attribute of the connection, with which it ends: a table of connections would keep the dead ones.
_ATTRIBUTE: Final = "toolsys_prepared"


def execute(connection: Connection, statement: str, parameters: Sequence[Any]) -> list[tuple[Any, ...]]:
    """Run one statement as a transaction of its own and return its rows.

    Transaction: none may be open. Raises: psycopg.Error.
    """
    prepared = vars(connection).get(_ATTRIBUTE) or _begin(connection)
    values: list[Any] = [None if value is None else _dumper(value)(value) for value in parameters]
    formats = [_BINARY if type(value) is bytes else _TEXT for value in parameters]
    try:
        result = _check(connection.pgconn.exec_prepared(prepared.name_of(statement), values, formats), connection)
    except InvalidSqlStatementName:
        # After a rollback psycopg deallocates every statement of the session, ours too. Nothing was run.
        prepared.names.clear()
        result = _check(connection.pgconn.exec_prepared(prepared.name_of(statement), values, formats), connection)
    prepared.rows.set_pgresult(result)
    return prepared.rows.load_rows(0, result.ntuples, tuple)


def _begin(connection: Connection) -> _Prepared:
    prepared = vars(connection)[_ATTRIBUTE] = _Prepared(connection)
    return prepared


def _check(result: PGresult, connection: Connection) -> PGresult:
    if result.status in (ExecStatus.TUPLES_OK, ExecStatus.COMMAND_OK):
        return result
    if connection.pgconn.status == ConnStatus.BAD:
        raise psycopg.OperationalError("the server has ended this connection")
    raise error_from_result(result, connection.info.encoding)


def _numbered(statement: str) -> bytes:
    first, *others = statement.split("%s")
    return (first + "".join(f"${number}{part}" for number, part in enumerate(others, 1))).encode()


def _text(value: str) -> bytes:
    """libpq would cut the value at its first NUL. Raises: DataError."""
    data = value.encode()
    if b"\0" in data:
        raise psycopg.DataError("text holds a NUL character")
    return data


def _list(values: "list[Any]") -> bytes:
    if not all(type(value) in (int, UUID) for value in values):
        raise psycopg.ProgrammingError("only lists of numbers and of UUIDs have a form here")
    return ("{" + ",".join(map(str, values)) + "}").encode()


_DUMPERS: Final[dict[type, Callable[[Any], bytes]]] = {
    str: _text,
    bytes: bytes,
    bool: lambda value: b"t" if value else b"f",
    int: lambda value: b"%d" % value,
    float: lambda value: repr(value).encode(),
    UUID: lambda value: str(value).encode(),
    datetime: lambda value: value.isoformat().encode(),
    list: _list,
}


def _dumper(value: Any) -> Callable[[Any], bytes]:
    """Members of an enumeration are texts, too. Raises: ProgrammingError for what has no form here."""
    found = _DUMPERS.get(type(value)) or (_text if isinstance(value, str) else None)
    if found is None:
        raise psycopg.ProgrammingError(f"a {type(value).__name__} has no form here")
    return found
