"""What several of these share: an effect server, and a worker whose write tool reaches it."""

from collections.abc import Iterator

import pytest

from tests.effects import EffectServer
from tests.factories import Tenancy, make_tenancy
from toolsys.ports import Runtime


@pytest.fixture
def effects() -> Iterator[EffectServer]:
    with EffectServer() as server:
        yield server


@pytest.fixture
def writer(database: None, effects: EffectServer, worker: Runtime) -> tuple[Tenancy, Runtime]:
    """A tenant, and a worker whose write tool reaches this test's own effect server."""
    return make_tenancy("acme"), effects.installed_in(worker)
