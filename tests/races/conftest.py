"""The ground of the long form: servers of the races' own, two workers and a scheduler on them."""

import os
from collections.abc import Iterator

import pytest

from config import wiring
from tests.races import actor
from tests.races.crew import Crew
from tests.races.ground import Ground


@pytest.fixture(scope="session")
def _ground(_database: None) -> Iterator[Crew]:
    builtins = wiring.builtins
    ground = Ground(lease_seconds=float(os.environ.get("RACES_LEASE_SECONDS", "1")))
    os.environ[actor.EFFECTS] = ground.environment[actor.EFFECTS]
    actor.install()
    try:
        yield Crew(ground)
    finally:
        wiring.builtins = builtins
        del os.environ[actor.EFFECTS]
        ground.close()


@pytest.fixture
def crew(_ground: Crew) -> Iterator[Crew]:
    """Two living workers and a scheduler; every gate is open before and after."""
    _ground.ready()
    yield _ground
    _ground.leave()
