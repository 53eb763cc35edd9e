"""The bodies that runtimes send: their shapes and bounds. Unknown fields are refused, with a pointer to each."""

from collections.abc import Sequence
from typing import Annotated, Any, Final, Literal
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError, WithJsonSchema

from toolsys.domain.rejections import Rejection
from toolsys.domain.seats import Seat
from toolsys.domain.trust import TrustLevel
from toolsys.problems import FieldError, Problem, plainly

MAXIMUM_CALLS: Final = 32
MAXIMUM_STEP: Final = 1_000_000
MAXIMUM_ERRORS: Final = 20
MAXIMUM_POINTER_PART: Final = 64

CallId = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_.:-]{1,128}$")]
Label = Annotated[str, StringConstraints(min_length=1, max_length=128, pattern=r"^[^\x00-\x1f]+$")]
Glob = Annotated[str, StringConstraints(pattern=r"^[a-z0-9_.*?]{1,96}$")]
# Strings are parsed before the schema is asked (`parsing`): what they hold may be one call's fault.
Arguments = Annotated[dict[str, Any], WithJsonSchema({
    "anyOf": [{"type": "object"}, {"type": "string"}],
    "description": "An object, or a JSON string that holds one, as some model APIs send it",
})]  # fmt: skip


class _Body(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class EmptyRequest(_Body):
    """Nothing."""


class SessionRequest(_Body):
    agent: Label
    principal: Label
    environment: Label = "production"
    profile: Label | None = None


class RunBudgets(_Body):
    calls: int | None = Field(None, ge=1, le=1_000_000, strict=True, description="Calls that may begin; held ones too")


class RunRequest(_Body):
    manifest: tuple[Glob, ...] | None = Field(
        None, max_length=256, description="Tools of this run; absent: the whole pin"
    )
    deadline_seconds: float | None = Field(None, gt=0, le=7 * 24 * 3600, strict=True)
    budgets: RunBudgets = RunBudgets(calls=None)
    correlation_id: Annotated[str, StringConstraints(max_length=128, pattern=r"^[^\x00-\x1f]*$")] = ""


class CallRequest(_Body):
    call_id: CallId
    name: Label
    arguments: Arguments
    argument_trust: dict[str, TrustLevel] = Field(
        default_factory=dict, description="Believed from keys with trust.assert"
    )


class StepRequest(_Body):
    step_number: int = Field(ge=0, le=MAXIMUM_STEP, strict=True)
    calls: tuple[CallRequest, ...] = Field(min_length=1, max_length=MAXIMUM_CALLS)
    context_trust: tuple[TrustLevel, ...] = Field((), max_length=64)
    correlation_id: Annotated[str, StringConstraints(max_length=128, pattern=r"^[^\x00-\x1f]*$")] = ""


Note = Annotated[str, StringConstraints(max_length=2_000, pattern=r"^[^\x00]*$")]


class DecisionRequest(_Body):
    decision: Literal["approve", "reject", "withdraw"]
    digest: str = Field("", max_length=64, description="What was looked at; needed for all but `withdraw`")
    note: Note = ""
    seat: Seat | None = Field(None, description="The seat to take; absent: the first free one of yours")
    reject_code: Rejection | None = Field(None, description="What the agent is told; only with `reject`")
    password: str = Field("", max_length=1_000, description="Your password again; approving high risk takes it")


class QuarantineRequest(_Body):
    is_quarantining: bool = Field(strict=True, description="Whether changed and new tools of reviewed servers wait")


class AcceptanceRequest(_Body):
    seen: str = Field(min_length=1, max_length=64, description="`seen` of the review that was looked at")
    tools: tuple[UUID, ...] = Field(min_length=1, max_length=50, description="Ids of its `pending` tools")


class GrantRequest(_Body):
    request_id: UUID = Field(description="The held call that the grant is drawn from")
    conditions: tuple[dict[str, Any], ...] = Field(min_length=1, max_length=20)
    maximum_uses: int = Field(ge=1, le=1_000, strict=True)
    expires_seconds: float = Field(ge=60, le=30 * 24 * 3600, strict=True)
    note: Note
    is_for_principal: bool = Field(default=True, strict=True)


class ConfirmationRequest(_Body):
    note: Note = ""
    seat: Seat | None = None
    password: str = Field("", max_length=1_000)


class AccessQuestion(_Body):
    note: Annotated[str, StringConstraints(max_length=500, pattern=r"^[^\x00]*$")] = ""


class AccessAnswer(_Body):
    is_granted: bool = Field(strict=True)
    answer: Annotated[str, StringConstraints(max_length=500, pattern=r"^[^\x00]*$")] = ""


def read[T: _Body](kind: type[T], value: Any) -> T:
    """Raises: Problem (request.invalid) with a pointer to each field at fault, and never its value."""
    try:
        return kind.model_validate(value)
    except ValidationError as error:
        found = error.errors(include_input=False, include_url=False, include_context=False)
        raise Problem("request.invalid", _field_errors([(each["loc"], each["msg"]) for each in found])) from None


def _field_errors(found: Sequence[tuple[tuple[int | str, ...], str]]) -> list[FieldError]:
    """Name the fields; what is only said of a list because of the members in it is left out."""
    inner = {loc[:length] for loc, _ in found for length in range(len(loc))}
    return [FieldError(_pointer(loc), plainly(said)) for loc, said in found if loc not in inner][:MAXIMUM_ERRORS]


def _pointer(loc: tuple[int | str, ...]) -> str:
    """Return a JSON pointer (RFC 6901); the empty one is the whole body."""
    parts = (str(part)[:MAXIMUM_POINTER_PART].replace("~", "~0").replace("/", "~1") for part in loc)
    return "".join(f"/{part}" for part in parts)
