"""What a server wrote, before the SDK reads it: cut anywhere, ended in any way, in anybody's name."""

import json
import random
from typing import Any

import pytest

from mcpcatalog.sdk.messages import EventFilter, Unreadable, admitted
from tests.spec.requirements import gate

MINE = {"jsonrpc": "2.0", "id": 7, "result": {"content": [{"type": "text", "text": "größer 😀"}]}}
OTHER = {"jsonrpc": "2.0", "id": 8, "result": {}}
NOTICE = {"jsonrpc": "2.0", "method": "notifications/progress", "params": {}}


def written(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def stream(ending: str) -> bytes:
    """A priming event, comments, another kind, somebody else's answer, a notification, and ours in several lines."""
    lines = [
        "\ufeff: hello", "", "id: 1", "retry: 5", "data:", "", "event: ping", f"data: {written(OTHER)}", "",
        f"data: {written(OTHER)}", "", "event: message", f"data:{written(NOTICE)}", "",
        *(f"data: {line}" for line in json.dumps(MINE, indent=1, ensure_ascii=False).split("\n")), "id: 2", "",
        "data: half",
    ]  # fmt: skip
    return ending.join(lines).encode()


def read(pieces: list[bytes], identifier: int | None = 7, bound: int = 100_000) -> list[tuple[str, Any]]:
    found, filter_ = b"", EventFilter(identifier, bound)
    for piece in pieces:
        found += filter_.feed(piece)
    fields: list[tuple[str, Any]] = []
    for event in found.decode().split("\n\n")[:-1]:
        data = [line.removeprefix("data: ") for line in event.split("\n") if line.startswith("data: ")]
        other = [line for line in event.split("\n") if not line.startswith("data: ")]
        fields.append((";".join(other), json.loads("\n".join(data)) if any(data) else None))
    return fields


EXPECTED: list[tuple[str, Any]] = [("id: 1;retry: 5", None), ("", NOTICE), ("id: 2", MINE)]


@gate("mcp.messages", "faults.b31")
@pytest.mark.parametrize(
    "ending",
    ["\n", *(pytest.param(each, marks=pytest.mark.slow) for each in ("\r\n", "\r"))],
    ids=["lf", "crlf", "cr"],
)
def test_b31_any_cutting_of_a_stream_gives_the_same_messages(ending: str) -> None:
    whole, draw = stream(ending), random.Random(31)
    assert read([whole]) == EXPECTED
    assert read([whole[at : at + 1] for at in range(len(whole))]) == EXPECTED
    for _ in range(3_500):
        places = sorted(draw.sample(range(len(whole)), draw.randint(1, 12)))
        pieces = [whole[a:b] for a, b in zip([0, *places], [*places, len(whole)], strict=True)]
        assert read(pieces) == EXPECTED


@gate("mcp.messages")
def test_without_an_identifier_everything_but_noise_is_handed_on() -> None:
    assert [message for _, message in read([stream("\n")], None)] == [None, OTHER, NOTICE, MINE]


def test_whether_our_own_answer_came_is_noted() -> None:
    for value, is_there in ((MINE, True), (OTHER, False), (NOTICE, False)):
        filter_ = EventFilter(7, 1_000)
        filter_.feed(f"data: {written(value)}\n\n".encode())
        assert filter_.has_answer is is_there


def test_an_event_without_end_is_given_up_and_many_small_ones_are_not() -> None:
    endless = EventFilter(7, 1_000)
    assert [endless.feed(b"x") for _ in range(1_000)] == [b""] * 1_000
    with pytest.raises(Unreadable):
        endless.feed(b"x")
    many = EventFilter(7, 1_000)
    for _ in range(1_000):
        many.feed(b": comment\n\n")
    assert many.feed(f"data: {written(MINE)}\n\n".encode())


@pytest.mark.parametrize("data", ["nonsense", "NaN", '{"id":7,"result":{"a":Infinity}}', "[" * 100_000])
def test_an_unreadable_event_still_ends_the_wait_for_it(data: str) -> None:
    assert EventFilter(7, 1_000_000).feed(f"data: {data}\n\n".encode()) == b"data: unreadable\n\n"


@gate("mcp.messages")
@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (MINE, True), (OTHER, None), (NOTICE, True), ({**MINE, "id": "7"}, True), ({**MINE, "id": None}, None),
        ({**MINE, "id": True}, None), ({**MINE, "id": 7.5}, None), ([], True), (7, True),
        ({"jsonrpc": "2.0", "id": 7, "error": {"code": 1, "message": ""}}, True),
    ],
)  # fmt: skip
def test_an_answer_is_ours_by_its_identifier(given: Any, expected: bool | None) -> None:
    found = admitted(written(given).encode(), 7)
    assert (found is not None or None) == expected
    assert found is None or json.loads(found.data) == given


@pytest.mark.parametrize(
    "data",
    [b"", b"{", b"\xff", b'{"a":NaN}', b'{"a":-Infinity}', b"[" * 100_000, b'{"id":7,"result":{},"error":{}}', b"1 2"],
)
def test_what_cannot_be_kept_is_refused(data: bytes) -> None:
    with pytest.raises(Unreadable):
        admitted(data, 7)


def test_a_lone_surrogate_is_replaced_and_nothing_else_is_changed() -> None:
    found = admitted(rb'{"id":7,"result":{"text":"a\ud800b \ud83d\ude00","n":1.0}}', 7)
    assert found is not None
    assert json.loads(found.data) == {"id": 7, "result": {"text": "a?b 😀", "n": 1.0}}
