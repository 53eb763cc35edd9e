"""The registry at start, and with specs from outside."""

from typing import Any
from uuid import UUID

import pytest

from tests.spec.requirements import gate
from tests.unit.specs import CEILING, spec
from toolsys.domain.context import ToolExecutionContext
from toolsys.domain.registration import Rejection
from toolsys.domain.results import ToolResult
from toolsys.domain.spec import JsonObject, ToolSource, ToolSpec
from toolsys.domain.trust import TrustLevel
from toolsys.registry import RegistrationError, Registry, pin_of


class Inert:
    """A tool that is never called."""

    binding = ""

    def __init__(self, spec: ToolSpec) -> None:
        self.spec = spec

    async def execute(self, arguments: JsonObject, context: ToolExecutionContext) -> ToolResult:
        raise NotImplementedError


def no_pin(_tenant: str, _session: UUID) -> JsonObject:
    return {}


def registry(*specs: ToolSpec) -> Registry:
    return Registry([Inert(found) for found in specs], {}, no_pin, output_ceiling_bytes=CEILING)


@gate("gate.10", "names.domains")
@pytest.mark.parametrize(
    "changes",
    [
        {"name": "mcp.acme.read"},
        {"name": "device.phone.ring"},
        {"name": "mcp.acme.read", "source": ToolSource.MCP, "server_id": "acme"},
        {"name": "nowhere.read"},
        {"maximum_output_bytes": CEILING + 1},
        {"input_schema": {"type": "object", "properties": {"a": {"type": "strin"}}}},
    ],
)
def test_a_builtin_that_breaks_a_rule_stops_the_start(changes: dict[str, Any]) -> None:
    with pytest.raises(RegistrationError, match=str(changes.get("name", "math.evaluate"))):
        registry(spec(), spec(**{"name": "math.second", **changes}) if "name" in changes else spec(**changes))


def test_two_builtins_of_one_name_stop_the_start() -> None:
    with pytest.raises(RegistrationError, match=r"math\.evaluate"):
        registry(spec(), spec(version="2"))


@gate("registration.siblings", "gate.2")
def test_a_bad_tool_from_outside_costs_its_siblings_nothing() -> None:
    good = spec(name="mcp.acme.good", source=ToolSource.MCP, server_id="acme", output_trust=TrustLevel.PLATFORM)
    bad = good.model_copy(update={"name": "mcp.acme.bad", "input_schema": {"type": "object", "$ref": "http://x/y"}})
    worse = good.model_copy(update={"name": "mcp.acme.worse", "maximum_output_bytes": CEILING + 1})
    kept, report = registry().admissible([bad, good, worse])
    forced = {"output_trust": TrustLevel.EXTERNAL_UNTRUSTED, "allow_parallel": False}
    assert kept == [good.model_copy(update=forced)]
    assert report.accepted == ("mcp.acme.good",)
    assert report.rejected == (
        Rejection("mcp.acme.bad", "schema.input", "remote reference 'http://x/y'"),
        Rejection("mcp.acme.worse", "limits.output_ceiling", f"maximum_output_bytes must lie in 1..{CEILING}"),
    )


def test_a_session_is_offered_what_is_enabled_and_permitted_in_name_order() -> None:
    held = registry(spec(name="web.b", required_scopes=frozenset({"web.use"})), spec(name="web.a"), spec(name="math.x"))
    offered = {
        (glob, scopes): [found.name for found in held.specs_for_session("acme", [glob], frozenset(scopes))]
        for glob in ("*", "web.*")
        for scopes in ((), ("web.use",))
    }
    assert offered == {
        ("*", ()): ["math.x", "web.a"],
        ("*", ("web.use",)): ["math.x", "web.a", "web.b"],
        ("web.*", ()): ["web.a"],
        ("web.*", ("web.use",)): ["web.a", "web.b"],
    }


@gate("registry.pinned")
def test_a_pin_is_addressed_by_exactly_its_set() -> None:
    one, two = spec(name="math.one", required_scopes=frozenset({"b", "a"})), spec(name="math.two")
    pinned, sha = pin_of([one, two])
    assert pin_of([two, one]) == (pinned, sha)
    assert {name: ToolSpec.model_validate(stored) for name, stored in pinned.items()} == {
        "math.one": one,
        "math.two": two,
    }
    others = [[one], [one, two.model_copy(update={"version": "2"})], [one, two.model_copy(update={"description": "x"})]]
    assert len({sha, *(pin_of(other)[1] for other in others)}) == 4
