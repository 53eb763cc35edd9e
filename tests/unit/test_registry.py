"""The registry at start, and with specs from outside."""

import json
from collections.abc import Collection, Sequence
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

import pytest
from pydantic import ValidationError

from config.env import Toolsys
from tests.spec.requirements import gate
from tests.unit.specs import CEILING, spec
from toolsys.domain.calls import Facts, SessionFacts
from toolsys.domain.context import ToolExecutionContext
from toolsys.domain.offering import Limit
from toolsys.domain.registration import Rejection
from toolsys.domain.results import ToolResult
from toolsys.domain.spec import JsonObject, RiskLevel, ToolKind, ToolSource, ToolSpec
from toolsys.domain.trust import TrustLevel
from toolsys.pins import pin_of
from toolsys.ports import NotAvailable, Tool
from toolsys.registry import RegistrationError, Registry, ToolNotFoundError


class Inert:
    """A tool that is never called."""

    binding = ""

    def __init__(self, spec: ToolSpec) -> None:
        self.spec = spec

    async def execute(self, arguments: JsonObject, context: ToolExecutionContext) -> ToolResult:
        raise NotImplementedError


class Offering:
    """A provider of MCP tools; what `gone` names was withdrawn since."""

    domain = "mcp"

    def __init__(self, *specs: ToolSpec, gone: str = "") -> None:
        self._specs = list(specs)
        self._gone = gone

    def specs(self, tenant_id: str) -> list[ToolSpec]:
        return self._specs

    def withheld(self, tenant_id: str) -> list[ToolSpec]:
        return []

    def sources(self, tenant_id: str) -> frozenset[str]:
        return frozenset()

    def refresh_keys(self, tenant_id: str) -> list[str]:
        return []

    def refresh(self, tenant_id: str, key: str) -> None:
        raise NotImplementedError

    def note_pin(
        self, tenant_id: str, session_id: UUID, pinned: Sequence[ToolSpec], refreshed: Collection[str],
        withheld: Sequence[str] = (),
    ) -> None:  # fmt: skip
        raise NotImplementedError

    def bind(self, tenant_id: str, pinned: ToolSpec, authz_epoch: int, session_id: UUID) -> Tool:
        if pinned.name == self._gone:
            raise NotAvailable("tool.withdrawn")
        return Inert(pinned)


def no_pin(_tenant: str, _session: UUID) -> JsonObject:
    return {}


def registry(*specs: ToolSpec, provider: Offering | None = None, limits: Sequence[Limit] = ()) -> Registry:
    providers = {"mcp": provider} if provider else {}
    return Registry([Inert(found) for found in specs], providers, no_pin, output_ceiling_bytes=CEILING, limits=limits)


def remote(name: str, **changes: Any) -> ToolSpec:
    declared = {"source": ToolSource.MCP, "server_id": "acme", "target_kind": "mcp"}
    return spec(name=f"mcp.acme.{name}", **declared | changes)


def pinned_to(held: Registry, *specs: ToolSpec, stored: JsonObject | None = None) -> Facts:
    """Facts of a session that pinned these; only what the registry reads is there."""
    pin = pin_of(specs)
    held._read_pin = lambda _tenant, _session: pin.tools if stored is None else stored
    session = SessionFacts(UUID(int=1), pin.sha256, "standard", "production", is_closed=False)
    return cast("Facts", SimpleNamespace(tenant_id="acme", authz_epoch=1, session=session))


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


@pytest.mark.parametrize("source", [ToolSource.MCP, ToolSource.DEVICE])
def test_only_the_build_brings_builtins(source: ToolSource) -> None:
    with pytest.raises(RegistrationError, match=r"source\.not_here"):
        registry(spec(name=f"{source}.acme.read", source=source, output_trust=TrustLevel.EXTERNAL_UNTRUSTED))


@gate("gate.2")
def test_a_sandbox_tool_that_claims_trust_stops_the_start() -> None:
    declared: dict[str, Any] = {"name": "sandbox.run_command", "source": ToolSource.SANDBOX, "target_kind": "sandbox"}
    with pytest.raises(RegistrationError, match=r"trust\.forced"):
        registry(spec(**declared))
    registry(spec(**declared, output_trust=TrustLevel.EXTERNAL_UNTRUSTED))


