"""An operator lets one server of one tenant have deeper schemas than usual: through discovery, pin and call."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from django.conf import settings
from pydantic import ValidationError

from config import wiring
from config.env import Toolsys
from mcpcatalog import selectors
from mcpcatalog.rules import Rules
from tests.factories import Tenancy
from tests.integration.mcp.conftest import House, Market
from tests.integration.mcp.test_ladder import READ, ended
from tests.spec.requirements import gate
from toolsys.domain.schemas import SchemaCaps
from toolsys.domain.states import OutcomeStatus


def nested(levels: int, inner: Any) -> Any:
    """A schema that is three levels of JSON deeper with each of its own."""
    for _ in range(levels):
        inner = {"type": "object", "properties": {"a": inner}, "required": ["a"]}
    return inner


def wrapped(levels: int, value: Any) -> Any:
    for _ in range(levels):
        value = {"a": value}
    return value


@gate("schemas.raised")
def test_a_deeper_schema_is_offered_and_checked_only_where_an_operator_said_so(
    acme: Tenancy, globex: Tenancy, houses: Callable[[], House], market: Market, monkeypatch: pytest.MonkeyPatch
) -> None:
    name, offer = market.offer([{"name": "t", "description": "d", "inputSchema": nested(9, {"type": "integer"})}])
    offer.answers["tools/call"] = {"content": [{"type": "text", "text": "done"}]}
    raised = Rules(frozenset(), 1_048_576, wiring.egress_policy, {(acme.id, name): SchemaCaps(depth=24)})
    monkeypatch.setattr(selectors, "rules", lambda: raised)
    house = houses()
    offered = house.offer(acme, market.at(name, acme.id, classification=READ))
    refused = house.offer(globex, market.at(name, globex.id, classification=READ))
    (good, bad) = (offered.propose((f"mcp.{name}.t", wrapped(9, value)))[0] for value in (7, "seven"))
    assert ended(offered, house, good) == (OutcomeStatus.SUCCEEDED, "tool.succeeded")
    assert offered.call(bad).reason_code == "tool.arguments_invalid"
    (unknown,) = refused.propose((f"mcp.{name}.t", wrapped(9, 7)))
    assert refused.call(unknown).reason_code == "policy.matrix.unknown_tool"


@gate("schemas.raised")
def test_what_an_operator_says_has_its_own_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    def said(**limit: Any) -> Any:
        monkeypatch.setenv("TOOLSYS_MCP_SCHEMA_LIMITS", json.dumps([{"tenant": "acme", "server": "crm", **limit}]))
        return Toolsys()

    monkeypatch.setattr(settings, "TOOLSYS", said(depth=24))
    assert wiring.mcp_rules().schema_caps == {("acme", "crm"): SchemaCaps(depth=24)}
    for wrong in ({"depth": 15}, {"depth": 49}, {"bytes": 262_145}, {"nodes": 1}):
        with pytest.raises(ValidationError, match="mcp_schema_limits"):
            said(**wrong)
