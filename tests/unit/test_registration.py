"""Each rule that a spec must pass before it is registered, and what registration forces."""

from typing import Any

import pytest

from tests.spec.requirements import gate
from tests.unit.specs import CEILING, spec
from toolsys.domain import registration
from toolsys.domain.registration import FORCED_UNTRUSTED
from toolsys.domain.spec import (
    STRICTEST,
    Classification,
    IdempotencyClass,
    RiskLevel,
    SideEffectClass,
    ToolEffect,
    ToolKind,
    ToolSource,
    ToolSpec,
)
from toolsys.domain.trust import TrustLevel

MCP: dict[str, Any] = {
    "name": "mcp.acme.read",
    "source": ToolSource.MCP,
    "server_id": "acme",
    "target_kind": "mcp",
    "output_trust": TrustLevel.EXTERNAL_UNTRUSTED,
}
DEVICE: dict[str, Any] = {**MCP, "name": "device.ring", "source": ToolSource.DEVICE, "server_id": None,
                          "device_id": "phone", "target_kind": "device"}  # fmt: skip
CONTROL: dict[str, Any] = {"name": "tool.call", "kind": ToolKind.CONTROL}
WEB: dict[str, Any] = {
    "name": "web.fetch",
    "target_kind": "web_provider",
    "side_effect": SideEffectClass.NETWORK_READ,
    "output_trust": TrustLevel.EXTERNAL_UNTRUSTED,
}
UNSUBSCRIBE: dict[str, Any] = {
    "name": "email.unsubscribe",
    "target_kind": "unsubscribe_endpoint",
    "side_effect": SideEffectClass.EXTERNAL_WRITE,
    "risk": RiskLevel.MEDIUM,
    "idempotency": IdempotencyClass.IDEMPOTENT,
    "allow_parallel": False,
}


def reasons(**changes: Any) -> list[str]:
    found = registration.defects(spec(**changes), output_ceiling_bytes=CEILING)
    return [rejection.reason for rejection in found]


@gate("gate.1")
@pytest.mark.parametrize(
    "declared",
    [{}, MCP, DEVICE, CONTROL, WEB, UNSUBSCRIBE],
    ids=["builtin", "mcp", "device", "control", "web", "unsub"],
)
def test_a_spec_that_keeps_every_rule_is_accepted(declared: dict[str, Any]) -> None:
    assert reasons(**declared) == []


@gate("gate.1", "gate.10", "names.domains")
@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"name": "Math.evaluate"}, "name.grammar"),
        ({"name": "m." + "x" * 95}, "name.grammar"),
        ({"name": "mcp.acme.read"}, "name.reserved_domain"),
        ({"name": "device.phone.ring"}, "name.reserved_domain"),
        ({"name": "unheard.of"}, "name.unknown_domain"),
        ({**MCP, "name": "web.fetch"}, "name.foreign_domain"),
        ({**MCP, "name": "device.acme.read"}, "name.reserved_domain"),
        ({**MCP, "name": "mcp.other.read"}, "name.server_prefix"),
        ({**MCP, "name": "mcp.acme"}, "name.server_prefix"),
        ({**MCP, "server_id": None}, "name.server_prefix"),
        ({**MCP, "name": "mcp.acme.b.read"}, "name.server_prefix"),
        ({**MCP, "name": "mcp.acme.b.read", "server_id": "acme.b"}, "name.server_prefix"),
        ({**MCP, "name": "mcp.acme." + "x" * 49}, "name.remote_length"),
        ({"name": "workspace.write_text", "source": ToolSource.SANDBOX}, "name.foreign_domain"),
        ({"server_id": "acme"}, "owner.foreign"),
        ({"device_id": "phone"}, "owner.foreign"),
        ({**DEVICE, "device_id": None}, "owner.device"),
        ({"target_kind": "mcp"}, "target.source"),
        ({**MCP, "target_kind": "device"}, "target.source"),
        ({"target_kind": "mainframe"}, "target.unknown"),
        ({"maximum_output_bytes": CEILING + 1}, "limits.output_ceiling"),
        ({"maximum_output_bytes": 0}, "limits.output_ceiling"),
        ({"timeout_seconds": 0}, "limits.timeout"),
    ],
)  # fmt: skip
def test_names_and_limits_outside_the_rules_are_refused(changes: dict[str, Any], reason: str) -> None:
    assert reason in reasons(**changes)


