"""A standing grant as it is judged: which calls it fits. Pure; compiled once per authorization epoch.

How often it was used, and whether it has ended, only the database says, at the moment of the intent. A grant never
loosens by a value that cannot be compared, nor for a tool that is not the very one it was given for. Source: DESIGN §5.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final
from uuid import UUID

from pydantic import Field, TypeAdapter

from approvals import conditions
from approvals.conditions import CompiledCondition, Condition
from toolsys.domain import seats
from toolsys.domain.binding import tool_digest
from toolsys.domain.calls import Facts, ProposedAction
from toolsys.domain.seats import Seat
from toolsys.domain.trust import TrustLevel

CONDITIONS_LIMIT: Final = 20
Conditions = Annotated[list[Condition], Field(min_length=1, max_length=CONDITIONS_LIMIT)]
_CONDITIONS: Final = TypeAdapter(Conditions)
_SEATS: Final = TypeAdapter(Annotated[tuple[Seat, ...], Field(min_length=1, max_length=seats.SEATS_LIMIT)])


@dataclass(frozen=True, slots=True)
class CompiledGrant:
    """`principal` None is every principal of the agent; `origin_trust` is the least trusted room it was given for."""

    id: UUID
    tool_name: str
    tool_digest: str
    agent: UUID
    principal: UUID | None
    seats: tuple[Seat, ...]
    origin_trust: TrustLevel
    conditions: tuple[CompiledCondition, ...]

    def fits(self, action: ProposedAction, facts: Facts, needed: Sequence[Seat]) -> bool:
        if action.tool_name != self.tool_name or facts.agent.id != self.agent:
            return False
        if self.principal is not None and facts.principal.id != self.principal:
            return False
        if action.origin_trust.rank > self.origin_trust.rank or not seats.covers(self.seats, needed):
            return False
        digest = tool_digest(action.tool_name, action.tool_version, action.classification, action.binding)
        return digest == self.tool_digest and all(each.asked(action.arguments) is True for each in self.conditions)


def parsed(value: Any) -> list[Condition]:
    """Raises: pydantic.ValidationError."""
    return _CONDITIONS.validate_python(value)


def compiled(
    *, identifier: UUID, tool_name: str, digest: str, agent: UUID, principal: UUID | None, asked: Any,
    origin_trust: str, stored: Any,
) -> CompiledGrant:  # fmt: skip
    """Raises: ValueError (pydantic.ValidationError) for what cannot be read."""
    return CompiledGrant(
        identifier, tool_name, digest, agent, principal, _SEATS.validate_python(asked), TrustLevel(origin_trust),
        tuple(map(conditions.compiled, parsed(stored))),
    )  # fmt: skip
