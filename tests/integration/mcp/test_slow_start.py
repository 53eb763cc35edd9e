"""A server that is slow to start is not mistaken for one that speaks another protocol, whichever era it is of."""

import sys
from collections.abc import Callable

import pytest

from mcpcatalog.sdk.connection import Timeouts
from tests.hostile.piping import SCRIPT
from tests.integration.mcp.conftest import TIME_SERVER, Bench, secret, stdio
from tests.spec.requirements import gate

pytestmark = pytest.mark.slow

SERVERS = {"2025-11-25": (sys.executable, SCRIPT, "is-well"), "2026-07-28": TIME_SERVER}


@gate("mcp.slow_start")
@pytest.mark.parametrize("revision", SERVERS)
@pytest.mark.parametrize("hint", ["", "2025-11-25", "2026-07-28"])
def test_who_starts_later_than_the_first_try_lasts_is_connected_all_the_same(
    bench: Callable[..., Bench], revision: str, hint: str
) -> None:
    here = bench(timeouts=Timeouts(connect=25.0, probe=0.2))
    late = ("/bin/sh", "-c", 'sleep 1; exec "$@"', "late", *SERVERS[revision])
    found = here.run(here.pool.acquire(stdio(*late, negotiated_revision=hint), "s", secret), 30.0).revision
    # A server of both eras may hold us to the first word that it had from us.
    assert found in {revision, hint}
