"""The bodies that runtimes send: their shapes and bounds. Unknown fields are refused, with a pointer to each."""

import json
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints, ValidationError

from toolsys.domain.trust import TrustLevel
from toolsys.problems import FieldError, Problem

MAXIMUM_CALLS = 32
MAXIMUM_STEP = 1_000_000

CallId = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_.:-]{1,128}$")]
Label = Annotated[str, StringConstraints(min_length=1, max_length=128, pattern=r"^[^\x00-\x1f]+$")]
Glob = Annotated[str, StringConstraints(pattern=r"^[a-z0-9_.*?]{1,96}$")]


def _parsed(value: Any) -> Any:
    """Accept an object, or a JSON string that holds one, as some model APIs send it."""
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        raise ValueError("a JSON object, or a string that holds one") from None


class _Body(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class SessionRequest(_Body):
    agent: Label
    principal: Label
    environment: Label = "production"
    profile: Label | None = None


class RunRequest(_Body):
    manifest: tuple[Glob, ...] | None = Field(
        None, max_length=256, description="Tools of this run; absent: the whole pin"
    )
    deadline_seconds: float | None = Field(None, gt=0, le=7 * 24 * 3600)
    correlation_id: Annotated[str, StringConstraints(max_length=128, pattern=r"^[^\x00-\x1f]*$")] = ""


class CallRequest(_Body):
    call_id: CallId
    name: Label
    arguments: Annotated[dict[str, Any], BeforeValidator(_parsed)] = Field(
        description="An object, or a JSON string that holds one"
    )
    argument_trust: dict[str, TrustLevel] = Field(
        default_factory=dict, description="Believed from keys with trust.assert"
    )


class StepRequest(_Body):
    step_number: int = Field(ge=0, le=MAXIMUM_STEP)
    calls: tuple[CallRequest, ...] = Field(min_length=1, max_length=MAXIMUM_CALLS)
    context_trust: tuple[TrustLevel, ...] = Field((), max_length=64)
    correlation_id: Annotated[str, StringConstraints(max_length=128, pattern=r"^[^\x00-\x1f]*$")] = ""


def read[T: _Body](kind: type[T], value: Any) -> T:
    """Raises: Problem (request.invalid) with a pointer to each field at fault, and never its value."""
    try:
        return kind.model_validate(value)
    except ValidationError as error:
        found = [
            FieldError("".join(f"/{part}" for part in each["loc"]) or "/", each["msg"])
            for each in error.errors(include_input=False, include_url=False, include_context=False)
        ]
        raise Problem("request.invalid", found[:20]) from None
