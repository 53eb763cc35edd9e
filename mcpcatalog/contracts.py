"""Argument contracts of a fixed server: its tools as we declare them, whatever the peer would say of itself.

Typed in code by a pydantic model, or written as JSON Schema by people; both are closed in every part and read by one
model. It imports nothing of Django or the SDK, so that a server of ours and its client share a contract. Source: XP.
"""

from collections.abc import Iterator
from itertools import islice
from typing import Annotated, Any, Final

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from mcpcatalog import closing

MAXIMUM_CONTRACTS: Final = 64
# Whoever mends these is told of the rest.
MAXIMUM_DEFECTS: Final = 8
type JsonSchema = dict[str, Any]


class Arguments(BaseModel):
    """The parent of typed arguments: nothing but what is declared."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class ToolContract(BaseModel):
    """One remote tool of a fixed server: the only name that is sent, and the only arguments."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: Annotated[str, StringConstraints(min_length=1, max_length=256)]
    description: Annotated[str, StringConstraints(max_length=4_096)] = ""
    input_schema: dict[str, Any] = Field(default_factory=dict)

    def defects(self) -> Iterator[str]:
        """Yield what leaves the arguments open, by its place."""
        if self.input_schema.get("type") != "object" or self.input_schema.get("additionalProperties") is not False:
            yield 'input_schema must have "type": "object" and "additionalProperties": false'
        properties = self.input_schema.get("properties", {})
        if not isinstance(properties, dict):
            yield "properties of input_schema must be an object"
            return
        yield from islice(closing.openings(self.input_schema), MAXIMUM_DEFECTS)


def typed(name: str, description: str, arguments: type[Arguments]) -> ToolContract:
    """Return the contract that a pydantic model makes. Raises: ValueError, where a part of it is open."""
    contract = ToolContract(name=name, description=description, input_schema=arguments.model_json_schema())
    for defect in contract.defects():
        raise ValueError(f"{name}: {defect}")
    return contract


def read(stored: Any) -> tuple[ToolContract, ...]:
    """Return the contracts of a stored list. What cannot be read is no contract, and so no tool."""
    found = []
    for item in stored[:MAXIMUM_CONTRACTS] if isinstance(stored, list) else []:
        try:
            found.append(ToolContract.model_validate(item))
        except ValidationError:
            continue
    return tuple(found)


def faults(stored: Any) -> Iterator[str]:
    """Yield why a list cannot be read as contracts, and what to write instead."""
    if not isinstance(stored, list):
        yield "This is a list of tools, each with name, description and input_schema."
        return
    if len(stored) > MAXIMUM_CONTRACTS:
        yield f"At most {MAXIMUM_CONTRACTS} tools."
    for number, item in enumerate(stored[:MAXIMUM_CONTRACTS], 1):
        try:
            ToolContract.model_validate(item)
        except ValidationError as error:
            found = error.errors(include_url=False, include_context=False, include_input=False)
            yield f"Tool {number}: {'; '.join(map(_spoken, found[:3]))}."


def listed(name: str, description: str, input_schema: JsonSchema) -> dict[str, Any]:
    """Return a contract's columns as a server lists the tool, closed where that can be done for people; whether it can
    be one the rules say.
    """
    closed = {**closing.closed(input_schema), "additionalProperties": False}
    return {"name": name, "description": description, "input_schema": closed}


def _spoken(error: Any) -> str:
    where = ".".join(map(str, error["loc"]))[:64]
    if error["type"] == "extra_forbidden":
        return f"there is no {where} here, only name, description and input_schema"
    if error["type"] == "missing":
        return f"{where} is missing"
    return f"{where}: {error['msg']}" if where else "write an object with name, description and input_schema"
