"""Reads a server's columns, from whatever door they come, into the one record that the validators judge.

Doors are the model, the services, forms, imports and commands: each brings a mapping by column name, and gets the same
problems for the same columns. Pure. Imported by the models and everything above them.
"""

from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Any, Final

from mcpcatalog import contracts
from mcpcatalog.remote import AuthScheme, CatalogMode, KeyPlace, ServerConfig, Transport
from mcpcatalog.validators import Problem
from toolsys.domain.spec import Classification, IdempotencyClass, RiskLevel, SideEffectClass

CHOICES: Final[dict[str, type[StrEnum]]] = {
    "transport": Transport, "auth_scheme": AuthScheme, "mode": CatalogMode, "key_place": KeyPlace,
    "side_effect": SideEffectClass, "risk": RiskLevel, "idempotency": IdempotencyClass,
}  # fmt: skip
TEXTS: Final = ("server_id", "endpoint", "key_name")
OPTIONAL_TEXTS: Final = ("auth_name", "credential_ref", "token_endpoint")
LISTS: Final = ("token_scopes", "required_scopes")
CONTRACTS: Final = ("fixed_tools",)
NUMBERS: Final = ("timeout_seconds", "maximum_output_bytes")
SWITCHES: Final = ("is_stateless",)
COLUMNS: Final = (*CHOICES, *TEXTS, *OPTIONAL_TEXTS, *LISTS, *CONTRACTS, *NUMBERS, *SWITCHES)
REQUIRED: Final = ("server_id", "transport", "endpoint")

type Columns = Mapping[str, Any]


def parsed(tenant_id: str, columns: Columns) -> tuple[ServerConfig | None, tuple[Problem, ...]]:
    """Return the configuration that the columns describe, or None and every column that is of the wrong kind."""
    found = tuple(_faults(columns))
    if found:
        return None, found
    values = {name: _value(name, columns[name]) for name in COLUMNS if name in columns}
    given = {name: values.pop(name) for name in ("side_effect", "risk", "idempotency") if name in values}
    return ServerConfig(tenant_id=tenant_id, classification=Classification(**given), **values), ()


def columns_of(config: ServerConfig) -> dict[str, Any]:
    """Return the columns that hold a configuration: the inverse of `parsed`."""
    classification = config.classification
    return {
        "server_id": config.server_id, "transport": config.transport, "endpoint": config.endpoint,
        "auth_scheme": config.auth_scheme, "auth_name": config.auth_name, "credential_ref": config.credential_ref,
        "token_endpoint": config.token_endpoint, "token_scopes": list(config.token_scopes) or None,
        "side_effect": classification.side_effect, "risk": classification.risk,
        "idempotency": classification.idempotency, "required_scopes": sorted(config.required_scopes),
        "timeout_seconds": config.timeout_seconds, "maximum_output_bytes": config.maximum_output_bytes,
        "mode": config.mode, "fixed_tools": [contract.model_dump() for contract in config.fixed_tools],
        "key_place": config.key_place, "key_name": config.key_name, "is_stateless": config.is_stateless,
    }  # fmt: skip


def _faults(columns: Columns) -> Iterator[Problem]:
    for name in columns.keys() - set(COLUMNS):
        yield Problem(str(name)[:64], "unknown", "There is no such setting.")
    for name in REQUIRED:
        if not columns.get(name):
            yield Problem(name, "required", "This is needed.")
    for name, value in columns.items():
        if name in CONTRACTS:
            yield from (Problem(name, "kind", fault) for fault in contracts.faults(value or []))
        elif name in COLUMNS and (name not in REQUIRED or value) and not _fits(name, value):
            yield Problem(name, "kind", _expected(name))


def _fits(name: str, value: Any) -> bool:
    if name in CHOICES:
        return isinstance(value, str) and value in set(CHOICES[name])
    if name in NUMBERS:
        return isinstance(value, int) and not isinstance(value, bool)
    if name in SWITCHES:
        return isinstance(value, bool)
    if name in LISTS:
        return value is None or (isinstance(value, list | tuple) and all(map(_is_text, value)))
    return _is_text(value) or (value is None and name in OPTIONAL_TEXTS)


def _is_text(value: Any) -> bool:
    """Say whether a text column holds it: no NUL, no lone surrogate."""
    if not isinstance(value, str) or "\0" in value:
        return False
    return not any("\ud800" <= char <= "\udfff" for char in value)


def _expected(name: str) -> str:
    if name in CHOICES:
        return f"One of {', '.join(CHOICES[name])}."
    kinds = {
        "a list of texts": LISTS, "a whole number": NUMBERS, "true or false": SWITCHES,
    }  # fmt: skip
    kind = next((kind for kind, names in kinds.items() if name in names), "a text")
    return f"This is {kind}."


def _value(name: str, value: Any) -> Any:
    if name in CHOICES:
        return CHOICES[name](value)
    if name == "required_scopes":
        return frozenset(value or ())
    if name in CONTRACTS:
        return contracts.read(value)
    if name in LISTS:
        return tuple(value or ())
    return value or None if name in OPTIONAL_TEXTS else value
