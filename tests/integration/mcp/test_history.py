"""A server that keeps changing its catalog: what it can have us keep in a day is bounded, and nothing known is lost."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from mcpcatalog import history, mapping, selectors, services
from mcpcatalog.models import CatalogChange, CatalogTool, McpServer
from mcpcatalog.remote import Catalog, CatalogChurning, RemoteTool, ServerConfig
from tests.factories import Tenancy
from tests.integration.mcp.conftest import House, Market
from tests.integration.mcp.offering import Offer
from tests.integration.mcp.test_ladder import READ, ended, events, proposed
from tests.spec.requirements import gate
from toolsys.tenancy import tenant_transaction

pytestmark = pytest.mark.slow


def declare(offer: Offer, number: int, size: int = 10) -> None:
    said = {"type": "object", "description": f"{number} " + "x" * size}
    offer.answers["tools/list"] = {"tools": [{"name": "t", "inputSchema": said}]}


def again(tenancy: Tenancy, house: House, name: str) -> None:
    """Discover at once, however short ago that failed."""
    with tenant_transaction(tenancy.id):
        McpServer.objects.filter(server_id=name).update(discovered_fingerprint="", failed_fingerprint="")
    house.provider.refresh(tenancy.id, name)


def rows(tenancy: Tenancy) -> tuple[int, int]:
    with tenant_transaction(tenancy.id):
        return CatalogTool.objects.count(), CatalogChange.objects.count()


def failure(tenancy: Tenancy) -> str:
    with tenant_transaction(tenancy.id):
        return McpServer.objects.get(tenant_id=tenancy.id).last_failure_code


@gate("history.bounded")
def test_changes_of_a_day_are_bounded_and_what_is_known_stays(
    acme: Tenancy, houses: Callable[[], House], market: Market, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(history, "CHANGES_A_DAY", 3)
    name, offer = market.offer()
    declare(offer, 0)
    house, config = houses(), market.at(name, acme.id, classification=READ)
    acme = house.offer(acme, config)
    for number in range(1, 8):
        declare(offer, number)
        again(acme, house, name)
    assert rows(acme) == (4, 3), "the first catalog, and three changes of it"
    assert failure(acme) == "tool.protocol_error"
    (spec,) = house.provider.specs(acme.id)
    assert spec.input_schema["description"].startswith("3 ")
    declare(offer, 3)
    again(acme, house, name)
    assert (rows(acme), failure(acme)) == ((4, 3), ""), "the catalog that is known is no change"
    declare(offer, 9)
    later = house.new_session(acme)
    fresh = houses()
    assert ended(later, fresh, proposed(later, config))[1] == "tool.protocol_error"
    assert offer.sent("tools/call") == [], "nothing is called under a declaration that was not recorded"
    assert len(events(acme, "mcp.catalog.changed")) == 3


@gate("history.bounded")
def test_bytes_of_a_day_are_bounded_and_the_next_day_has_room(
    acme: Tenancy, houses: Callable[[], House], market: Market, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(history, "BYTES_A_DAY", 5_000)
    name, offer = market.offer()
    declare(offer, 0, 2_000)
    house, config = houses(), market.at(name, acme.id, classification=READ)
    acme = house.offer(acme, config)
    for number in (1, 2, 3):
        declare(offer, number, 2_000)
        again(acme, house, name)
    assert rows(acme) == (3, 2)
    assert failure(acme) == "tool.protocol_error"
    with pytest.raises(CatalogChurning):
        record(acme, config, offer, timezone.now())
    record(acme, config, offer, timezone.now() + timedelta(days=1, minutes=1))
    assert rows(acme) == (4, 3)


def record(tenancy: Tenancy, config: ServerConfig, offer: Offer, at: Any) -> None:
    """Record what the server declares now, as a discovery at that time does."""
    answer = offer.answers["tools/list"]
    assert isinstance(answer, dict)
    tools = tuple(RemoteTool(each["name"], "", each["inputSchema"]) for each in answer["tools"])
    catalog = Catalog(tools, (), "2026-07-28")
    state = selectors.server(tenancy.id, config.server_id, {})
    assert state is not None
    services.record_discovery(
        state.config, catalog, mapping.map_catalog(state.config, catalog, output_ceiling_bytes=1_048_576), at=at
    )
