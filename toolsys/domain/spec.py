"""What a tool is declared to be: classification, contract and limits.

`ToolSpec` is TS's type, complete. The enumerations are ordered, the strictest last, so that snapshot and
live classification combine by "the stricter wins". Registration rules live in `domain.registration`.
"""

from enum import StrEnum
from functools import cache
from typing import Any

from pydantic import BaseModel, ConfigDict

from toolsys.domain.ordered import Ordered
from toolsys.domain.trust import TrustLevel

JsonObject = dict[str, Any]


class SideEffectClass(Ordered):
    NONE = "none"
    WORKSPACE_READ = "workspace_read"
    WORKSPACE_WRITE = "workspace_write"
    NETWORK_READ = "network_read"
    EXTERNAL_READ = "external_read"
    EXTERNAL_WRITE = "external_write"

    @property
    def is_write(self) -> bool:
        return self in {SideEffectClass.WORKSPACE_WRITE, SideEffectClass.EXTERNAL_WRITE}


class RiskLevel(Ordered):
    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"


class IdempotencyClass(Ordered):
    READ_ONLY = "read_only"
    IDEMPOTENT = "idempotent"
    CONDITIONALLY_IDEMPOTENT = "conditionally_idempotent"
    NON_IDEMPOTENT = "non_idempotent"


class ToolKind(StrEnum):
    CAPABILITY = "capability"
    CONTROL = "control"


class ToolSource(StrEnum):
    BUILTIN = "builtin"
    MCP = "mcp"
    DEVICE = "device"
    SANDBOX = "sandbox"


class ToolEffect(StrEnum):
    """The audit's three-value view of a tool's effect (AUD); derived, never stored."""

    READ_ONLY = "read_only"
    IDEMPOTENT_WRITE = "idempotent_write"
    NON_IDEMPOTENT_WRITE = "non_idempotent_write"


class Classification(BaseModel):
    """The three declarations that policy and recovery read."""

    model_config = ConfigDict(frozen=True)

    side_effect: SideEffectClass = SideEffectClass.EXTERNAL_WRITE
    risk: RiskLevel = RiskLevel.HIGH
    idempotency: IdempotencyClass = IdempotencyClass.NON_IDEMPOTENT

    def stricter(self, other: "Classification") -> "Classification":
        return _classification(
            self.side_effect.stricter(other.side_effect),
            self.risk.stricter(other.risk),
            self.idempotency.stricter(other.idempotency),
        )

    @property
    def effect(self) -> ToolEffect:
        if not self.side_effect.is_write:
            return ToolEffect.READ_ONLY
        repeatable = self.idempotency in {IdempotencyClass.READ_ONLY, IdempotencyClass.IDEMPOTENT}
        return ToolEffect.IDEMPOTENT_WRITE if repeatable else ToolEffect.NON_IDEMPOTENT_WRITE


STRICTEST = Classification()


@cache
def _classification(side_effect: SideEffectClass, risk: RiskLevel, idempotency: IdempotencyClass) -> Classification:
    """There are few of them, and each call asks for its own ten times."""
    return Classification(side_effect=side_effect, risk=risk, idempotency=idempotency)


class ToolSpec(BaseModel):
    """One tool as the registry knows it.

    `timeout_seconds` and `maximum_output_bytes` are the tool's own limits, `passes_idempotency_key` says that a
    way to hand the application key to the remote side is configured; without it a conditionally idempotent
    tool is treated as non idempotent (DESIGN §4). Source: TS "ToolSpec, completed".
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    version: str
    description: str
    input_schema: JsonObject
    output_schema: JsonObject | None = None
    side_effect: SideEffectClass
    risk: RiskLevel
    idempotency: IdempotencyClass
    required_scopes: frozenset[str] = frozenset()
    timeout_seconds: int
    maximum_output_bytes: int
    allow_parallel: bool
    kind: ToolKind = ToolKind.CAPABILITY
    target_kind: str = "in_process"
    output_trust: TrustLevel
    source: ToolSource = ToolSource.BUILTIN
    server_id: str | None = None
    device_id: str | None = None
    deprecated: bool = False
    model_visible: bool = True
    passes_idempotency_key: bool = False

    @property
    def classification(self) -> Classification:
        return _classification(self.side_effect, self.risk, self.idempotency)

    def reclassified(self, live: Classification) -> "ToolSpec":
        """Return this pinned spec under the stricter of its own and the live classification."""
        merged = self.classification.stricter(live)
        if merged == self.classification:
            return self
        return self.model_copy(update=dict(merged))
