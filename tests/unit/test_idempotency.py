"""The key: known answers, so that no change of the derivation goes unseen."""

from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

import pytest

from mcpcatalog.discoveries import Discoveries
from mcpcatalog.ladder import Ladder
from mcpcatalog.remote import KeyPlace, ServerConfig, Transport
from mcpcatalog.tool import Connections, McpTool
from tests.spec.requirements import gate
from tests.unit.specs import spec
from toolsys.domain.context import ToolExecutionContext
from toolsys.domain.idempotency import idempotency_key, raw_arguments_hash

CALL: dict[str, Any] = {
    "run_id": UUID("018f3a5c-0000-7000-8000-000000000001"),
    "step_number": 7,
    "call_id": "call_abc123",
    "tool_name": "mcp.acme.create_ticket",
    "tool_version": "9d02f1",
    "arguments_hash": "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a",
}
KEY = "6d74104348ab6a53d814544579d7a423b5131131a4ef227c720a938cc10ab14b"


@gate("key.derivation")
def test_a_known_call_has_its_known_key() -> None:
    assert idempotency_key(**CALL) == KEY


@gate("key.derivation")
@pytest.mark.parametrize(
    "changes",
    [
        {"run_id": UUID(int=1)},
        {"step_number": 8},
        {"call_id": "call_2"},
        {"tool_name": "mcp.acme.other"},
        {"tool_version": "2"},
        {"arguments_hash": "0" * 64},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_every_input_changes_the_key(changes: dict[str, Any]) -> None:
    assert idempotency_key(**{**CALL, **changes}) != idempotency_key(**CALL)


@gate("key.derivation")
@pytest.mark.parametrize("name", ["call_id", "tool_name", "tool_version"])
def test_no_input_can_be_joined_to_its_neighbour(name: str) -> None:
    with pytest.raises(ValueError, match="NUL"):
        idempotency_key(**{**CALL, name: f"{CALL[name]}\0x"})


@gate("key.verbatim")
@pytest.mark.parametrize(
    ("place", "arguments", "meta", "headers"),
    [
        (KeyPlace.NONE, {}, {}, {}),
        (KeyPlace.ARGUMENT, {"dedup": KEY}, {}, {}),
        (KeyPlace.META, {}, {"dedup": KEY}, {}),
        (KeyPlace.HEADER, {}, {}, {"dedup": KEY}),
    ],
)
def test_the_key_is_passed_verbatim_where_the_operator_says(
    place: KeyPlace, arguments: dict[str, str], meta: dict[str, str], headers: dict[str, str]
) -> None:
    server = ServerConfig("acme", "crm", Transport.HTTP, "https://x/mcp", key_place=place, key_name="dedup")
    tool = McpTool(
        spec(), server, "create", "", cast("Connections", None), cast("Ladder", None), cast("Discoveries", None)
    )
    context = SimpleNamespace(invocation_id=UUID(int=1), idempotency_key=KEY, timeout_seconds=1.0)
    given: dict[str, Any] = {"a": 1}
    sent = tool._call(given, cast("ToolExecutionContext", context))
    assert (sent.arguments, dict(sent.headers)) == ({"a": 1, **arguments}, headers)
    assert {name: value for name, value in sent.meta.items() if name == "dedup"} == meta
    assert given == {"a": 1}, "what was approved and recorded does not change"


@gate("key.raw_space")
def test_arguments_without_a_canonical_form_have_a_space_of_their_own() -> None:
    assert raw_arguments_hash(b'{"a":NaN}') == "7dd35309773e9ca7f42e3398ed56a83905c93f422d6c689cc0a715414fa1278a"
    assert raw_arguments_hash(b"{}") != CALL["arguments_hash"]
