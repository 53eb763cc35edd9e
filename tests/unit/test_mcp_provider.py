"""When a server must be looked at again before the next pin."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from mcpcatalog.remote import ServerConfig, StdioCommand, Transport
from mcpcatalog.selectors import ServerState
from mcpcatalog.staleness import is_stale
from tests.spec.requirements import gate

NOW = datetime(2026, 11, 30, tzinfo=UTC)
HTTP = ServerConfig("acme", "crm", Transport.HTTP, "https://mcp.example/mcp")
STDIO = ServerConfig("acme", "clock", Transport.STDIO, "time", command=StdioCommand(("time-1",)))


def seen(
    config: ServerConfig, *, ago: float | None, failed: float | None = None, fingerprint: str = "", of: str = ""
) -> ServerState:
    """`of` is the configuration that failed, where that was another one."""
    return ServerState(
        config, is_enabled=True, catalog_hash="h", discovered_fingerprint=fingerprint or config.fingerprint,
        last_discovered_at=None if ago is None else NOW - timedelta(seconds=ago),
        last_failed_at=None if failed is None else NOW - timedelta(seconds=failed),
        failed_fingerprint=of or config.fingerprint,
    )  # fmt: skip


@gate("discovery.reuse", "mcp.rotation_retries", "discovery.forgotten")
@pytest.mark.parametrize(
    ("state", "expected"),
    [
        (seen(HTTP, ago=None), True),
        (seen(HTTP, ago=299), False),
        (seen(HTTP, ago=301), True),
        (seen(HTTP, ago=1, fingerprint="another"), True),
        (seen(STDIO, ago=None), True),
        (seen(STDIO, ago=1_000_000), False),
        (seen(STDIO, ago=1, fingerprint="another"), True),
        (seen(HTTP, ago=None, failed=29), False),
        (seen(HTTP, ago=None, failed=31), True),
        (seen(HTTP, ago=400, failed=29), False),
        (seen(HTTP, ago=10, failed=20), False),
        (seen(HTTP, ago=100, failed=31), True),
        (seen(STDIO, ago=100, failed=29), False),
        (seen(STDIO, ago=100, failed=31), True),
        (seen(STDIO, ago=10, failed=31), False),
        (seen(HTTP, ago=None, failed=1, of="before the rotation"), True),
        (seen(HTTP, ago=10, failed=1, of="before the edit"), True),
        (replace(seen(HTTP, ago=10), list_changed_at=NOW), True),
        (replace(seen(HTTP, ago=10), list_changed_at=NOW - timedelta(seconds=11)), False),
    ],
)
def test_staleness(state: ServerState, expected: bool) -> None:
    assert is_stale(state, NOW, 300) is expected


@gate("discovery.reuse")
def test_a_release_that_changes_a_command_makes_its_catalog_stale() -> None:
    released = ServerConfig("acme", "clock", Transport.STDIO, "time", command=StdioCommand(("time-2",)))
    assert is_stale(seen(released, ago=1, fingerprint=STDIO.fingerprint), NOW, 300)
