"""A session resolves against exactly the set that it advertised, whatever the build has besides."""

from dataclasses import replace
from uuid import UUID

import pytest

from tests.contract.store.cases import call_of
from tests.contract.store.memory_world import MemoryWorld
from tests.spec.requirements import gate
from tests.unit.specs import CEILING, spec
from tests.unit.test_registry import Inert
from toolsys.domain.calls import Facts
from toolsys.domain.spec import JsonObject
from toolsys.pins import pin_of
from toolsys.ports import NotAvailable
from toolsys.registry import Registry

PINNED, LATER = spec(), spec(name="math.later")


@pytest.fixture
def facts() -> Facts:
    world = MemoryWorld()
    found = world.store().read_facts(call_of(world))
    return replace(found, session=replace(found.session, tool_schema_sha256=pin_of([PINNED]).sha256))


def registry(*, version: str = "1") -> Registry:
    pinned = pin_of([PINNED]).tools

    def read_pin(tenant: str, session: UUID) -> JsonObject:
        return pinned

    return Registry([Inert(spec(version=version)), Inert(LATER)], {}, read_pin, output_ceiling_bytes=CEILING)


@gate("registry.pinned")
def test_a_tool_of_the_build_that_was_not_advertised_is_not_offered(facts: Facts) -> None:
    assert registry().resolve(LATER.name, facts) is None
    found = registry().resolve(PINNED.name, facts)
    assert found is not None
    assert found.spec == PINNED


@gate("registry.pinned")
def test_another_version_than_the_pinned_one_is_withdrawn(facts: Facts) -> None:
    with pytest.raises(NotAvailable) as gone:
        registry(version="2").resolve(PINNED.name, facts)
    assert gone.value.reason_code == "tool.withdrawn"
