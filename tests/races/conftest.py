"""The ground of the long form: servers of the races' own, two workers and a scheduler on them."""

import os
from collections.abc import Iterator

import pytest

from config import wiring
from tests.races import actor
from tests.races.crew import Crew
from tests.races.ground import Ground
from toolsys.composition import composed


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests with a crew come last: while it lives, its workers take whatever this process proposes."""
    items.sort(key=lambda item: "crew" in getattr(item, "fixturenames", ()))


@pytest.fixture(scope="session")
def _ground(_database: None) -> Iterator[Crew]:
    builtins = wiring.builtins
    ground = Ground(lease_seconds=float(os.environ.get("RACES_LEASE_SECONDS", "1")))
    os.environ[actor.EFFECTS] = ground.environment[actor.EFFECTS]
    actor.install()
    composed.cache_clear()  # an earlier test's views know no race tools
    try:
        yield Crew(ground)
    finally:
        wiring.builtins = builtins
        composed.cache_clear()
        del os.environ[actor.EFFECTS]
        ground.close()


@pytest.fixture
def crew(_ground: Crew) -> Iterator[Crew]:
    """Two living workers and a scheduler; every gate is open before and after."""
    _ground.ready()
    yield _ground
    _ground.leave()
