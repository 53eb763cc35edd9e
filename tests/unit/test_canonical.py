"""Strict JSON in, canonical JSON out."""

from typing import Any

import pytest

from tests.spec.requirements import gate
from toolsys.domain import canonical
from toolsys.domain.canonical import NotCanonical, canonical_bytes, parse_strict, tidy


def refusal(text: str | bytes) -> str:
    with pytest.raises(NotCanonical) as refused:
        canonical_bytes(parse_strict(text))
    return refused.value.reason


@gate("canonical.form")
@pytest.mark.parametrize(
    ("text", "form"),
    [
        ('{"b": 1, "a": [true, false, null]}', '{"a":[true,false,null],"b":1}'),
        ('{"aa":1,"Z":2,"a":3,"\u00e9":4,"\U0001f600":5,"\uffee":6}',
         '{"Z":2,"a":3,"aa":1,"\u00e9":4,"\uffee":6,"\U0001f600":5}'),
        ('"cafe\u0301"', '"caf\u00e9"'),
        (r'"\u00e9\/\n\t\u0001"', '"\u00e9/\\n\\t\\u0001"'),
        ("1.0", "1"),
        ("1e3", "1000"),
        ("0.10", "0.1"),
        ("1E-7", "1e-07"),
        ("9007199254740993", "9007199254740993"),
        ("18446744073709551615", "18446744073709551615"),
        ("-18446744073709551615", "-18446744073709551615"),
        ("1e300", "1e+300"),
        ("0", "0"),
        ("0.0", "0"),
        ('""', '""'),
        (" [ ] ", "[]"),
    ],
)  # fmt: skip
def test_a_document_has_one_form(text: str, form: str) -> None:
    assert canonical_bytes(parse_strict(text)) == form.encode()


@gate("canonical.strict")
@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('{"a":1,"a":1}', "duplicate_key"),
        ('[{"x":{"a":1,"b":2,"a":3}}]', "duplicate_key"),
        ('{"caf\u00e9":1,"cafe\u0301":1}', "duplicate_key"),
        (r'{"a":1,"\u0061":2}', "duplicate_key"),
        ("NaN", "number"),
        ("[Infinity]", "number"),
        ('{"a":-Infinity}', "number"),
        ("1e400", "number"),
        ("-0.0", "number"),
        ("-0", "number"),
        ("-0e5", "number"),
        ("18446744073709551616", "number"),
        ("-18446744073709551616", "number"),
        ("1" * 21, "number"),
        ("1" * 22, "number"),
        ("1" * 1_000_000, "number"),
        (r'"\ud800"', "surrogate"),
        (r'{"\udfff":1}', "surrogate"),
        ("", "syntax"),
        ("{", "syntax"),
        ("{'a':1}", "syntax"),
        ("[1,]", "syntax"),
        ("01", "syntax"),
        ("1 2", "syntax"),
        ("\ufeff1", "syntax"),
        (b"\xff", "syntax"),
        (b'"\xed\xa0\x80"', "syntax"),
    ],
    ids=lambda value: repr(value)[:24],
)
def test_what_two_readers_could_read_differently_is_refused(text: str | bytes, reason: str) -> None:
    assert refusal(text) == reason


@gate("canonical.strict")
@pytest.mark.parametrize(
    "bomb", ["[" * 100_000, "[" * 100_000 + "]" * 100_000, '{"a":' * 100_000, "[" * 65 + "]" * 65],
    ids=["open", "closed", "objects", "one too deep"],
)  # fmt: skip
def test_a_nesting_bomb_is_refused(bomb: str) -> None:
    assert refusal(bomb) == "depth"


def test_depth_up_to_the_limit_is_kept() -> None:
    document = "[" * canonical.MAXIMUM_DEPTH + "]" * canonical.MAXIMUM_DEPTH
    assert canonical_bytes(parse_strict(document)) == document.encode()


@pytest.mark.parametrize("value", [object(), b"bytes", {1, 2}])
def test_what_is_no_json_has_no_form(value: object) -> None:
    with pytest.raises(NotCanonical, match="syntax"):
        canonical_bytes({"a": value})


@gate("canonical.form")
def test_the_hash_of_a_known_document_is_pinned() -> None:
    data = canonical_bytes({"b": 1, "a": "e\u0301"})
    assert data == '{"a":"\u00e9","b":1}'.encode()
    assert canonical.sha256_hex(data) == "aa58fba8483623bed37c1b02edfccbdd9a53123837c20bfa4cb4049993a2872e"


@pytest.mark.parametrize(
    ("answered", "kept"),
    [
        ({"a": float("nan"), "b": [float("inf")], "c": -0.0}, {"a": None, "b": [None], "c": 0.0}),
        ("a\ud800", "a?"),
        ({"\udc00": 1}, {"?": 1}),
        ((1, 2), [1, 2]),
        ({1: True, None: 2}, {"1": True, "None": 2}),
        (10**5000, None),
        (frozenset(), "frozenset()"),
        (b"x", "b'x'"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_a_tool_answers_becomes_something_that_can_be_written(answered: Any, kept: Any) -> None:
    assert tidy(answered) == kept
    canonical.dump(tidy(answered))


def test_an_answer_nested_too_deeply_is_cut() -> None:
    value: Any = "bottom"
    for _ in range(100):
        value = [value]
    assert b"[nested too deeply]" in canonical.dump(tidy(value))


@gate("gate.9")
@pytest.mark.parametrize(
    "value",
    [
        {"line": "one\n\u0301two", "cafe\u0301": 1},
        {"tab": "\t\u0338", "quote": '"\u0301', "control": "\x1f\u0301", "slash": "\\\\n\u0301e\u0301"},
        {"e\u0301": 1, "f": 2, "\u00e8": 3, "e": {"o\u0308": [2.0, 1.5, "A\u030a"]}},
        ["\u0301", "e\u0301\u0323", "\u1100\u1161", {"\u2126": None}],
    ],
)
def test_text_that_is_composed_in_one_piece_comes_out_as_string_by_string(value: Any) -> None:
    """The last letter of an escape composes with nothing, and composed keys are sorted by what they became."""
    normalized = canonical.normalize(value)
    assert canonical.normal_form(value) == (normalized, canonical.dump(normalized))
    assert canonical.canonical_bytes(value) == canonical.dump(normalized)


@gate("gate.9")
def test_keys_that_are_equal_once_composed_are_refused() -> None:
    for form in (canonical.canonical_bytes, canonical.normal_form):
        with pytest.raises(canonical.NotCanonical) as refused:
            form({"a": [{"caf\u00e9": 1, "cafe\u0301": 2}]})
        assert refused.value.reason == "duplicate_key"