@gate("gate.1")
@pytest.mark.parametrize(
    ("changes", "found"),
    [
        ({"input_schema": {"type": "array"}}, ["schema.input"]),
        ({"input_schema": {}}, ["schema.input"]),
        ({"input_schema": {"type": "object", "$schema": "http://json-schema.org/draft-04/schema#"}}, ["schema.input"]),
        ({"input_schema": {"type": "object", "properties": {"a": {"$ref": "https://x/y"}}}}, ["schema.input"]),
        ({"output_schema": {"$ref": "other.json"}}, ["schema.output"]),
        ({"output_schema": {"type": "array"}}, []),
    ],
)
def test_schemas_are_checked_with_the_spec(changes: dict[str, Any], found: list[str]) -> None:
    assert reasons(**changes) == found


@gate("registration.ceiling")
def test_an_output_limit_above_the_ceiling_is_refused_and_not_clamped() -> None:
    (rejection,) = registration.defects(spec(maximum_output_bytes=CEILING + 1), output_ceiling_bytes=CEILING)
    assert rejection == registration.Rejection(
        "math.evaluate", "limits.output_ceiling", f"maximum_output_bytes must lie in 1..{CEILING}"
    )


@gate("registration.control")
@pytest.mark.parametrize(
    ("changes", "found"),
    [
        ({"name": "skill.load"}, ["control.closed_set"]),
        ({"name": "skill.manage", "kind": ToolKind.CONTROL}, ["control.closed_set"]),
        ({"name": "skill.manage"}, []),
        ({"name": "context.compact"}, ["control.domain"]),
        ({"name": "conversation.say", "kind": ToolKind.CONTROL}, ["control.closed_set", "control.domain"]),
        ({**CONTROL, "side_effect": SideEffectClass.WORKSPACE_READ}, ["control.side_effect"]),
        ({**CONTROL, "idempotency": IdempotencyClass.IDEMPOTENT}, []),
        ({**CONTROL, "idempotency": IdempotencyClass.CONDITIONALLY_IDEMPOTENT}, ["control.idempotency"]),
        ({**CONTROL, "idempotency": IdempotencyClass.NON_IDEMPOTENT}, ["control.idempotency"]),
        ({**CONTROL, "target_kind": "sandbox"}, ["control.target"]),
        ({**CONTROL, "source": ToolSource.SANDBOX}, ["name.foreign_domain", "control.target"]),
    ],
)  # fmt: skip
def test_control_tools_are_a_closed_set_in_process_without_effects(changes: dict[str, Any], found: list[str]) -> None:
    assert reasons(**changes) == found


@gate("registration.targets")
@pytest.mark.parametrize(
    ("changes", "found"),
    [
        ({**WEB, "target_kind": "browser_provider", "name": "browser.open"}, []),
        ({**WEB, "side_effect": SideEffectClass.EXTERNAL_WRITE}, ["target.pin"]),
        ({**WEB, "idempotency": IdempotencyClass.IDEMPOTENT}, ["target.pin"]),
        ({**WEB, "output_trust": TrustLevel.INTERNAL_TOOL}, ["target.pin"]),
        ({**WEB, "source": ToolSource.SANDBOX}, ["name.foreign_domain", "target.pin"]),
        ({**UNSUBSCRIBE, "name": "email.context"}, ["target.pin"]),
        ({**UNSUBSCRIBE, "target_kind": "in_process"}, ["target.name"]),
        ({**UNSUBSCRIBE, "risk": RiskLevel.HIGH}, ["target.pin"]),
        ({**UNSUBSCRIBE, "allow_parallel": True}, ["target.pin"]),
        ({**UNSUBSCRIBE, "idempotency": IdempotencyClass.NON_IDEMPOTENT}, ["target.pin"]),
    ],
)
def test_a_network_target_is_valid_with_one_classification_only(changes: dict[str, Any], found: list[str]) -> None:
    assert reasons(**changes) == found


