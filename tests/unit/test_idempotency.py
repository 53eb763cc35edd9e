"""The key: known answers, so that no change of the derivation goes unseen."""

from typing import Any
from uuid import UUID

import pytest

from tests.spec.requirements import gate
from toolsys.domain.idempotency import idempotency_key, raw_arguments_hash

CALL: dict[str, Any] = {
    "run_id": UUID("018f3a5c-0000-7000-8000-000000000001"),
    "step_number": 7,
    "call_id": "call_abc123",
    "tool_name": "mcp.acme.create_ticket",
    "tool_version": "9d02f1",
    "arguments_hash": "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a",
}


@gate("key.derivation")
def test_a_known_call_has_its_known_key() -> None:
    assert idempotency_key(**CALL) == "6d74104348ab6a53d814544579d7a423b5131131a4ef227c720a938cc10ab14b"


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


@gate("key.raw_space")
def test_arguments_without_a_canonical_form_have_a_space_of_their_own() -> None:
    assert raw_arguments_hash(b'{"a":NaN}') == "7dd35309773e9ca7f42e3398ed56a83905c93f422d6c689cc0a715414fa1278a"
    assert raw_arguments_hash(b"{}") != CALL["arguments_hash"]