def test_a_tool_of_the_build_is_found_by_name_and_version() -> None:
    held = registry(spec(version="2"))
    assert held.get("math.evaluate").spec == held.get("math.evaluate", "2").spec == spec(version="2")
    for name, version in (("math.other", None), ("math.evaluate", "1"), ("math.evaluate", "")):
        with pytest.raises(ToolNotFoundError):
            held.get(name, version)


@gate("registration.siblings", "gate.2")
def test_a_bad_tool_from_outside_costs_its_siblings_nothing() -> None:
    good = remote("good", output_trust=TrustLevel.PLATFORM)
    bad = remote("bad", input_schema={"type": "object", "$ref": "http://x/y"})
    worse, worst = remote("worse", maximum_output_bytes=CEILING + 1), remote("worst", kind=ToolKind.CONTROL)
    report = registry().register_dynamic([bad, good, worse, worst], ToolSource.MCP)
    forced = {"output_trust": TrustLevel.EXTERNAL_UNTRUSTED, "allow_parallel": False}
    assert report.accepted == (good.model_copy(update=forced),)
    assert report.rejected == (
        Rejection("mcp.acme.bad", "schema.input", "remote reference 'http://x/y'"),
        Rejection("mcp.acme.worse", "limits.output_ceiling", f"maximum_output_bytes must lie in 1..{CEILING}"),
        Rejection("mcp.acme.worst", "control.closed_set", "the set of control tools is closed at build time"),
        Rejection("mcp.acme.worst", "control.target", "a control tool runs in process and is built in"),
    )


@gate("names.conflict")
def test_two_tools_of_one_name_are_both_refused() -> None:
    report = registry().register_dynamic([remote("a"), remote("b"), remote("a", version="2")], ToolSource.MCP)
    assert [found.name for found in report.accepted] == ["mcp.acme.b"]
    assert [(bad.name, bad.reason) for bad in report.rejected] == [("mcp.acme.a", "name.duplicate")] * 2


@pytest.mark.parametrize("source", [ToolSource.BUILTIN, ToolSource.SANDBOX, ToolSource.DEVICE])
def test_nothing_but_the_named_source_is_registered_while_running(source: ToolSource) -> None:
    """Neither the build's sources, whatever a provider calls itself, nor another provider's."""
    builtin = registry().register_dynamic([spec(source=ToolSource.BUILTIN)], source)
    foreign = registry().register_dynamic([remote("a")], source)
    for report in (builtin, foreign):
        assert report.accepted == ()
        assert "source.not_here" in {bad.reason for bad in report.rejected}


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
    pin = pin_of([one, two])
    assert pin_of([two, one]) == pin
    assert {name: ToolSpec.model_validate(stored) for name, stored in pin.tools.items()} == {
        "math.one": one,
        "math.two": two,
    }
    others = [[one], [one, two.model_copy(update={"version": "2"})], [one, two.model_copy(update={"description": "x"})]]
    assert len({pin.sha256, *(pin_of(other).sha256 for other in others)}) == 4


def test_what_a_provider_offers_is_examined_before_it_is_pinned() -> None:
    bad = remote("bad", input_schema={"type": "object", "properties": {"a": {"pattern": "("}}})
    held = registry(provider=Offering(remote("good", output_trust=TrustLevel.PLATFORM), bad, spec(name="math.shadow")))
    offered = held.specs_for_session("acme", ["*"], frozenset())
    assert [(found.name, found.output_trust) for found in offered] == [("mcp.acme.good", TrustLevel.EXTERNAL_UNTRUSTED)]


@gate("policy.names")
@pytest.mark.parametrize(
    "written", ["demo.ech\N{CYRILLIC SMALL LETTER O}", "demo echo", ""], ids=["like", "space", "none"]
)
def test_a_limit_on_what_no_tool_can_be_called_stops_the_start(monkeypatch: pytest.MonkeyPatch, written: str) -> None:
    """It would limit nothing, silently."""
    monkeypatch.setenv("TOOLSYS_TOOL_LIMITS", json.dumps([{"tools": "Demo.*", "profiles": ["open"]}]))
    assert [limit.tools for limit in Toolsys().tool_limits] == ["demo.*"]
    monkeypatch.setenv("TOOLSYS_TOOL_LIMITS", json.dumps([{"tools": written, "profiles": ["open"]}]))
    with pytest.raises(ValidationError, match="tool names are of"):
        Toolsys()