@gate("registration.scopes")
@pytest.mark.parametrize(
    ("scopes", "found"),
    [({"mcp.acme.use"}, []), ({"mcp.acme2.use"}, ["scopes.foreign"]), ({"mcp.acme"}, ["scopes.foreign"]),
     ({"mcp.acme.use", "demo.write"}, ["scopes.foreign"])],
)  # fmt: skip
def test_an_mcp_tool_requires_scopes_of_its_own_server_only(scopes: set[str], found: list[str]) -> None:
    assert reasons(**MCP, required_scopes=frozenset(scopes)) == found


def test_a_builtin_may_require_any_scope() -> None:
    assert reasons(required_scopes=frozenset({"mcp.acme.use"})) == []


@gate("gate.2")
def test_foreign_sources_are_forced_to_untrusted_whatever_they_declare() -> None:
    forced = {
        (source, declared): registration.forced(spec(source=source, output_trust=declared)).output_trust
        for source in ToolSource
        for declared in TrustLevel
    }
    assert {ToolSource.MCP, ToolSource.DEVICE, ToolSource.SANDBOX} == FORCED_UNTRUSTED
    assert forced == {
        (source, declared): declared if source is ToolSource.BUILTIN else TrustLevel.EXTERNAL_UNTRUSTED
        for source, declared in forced
    }


def test_mcp_tools_are_never_parallel() -> None:
    assert registration.forced(spec(**MCP, allow_parallel=True)) == spec(**MCP, allow_parallel=False)
    assert registration.forced(spec(allow_parallel=True)).allow_parallel


@gate("spec.fields")
def test_output_trust_must_be_declared_and_what_is_unclassified_is_the_strictest() -> None:
    assert ToolSpec.model_fields["output_trust"].is_required()
    assert Classification() == STRICTEST == Classification(
        side_effect=SideEffectClass.EXTERNAL_WRITE, risk=RiskLevel.HIGH, idempotency=IdempotencyClass.NON_IDEMPOTENT
    )  # fmt: skip
    with pytest.raises(ValueError, match="status"):
        spec(status="denied")


@gate("spec.stricter")
def test_of_two_classifications_the_stricter_counts_field_by_field() -> None:
    pinned = spec(risk=RiskLevel.HIGH)
    live = Classification(
        side_effect=SideEffectClass.EXTERNAL_READ, risk=RiskLevel.LOW, idempotency=IdempotencyClass.READ_ONLY
    )
    assert pinned.reclassified(live) == spec(risk=RiskLevel.HIGH, side_effect=SideEffectClass.EXTERNAL_READ)
    assert pinned.reclassified(pinned.classification) is pinned


@pytest.mark.parametrize(
    ("side_effect", "idempotency", "effect"),
    [
        (SideEffectClass.EXTERNAL_READ, IdempotencyClass.NON_IDEMPOTENT, ToolEffect.READ_ONLY),
        (SideEffectClass.WORKSPACE_WRITE, IdempotencyClass.IDEMPOTENT, ToolEffect.IDEMPOTENT_WRITE),
        (SideEffectClass.EXTERNAL_WRITE, IdempotencyClass.CONDITIONALLY_IDEMPOTENT, ToolEffect.NON_IDEMPOTENT_WRITE),
    ],
)
def test_the_audit_s_effect_is_derived(
    side_effect: SideEffectClass, idempotency: IdempotencyClass, effect: ToolEffect
) -> None:
    assert Classification(side_effect=side_effect, idempotency=idempotency).effect is effect
