"""Statements straight over libpq answer, refuse and fail as the same statement does through Django."""

import uuid
from datetime import UTC, datetime
from typing import Any

import pytest
from django.db import DataError, IntegrityError, OperationalError, ProgrammingError, connections, transaction

from tests.factories import Tenancy
from toolsys import database
from toolsys.domain.trust import TrustLevel

AN_ID = uuid.uuid4()
MOMENT = datetime(2026, 11, 30, 12, 30, 15, 123456, tzinfo=UTC)


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("text", "plain"), ("text", ""), ("text", "Füße \N{SNOWMAN} 'quoted' %s $1 \\x"), ("int", -7),
        ("bigint", 1 << 40), ("float", 0.1), ("boolean", True), ("boolean", False), ("uuid", AN_ID), ("bytea", b""),
        ("bytea", bytes(range(256))), ("timestamptz", MOMENT), ("uuid[]", [AN_ID, uuid.UUID(int=1)]), ("int[]", []),
        ("int[]", [1, 2, 3]), ("text", None), ("bytea", None),
    ],
    ids=lambda value: value if isinstance(value, str) and value.isidentifier() else None,
)  # fmt: skip
def test_a_value_comes_back_as_it_went(database_: None, kind: str, value: Any) -> None:
    assert database.call(f"SELECT %s::{kind}, 2", (value,)) == [(value, 2)]
    with transaction.atomic():
        assert database.call(f"SELECT %s::{kind}, 2", (value,)) == [(value, 2)]


@pytest.fixture
def database_(database: None) -> None:
    """The module `toolsys.database` has the fixture's name."""


def test_text_with_a_nul_is_refused_and_not_cut(database_: None) -> None:
    with pytest.raises(DataError):
        database.call("SELECT %s::text", ("left\0right",))
    assert database.call("SELECT %s::text", ("left",)) == [("left",)]


def test_a_list_of_texts_has_no_form(database_: None) -> None:
    with pytest.raises(ProgrammingError):
        database.call("SELECT %s::text[]", (['a","b'],))


def test_a_member_of_an_enumeration_is_its_text_and_an_object_has_no_form(database_: None) -> None:
    assert database.call("SELECT %s::text", (TrustLevel.USER,)) == [("user",)]
    with pytest.raises(ProgrammingError):
        database.call("SELECT %s::text", (object(),))


def test_several_rows_and_none(database_: None) -> None:
    assert database.call("SELECT n FROM generate_series(1, %s) n", (3,)) == [(1,), (2,), (3,)]
    assert database.call("SELECT n FROM generate_series(1, %s) n", (0,)) == []


def test_json_arrives_as_text_on_both_ways(database_: None) -> None:
    asked = ("SELECT jsonb_build_object('a', %s::int)", (1,))
    outside = database.call(*asked)
    with transaction.atomic():
        assert database.call(*asked) == outside == [('{"a": 1}',)]


def test_errors_are_djangos_and_the_connection_goes_on(database_: None, acme: Tenancy) -> None:
    with pytest.raises(ProgrammingError):
        database.call("SELECT no_such_function(%s)", (1,))
    with pytest.raises(DataError):
        database.call("SELECT 1 / %s::int", (0,))
    with pytest.raises(IntegrityError):
        database.call("SELECT toolsys_commit_proposal(%s, %s, NULL, NULL)", (acme.id, '{"step": {}, "row": {}}'))
    assert database.call("SELECT 1 / %s::int", (1,)) == [(1,)]


def test_a_session_that_ends_is_an_operational_error(database_: None) -> None:
    with pytest.raises(OperationalError):
        database.call("SELECT pg_terminate_backend(pg_backend_pid())", ())
    # Another session takes its place.
    assert database.call("SELECT 1", ()) == [(1,)]


def test_statements_that_the_session_has_lost_are_prepared_again(database_: None) -> None:
    """psycopg deallocates all of them after a rollback."""
    assert database.call("SELECT %s::int", (1,)) == [(1,)]
    with connections["default"].cursor() as cursor:
        cursor.execute("DEALLOCATE ALL")
    assert database.call("SELECT %s::int", (2,)) == [(2,)]
    assert database.call("SELECT %s::text", ("new",)) == [("new",)]
