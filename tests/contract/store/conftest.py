"""Each contract test runs in both worlds."""

from collections.abc import Iterator

import pytest

from tests.contract.store.memory_world import MemoryWorld
from tests.contract.store.sql_world import SqlWorld
from tests.contract.store.worlds import World


@pytest.fixture(params=["memory", "sql"])
def world(request: pytest.FixtureRequest) -> Iterator[World]:
    if request.param == "memory":
        yield MemoryWorld()
        return
    request.getfixturevalue("database")
    real = SqlWorld()
    yield real
    real.close()
