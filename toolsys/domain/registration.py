"""The rules that a `ToolSpec` must pass before the registry accepts it, and what registration forces.

Every rule yields a reason rather than a count, so a rejected tool can be mended. Trust of foreign sources is
overwritten, not checked: a claim to be trustworthy is what an attacker would make. Source: TS "ToolSpec,
completed", "Names", gates 1, 2 and 10; DESIGN §1.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from toolsys.domain import names
from toolsys.domain.schemas import USUAL, SchemaCaps, schema_defect
from toolsys.domain.spec import IdempotencyClass, RiskLevel, SideEffectClass, ToolKind, ToolSource, ToolSpec
from toolsys.domain.trust import TrustLevel

FORCED_UNTRUSTED: Final = frozenset({ToolSource.MCP, ToolSource.DEVICE, ToolSource.SANDBOX})


@dataclass(frozen=True, slots=True)
class TargetPin:
    """What a network-enabled builtin target is valid with, and (if set) the one name it is valid for."""

    side_effect: SideEffectClass
    idempotency: IdempotencyClass
    output_trust: TrustLevel | None = None
    risk: RiskLevel | None = None
    name: str | None = None

    def admits(self, spec: ToolSpec) -> bool:
        return (
            spec.side_effect is self.side_effect
            and spec.idempotency is self.idempotency
            and (self.output_trust is None or spec.output_trust is self.output_trust)
            and (self.risk is None or spec.risk is self.risk)
            and (self.name is None or (spec.name == self.name and not spec.allow_parallel))
        )


_EXTERNAL_READER: Final = TargetPin(
    SideEffectClass.NETWORK_READ, IdempotencyClass.READ_ONLY, TrustLevel.EXTERNAL_UNTRUSTED
)
TARGET_PINS: Final = {
    "web_provider": _EXTERNAL_READER,
    "browser_provider": _EXTERNAL_READER,
    "unsubscribe_endpoint": TargetPin(
        SideEffectClass.EXTERNAL_WRITE, IdempotencyClass.IDEMPOTENT, risk=RiskLevel.MEDIUM, name="email.unsubscribe"
    ),
}
OWN_TARGETS: Final = {"mcp": ToolSource.MCP, "device": ToolSource.DEVICE}
TARGETS: Final = frozenset({"in_process", "sandbox", *TARGET_PINS, *OWN_TARGETS})


@dataclass(frozen=True, slots=True)
class Rejection:
    """Why one tool was not registered. `detail` is for operators and never reaches a model."""

    name: str
    reason: str
    detail: str = ""


@dataclass(frozen=True, slots=True)
class RegistrationReport:
    """What may be registered, as it is registered, and the reasons why the rest may not."""

    accepted: tuple[ToolSpec, ...]
    rejected: tuple[Rejection, ...]


def forced(spec: ToolSpec) -> ToolSpec:
    """Return the spec with what its source forces: untrusted output and, for MCP, no parallel calls."""
    updates: dict[str, object] = {}
    if spec.source in FORCED_UNTRUSTED and spec.output_trust is not TrustLevel.EXTERNAL_UNTRUSTED:
        updates["output_trust"] = TrustLevel.EXTERNAL_UNTRUSTED
    if spec.source is ToolSource.MCP and spec.allow_parallel:
        updates["allow_parallel"] = False
    return spec.model_copy(update=updates) if updates else spec


def defects(spec: ToolSpec, *, output_ceiling_bytes: int, caps: SchemaCaps = USUAL) -> tuple[Rejection, ...]:
    """Return every rule that the spec breaks; an empty tuple means that it may be registered."""
    return (*declaration_defects(spec, output_ceiling_bytes=output_ceiling_bytes), *schema_defects(spec, caps))


def declaration_defects(spec: ToolSpec, *, output_ceiling_bytes: int) -> tuple[Rejection, ...]:
    """Return what is wrong with a spec apart from its schemas."""
    found = [*_name_defects(spec), *_limit_defects(spec, output_ceiling_bytes), *_control_defects(spec)]
    found += [*_target_defects(spec), *_scope_defects(spec)]
    return tuple(Rejection(spec.name, reason, detail) for reason, detail in found)


def schema_defects(spec: ToolSpec, caps: SchemaCaps = USUAL) -> tuple[Rejection, ...]:
    """Return what is wrong with the shape of its schemas; compiling them is `toolsys.validation`."""
    return tuple(Rejection(spec.name, reason, detail) for reason, detail in _schema_defects(spec, caps))


def _name_defects(spec: ToolSpec) -> Iterator[tuple[str, str]]:
    if not names.is_valid_name(spec.name):
        yield "name.grammar", "lower-case segments joined by dots, at most 96 characters"
        return
    domain = names.domain_of(spec.name)
    reserved_for = names.RESERVED_DOMAINS.get(domain)
    if reserved_for is not None and spec.source is not reserved_for:
        yield "name.reserved_domain", f"the domain {domain} belongs to {reserved_for} tools"
    if reserved_for is None and spec.source in {ToolSource.MCP, ToolSource.DEVICE}:
        yield "name.foreign_domain", f"{spec.source} tools live in their own domain"
    if reserved_for is None and domain not in names.BUILTIN_DOMAINS:
        yield "name.unknown_domain", f"{domain} is not in the partition of domains"
    if spec.source is ToolSource.SANDBOX and domain != "sandbox":
        yield "name.foreign_domain", "sandbox tools live in their own domain"
    yield from _owner_defects(spec)


def _owner_defects(spec: ToolSpec) -> Iterator[tuple[str, str]]:
    """Where a tool comes from is in its name, and nothing else names an owner."""
    owner = {ToolSource.MCP: spec.server_id, ToolSource.DEVICE: spec.device_id}.get(spec.source)
    prefix, _, own_name = spec.name.rpartition(".")
    if spec.source is ToolSource.MCP:
        if not names.is_valid_server_id(owner or "") or prefix != f"mcp.{owner}":
            yield "name.server_prefix", "an MCP tool is named mcp.{server_id}.{tool}"
        elif len(own_name) > names.MAXIMUM_REMOTE_LENGTH:
            yield "name.remote_length", f"a normalized remote name has at most {names.MAXIMUM_REMOTE_LENGTH} characters"
    if spec.source is ToolSource.DEVICE and not owner:
        yield "owner.device", "a device tool names its device"
    if (spec.server_id is not None and spec.source is not ToolSource.MCP) or (
        spec.device_id is not None and spec.source is not ToolSource.DEVICE
    ):
        yield "owner.foreign", "only an MCP tool has a server and only a device tool has a device"


def _limit_defects(spec: ToolSpec, ceiling: int) -> Iterator[tuple[str, str]]:
    if not 0 < spec.maximum_output_bytes <= ceiling:
        yield "limits.output_ceiling", f"maximum_output_bytes must lie in 1..{ceiling}"
    if spec.timeout_seconds <= 0:
        yield "limits.timeout", "timeout_seconds must be positive"


def _control_defects(spec: ToolSpec) -> Iterator[tuple[str, str]]:
    listed = spec.name in names.CONTROL_TOOLS
    if listed != (spec.kind is ToolKind.CONTROL):
        yield "control.closed_set", "the set of control tools is closed at build time"
    if not listed and names.domain_of(spec.name) in names.CONTROL_DOMAINS:
        yield "control.domain", "this domain holds control tools only"
    if spec.kind is not ToolKind.CONTROL:
        return
    if spec.side_effect is not SideEffectClass.NONE:
        yield "control.side_effect", "a control tool has no side effect"
    if spec.idempotency not in {IdempotencyClass.READ_ONLY, IdempotencyClass.IDEMPOTENT}:
        yield "control.idempotency", "a control tool is read_only or idempotent"
    if spec.target_kind != "in_process" or spec.source is not ToolSource.BUILTIN:
        yield "control.target", "a control tool runs in process and is built in"


def _target_defects(spec: ToolSpec) -> Iterator[tuple[str, str]]:
    if spec.target_kind not in TARGETS:
        yield "target.unknown", f"{spec.target_kind} is not one of the targets"
    if OWN_TARGETS.get(spec.target_kind, spec.source) is not spec.source:
        yield "target.source", f"the target {spec.target_kind} belongs to {OWN_TARGETS[spec.target_kind]} tools"
    pin = TARGET_PINS.get(spec.target_kind)
    if pin is not None and not (pin.admits(spec) and spec.source is ToolSource.BUILTIN):
        yield "target.pin", f"the target {spec.target_kind} is not valid with this classification"
    for target, required in TARGET_PINS.items():
        if required.name == spec.name and spec.target_kind != target:
            yield "target.name", f"{spec.name} is valid with the target {target} only"


def _scope_defects(spec: ToolSpec) -> Iterator[tuple[str, str]]:
    if spec.source is ToolSource.MCP:
        foreign = [scope for scope in spec.required_scopes if not scope.startswith(f"mcp.{spec.server_id}.")]
        if foreign:
            yield "scopes.foreign", f"an MCP tool may require only mcp.{spec.server_id}.* scopes"


def _schema_defects(spec: ToolSpec, caps: SchemaCaps) -> Iterator[tuple[str, str]]:
    defect = schema_defect(spec.input_schema, caps)
    if defect is not None:
        yield "schema.input", defect
    elif spec.input_schema.get("type") != "object":
        yield "schema.input", "the root must be an object schema"
    if spec.output_schema is not None and (output := schema_defect(spec.output_schema, caps)) is not None:
        yield "schema.output", output
