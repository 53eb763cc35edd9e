"""The tools of the model, one for each way that a call can be repeated, and the registry that offers one of them.

A tool answers as the schedule says: `ok`, a known failure that time may mend (`busy`) or not (`refused`), an unknown
outcome, a time-out after the effect (`late`); and before it a connection that is `ready`, `absent` now, or `barred`.
Touching the world is telling the witness.
"""

from collections import deque
from typing import Any, Final

from tests.model.actors import Actor
from tests.model.witness import Witness
from tests.unit.specs import spec
from toolsys.domain.calls import Facts
from toolsys.domain.context import ToolExecutionContext
from toolsys.domain.results import TextPart, ToolFailure, ToolFailureKind, ToolResult
from toolsys.domain.spec import (
    STRICTEST,
    Classification,
    IdempotencyClass,
    JsonObject,
    RiskLevel,
    SideEffectClass,
    ToolSpec,
)
from toolsys.leases import Held
from toolsys.ports import NotAvailable, Tool

ABSENCES: Final = {"absent": "tool.server_unreachable", "barred": "tool.server_unauthorized"}
FAILURES: Final = {
    "busy": (ToolFailureKind.UPSTREAM_ERROR, "tool.rate_limited"),
    "refused": (ToolFailureKind.UPSTREAM_ERROR, "tool.upstream_error"),
    "unknown": (ToolFailureKind.OUTCOME_UNKNOWN, "tool.outcome_unknown"),
}
SCHEMA: Final[JsonObject] = {"type": "object", "properties": {"line": {"type": "string"}}}


def _spec(name: str, effect: SideEffectClass, idempotency: IdempotencyClass, **changes: Any) -> ToolSpec:
    return spec(
        name=f"model.{name}", input_schema=SCHEMA, side_effect=effect, idempotency=idempotency, timeout_seconds=30,
        **changes,
    )  # fmt: skip


_WRITE, _KEYED = SideEffectClass.WORKSPACE_WRITE, IdempotencyClass.CONDITIONALLY_IDEMPOTENT
SPECS: Final = {
    declared.name.removeprefix("model."): declared
    for declared in (
        _spec("read", SideEffectClass.NONE, IdempotencyClass.READ_ONLY),
        _spec("fetch", SideEffectClass.EXTERNAL_READ, IdempotencyClass.READ_ONLY),
        _spec("put", _WRITE, IdempotencyClass.IDEMPOTENT),
        _spec("keyed", _WRITE, _KEYED, passes_idempotency_key=True),
        _spec("keyless", _WRITE, _KEYED),
        _spec("once", _WRITE, IdempotencyClass.NON_IDEMPOTENT),
        # External and of high risk: it is held until somebody approves it.
        _spec("held", SideEffectClass.EXTERNAL_WRITE, IdempotencyClass.NON_IDEMPOTENT, risk=RiskLevel.HIGH),
    )
}


class ModelTool:
    """One worker's view of the tool. Never awaits; pauses its actor instead."""

    binding = "model"

    def __init__(self, declared: ToolSpec, registry: "ModelRegistry", actor: Actor) -> None:
        self.spec = declared
        self._registry = registry
        self._actor = actor

    async def prepare(self, context: ToolExecutionContext) -> None:
        self._actor.pause("preparing")
        self._registry.witness.prepared(self._actor.name)
        answers = self._registry.answers
        answer = answers.popleft() if answers and answers[0] in {"ready", *ABSENCES} else "ready"
        if answer in ABSENCES:
            raise NotAvailable(ABSENCES[answer], "the model says so")

    async def execute(self, arguments: JsonObject, context: ToolExecutionContext) -> ToolResult:
        held = context.cancellation
        assert isinstance(held, Held)
        self._registry.witness.sent(held.claim, self.spec, context.idempotency_key)
        self._actor.pause("sent")
        answer = self._registry.answers.popleft() if self._registry.answers else "ok"
        if answer == "late":
            raise TimeoutError
        if answer not in FAILURES:
            return ToolResult(ok=True, content=(TextPart(text="done"),))
        kind, code = FAILURES[answer]
        return ToolResult(ok=False, failure=ToolFailure(kind=kind, reason_code=code))


class ModelRegistry:
    """Offers one tool. `classification` is what an operator says of it now; the pin stays as it was."""

    def __init__(self, declared: ToolSpec, answers: deque[str], witness: Witness) -> None:
        self.declared = declared
        self.answers = answers
        self.witness = witness
        self.is_withdrawn = False

    def tighten(self) -> None:
        self.declared = self.declared.reclassified(
            Classification(
                side_effect=self.declared.side_effect, risk=self.declared.risk, idempotency=STRICTEST.idempotency
            )
        )

    def loosen(self) -> None:
        """Take back what was said since the pin, which has no effect at all; a row keeps what it was written with."""
        harmless = {"side_effect": SideEffectClass.NONE, "idempotency": IdempotencyClass.READ_ONLY}
        self.declared = self.declared.model_copy(update=harmless)

    def seen_by(self, actor: Actor) -> "ActorRegistry":
        return ActorRegistry(self, actor)


class ActorRegistry:
    """Implements `ports.ToolRegistry` for one process."""

    def __init__(self, registry: ModelRegistry, actor: Actor) -> None:
        self._registry = registry
        self._actor = actor

    def resolve(self, name: str, facts: Facts) -> Tool | None:
        if self._registry.is_withdrawn:
            raise NotAvailable("tool.withdrawn", "the model says so")
        declared = self._registry.declared
        return ModelTool(declared, self._registry, self._actor) if declared.name == name else None
