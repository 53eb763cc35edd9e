"""What goes out with a call: the idempotency key where the operator put it, arguments as the declared dialect says."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from mcpcatalog.remote import KeyPlace
from tests.factories import Tenancy
from tests.integration.mcp.conftest import House, Market
from tests.integration.mcp.offering import Offer
from tests.integration.mcp.test_ladder import KEYED, READ, ended, proposed
from tests.spec.requirements import gate
from toolsys.domain.states import OutcomeStatus

pytestmark = pytest.mark.slow

ERAS = pytest.mark.parametrize("era", ["modern", "legacy"])
DIALECTS = {
    "draft-07": "http://json-schema.org/draft-07/schema#",
    "2019-09": "https://json-schema.org/draft/2019-09/schema",
    "2020-12": "https://json-schema.org/draft/2020-12/schema",
}


def key_in(place: KeyPlace, offer: Offer, number: int) -> Any:
    """Return what the server got where the key belongs."""
    params = offer.sent("tools/call")[number]
    headers = [each for (method, _), each in zip(offer.seen, offer.headers, strict=True) if method == "tools/call"]
    found = {
        KeyPlace.ARGUMENT: params["arguments"].get("Request-Key"),
        KeyPlace.META: params.get("_meta", {}).get("Request-Key"),
        KeyPlace.HEADER: headers[number].get("request-key"),
    }
    assert {where: value for where, value in found.items() if value and where is not place} == {}
    return found.get(place)


@gate("key.passed")
@ERAS
@pytest.mark.parametrize("place", [KeyPlace.ARGUMENT, KeyPlace.META, KeyPlace.HEADER, KeyPlace.NONE])
def test_the_key_is_where_the_operator_said_and_the_same_when_it_is_sent_again(
    acme: Tenancy, houses: Callable[[], House], market: Market, era: str, place: KeyPlace
) -> None:
    name, offer = market.offer()
    answers: Iterator[dict[str, Any]] = iter([{"content": [], "isError": True}, {"content": []}])
    offer.answers["tools/call"] = lambda _params: next(answers)
    named = {} if place is KeyPlace.NONE else {"key_name": "Request-Key"}
    config = market.at(name, acme.id, era, classification=KEYED, key_place=place, **named)
    house = houses()
    acme = house.offer(acme, config)
    call = proposed(acme, config)
    status, _ = ended(acme, house, call)
    key = acme.call(call).idempotency_key
    if place is KeyPlace.NONE:
        assert (status, len(offer.sent("tools/call"))) == (OutcomeStatus.UNCERTAIN, 1)
        assert key_in(place, offer, 0) is None
        assert key not in repr(offer.seen) + repr(offer.headers)
    else:
        assert status is OutcomeStatus.SUCCEEDED
        assert [key_in(place, offer, number) for number in (0, 1)] == [key, key]


@gate("dialects.honoured")
@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("is_composed", [False, True], ids=["plain", "composed"])
def test_the_declared_dialect_is_honoured_and_closed(
    acme: Tenancy, houses: Callable[[], House], market: Market, dialect: str, is_composed: bool
) -> None:
    # A list of schemas under `items` means something in the older dialects only; later it is `prefixItems`.
    word = "prefixItems" if dialect == "2020-12" else "items"
    pair = {"pair": {"type": "array", word: [{"type": "integer"}, {"type": "string"}]}}
    body: dict[str, Any] = {"allOf": [{"properties": pair}]} if is_composed else {"properties": pair}
    declared = {"$schema": DIALECTS[dialect], "type": "object", **body}
    name, offer = market.offer([{"name": "t", "inputSchema": declared}])
    offer.answers["tools/call"] = {"content": []}
    config = market.at(name, acme.id, classification=READ)
    house = houses()
    acme = house.offer(acme, config)
    (spec,) = house.provider.specs(acme.id)
    assert spec.input_schema == declared, "stored as received"
    for wrong in ({"pair": ["a", 1]}, {"pair": [1, "a"], "other": 1}):
        (refused,) = acme.propose((spec.name, wrong))
        assert acme.call(refused).reason_code == "tool.arguments_invalid"
    assert ended(acme, house, proposed(acme, config, pair=[1, "a"]))[0] is OutcomeStatus.SUCCEEDED
    assert [params["arguments"] for params in offer.sent("tools/call")] == [{"pair": [1, "a"]}]


@gate("dialects.honoured")
def test_a_dialect_that_nobody_here_speaks_costs_its_tool(
    acme: Tenancy, houses: Callable[[], House], market: Market
) -> None:
    older = {"$schema": "http://json-schema.org/draft-04/schema#", "type": "object"}
    name, _ = market.offer([{"name": "old", "inputSchema": older}, {"name": "t", "inputSchema": {"type": "object"}}])
    house = houses()
    acme = house.offer(acme, market.at(name, acme.id, classification=READ))
    assert [spec.name for spec in house.provider.specs(acme.id)] == [f"mcp.{name}.t"]


@gate("auth.no_baggage")
@ERAS
def test_of_us_a_server_is_told_the_execution_s_identifier_and_nothing_else(
    acme: Tenancy, houses: Callable[[], House], market: Market, era: str
) -> None:
    name, offer = market.offer()
    offer.answers["tools/call"] = {"content": []}
    house, config = houses(), market.at(name, acme.id, era, classification=READ)
    acme = house.offer(acme, config)
    call = proposed(acme, config)
    assert ended(acme, house, call)[0] is OutcomeStatus.SUCCEEDED
    (params,) = offer.sent("tools/call")
    (headers,) = [each for (method, _), each in zip(offer.seen, offer.headers, strict=True) if method == "tools/call"]
    said = {name: value for name, value in params["_meta"].items() if not name.startswith("io.modelcontextprotocol/")}
    assert said == {"toolsys.gateway/invocation-id": str(call.invocation_id), "progressToken": said["progressToken"]}
    of_the_protocol = {"mcp-session-id", "mcp-protocol-version", "mcp-method", "mcp-name"}
    assert set(headers) - of_the_protocol == {
        "host", "accept", "accept-encoding", "connection", "content-length", "content-type", "user-agent",
    }  # fmt: skip
