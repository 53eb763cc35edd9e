"""Every migration can be taken back, all of them to none, and what then goes forward again is the same schema."""

import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Any, Final

import psycopg
import pytest

from tests.servers import ROOT, URLS, WORKER, address, drop

pytestmark = pytest.mark.slow

APPS: Final = ("toolsys", "mcpcatalog", "approvals")
# Everything that a migration makes: as text, in an order that does not depend on when it was made.
SCHEMA: Final = """
    SELECT 'column', table_name, column_name, concat_ws(' ', data_type, is_nullable, column_default)
    FROM information_schema.columns WHERE table_schema = 'public'
    UNION ALL SELECT 'index', tablename, indexname, indexdef FROM pg_indexes WHERE schemaname = 'public'
    UNION ALL SELECT 'constraint', conrelid::regclass::text, conname, pg_get_constraintdef(oid)
    FROM pg_constraint WHERE connamespace = 'public'::regnamespace
    UNION ALL SELECT 'policy', tablename, policyname, concat_ws(' ', roles::text, cmd, qual, with_check)
    FROM pg_policies WHERE schemaname = 'public'
    UNION ALL SELECT 'trigger', tgrelid::regclass::text, tgname, pg_get_triggerdef(oid)
    FROM pg_trigger WHERE NOT tgisinternal
    UNION ALL SELECT 'function', proname, pg_get_userbyid(proowner), pg_get_functiondef(oid)
    FROM pg_proc WHERE pronamespace = 'public'::regnamespace AND prokind = 'f'
    UNION ALL SELECT 'table', relname, concat_ws(' ', relrowsecurity, relforcerowsecurity, pg_get_userbyid(relowner)),
        (SELECT string_agg(a::text, ' ' ORDER BY a::text) FROM unnest(relacl) a)
    FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind = 'r'
    UNION ALL SELECT 'right', attrelid::regclass::text, attname,
        (SELECT string_agg(a::text, ' ' ORDER BY a::text) FROM unnest(attacl) a)
    FROM pg_attribute JOIN pg_class ON pg_class.oid = attrelid
    WHERE relnamespace = 'public'::regnamespace AND relkind = 'r' AND attacl IS NOT NULL
"""


@pytest.fixture
def addresses() -> Iterator[dict[str, str]]:
    """The addresses of a database of its own with today's schema."""
    name = f"backwards_{WORKER}"
    with psycopg.connect(address("DATABASE_OWNER_URL", "postgres"), autocommit=True) as owner:
        drop(owner, name)
        owner.execute(f"CREATE DATABASE {name} TEMPLATE {os.environ['TEST_TEMPLATE']}")
        yield {variable: address(variable, name) for variable in URLS}
        drop(owner, name)


def migrate(addresses: dict[str, str], *what: str) -> None:
    command = [sys.executable, "manage.py", "migrate", "--database", "owner", "-v", "0", *what]
    ended = subprocess.run(
        command, cwd=ROOT, env={**os.environ, **addresses}, capture_output=True, text=True, timeout=300, check=False
    )
    assert ended.returncode == 0, ended.stderr[-2000:]


def schema(addresses: dict[str, str]) -> set[tuple[Any, ...]]:
    with psycopg.connect(addresses["DATABASE_OWNER_URL"]) as owner:
        return {tuple(row) for row in owner.execute(SCHEMA)}


def test_all_migrations_go_back_and_forward_again_to_the_same_schema(addresses: dict[str, str]) -> None:
    before = schema(addresses)
    migrate(addresses, "toolsys", "zero")
    left = {row[1] for row in schema(addresses) if row[0] == "table" and row[1].startswith(APPS)}
    functions = {row[1] for row in schema(addresses) if row[0] == "function"}
    assert (left, {name for name in functions if name.startswith(APPS)}) == (set(), set())
    migrate(addresses)
    assert sorted(map(str, before ^ schema(addresses))) == []