@gate("registry.filters")
def test_the_four_filters_of_a_session() -> None:
    limits = [
        Limit("demo.*", environments=frozenset({"staging"})),
        Limit("demo.b", profiles=frozenset({"open"})),
        Limit("math.*", profiles=frozenset({"standard", "open"})),
    ]
    held = registry(spec(name="demo.a"), spec(name="demo.b"), spec(name="math.x"), spec(name="web.a"), limits=limits)
    offered = {
        (profile, environment): " ".join(
            found.name
            for found in held.specs_for_session("acme", ["*"], frozenset(), profile=profile, environment=environment)
        )
        for profile in ("standard", "open", "")
        for environment in ("production", "staging", "")
    }
    assert offered == {
        ("standard", "production"): "math.x web.a",
        ("standard", "staging"): "demo.a math.x web.a",
        ("standard", ""): "math.x web.a",
        ("open", "production"): "math.x web.a",
        ("open", "staging"): "demo.a demo.b math.x web.a",
        ("open", ""): "math.x web.a",
        ("", "production"): "web.a",
        ("", "staging"): "demo.a web.a",
        ("", ""): "web.a",
    }


@gate("registry.pinned")
def test_a_session_resolves_against_what_it_pinned_and_nothing_else() -> None:
    held = registry(spec(), spec(name="math.new"), provider=Offering(remote("a"), remote("new")))
    facts = pinned_to(held, spec(), remote("a"))
    found = [held.resolve(name, facts) for name in ("math.evaluate", "mcp.acme.a")]
    assert [tool and tool.spec for tool in found] == [spec(), remote("a")]
    assert [held.resolve(name, facts) for name in ("math.new", "mcp.acme.new", "", "math")] == [None] * 4


@gate("registry.availability")
def test_what_was_pinned_and_is_gone_is_withdrawn_and_not_unknown() -> None:
    held = registry(
        spec(version="2"), spec(name="demo.a"), provider=Offering(gone="mcp.acme.a"),
        limits=[Limit("demo.*", environments=frozenset({"staging"}))],
    )  # fmt: skip
    facts = pinned_to(held, spec(version="1"), spec(name="math.removed"), spec(name="demo.a"), remote("a"))
    for name in ("math.evaluate", "math.removed", "demo.a", "mcp.acme.a"):
        with pytest.raises(NotAvailable) as gone:
            held.resolve(name, facts)
        assert gone.value.reason_code == "tool.withdrawn"


@gate("registry.pinned")
def test_a_stored_set_that_is_not_the_advertised_one_is_not_used() -> None:
    held = registry(spec())
    changed = pin_of([spec(risk=RiskLevel.HIGH)]).tools
    with pytest.raises(NotAvailable):
        held.resolve("math.evaluate", pinned_to(held, spec(), stored=changed))


def test_a_deprecated_tool_is_offered_with_its_mark_and_an_invisible_one_is_pinned() -> None:
    marked = spec(name="math.old", deprecated=True), spec(name="math.app", model_visible=False)
    offered = registry(*marked).specs_for_session("acme", ["*"], frozenset())
    pinned = pin_of(offered).tools
    assert {name: (found["deprecated"], found["model_visible"]) for name, found in pinned.items()} == {
        "math.old": (True, True),
        "math.app": (False, False),
    }


def test_a_verdict_on_a_schema_is_kept_for_its_catalog_and_no_other() -> None:
    held = registry()
    bad: JsonObject = {"type": "object", "properties": {"a": {"pattern": "("}}}
    assert held.register_dynamic([remote("a", version="h1")], ToolSource.MCP).rejected == ()
    (first,) = held.register_dynamic([remote("a", version="h2", input_schema=bad)], ToolSource.MCP).rejected
    (again,) = held.register_dynamic([remote("a", version="h2", input_schema=bad)], ToolSource.MCP).rejected
    assert first == again
    assert first.reason == "schema.input"
    (ceiling,) = held.register_dynamic(
        [remote("a", version="h1", maximum_output_bytes=CEILING + 1)], ToolSource.MCP
    ).rejected
    assert ceiling.reason == "limits.output_ceiling", "configuration is judged each time"
