"""Gate 9: one document, one form, whatever order its keys came in and however its characters were composed."""

import json
import unicodedata
from collections.abc import Callable
from typing import Any

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.property.budget import examples
from tests.property.strategies import documents, wild
from tests.spec.requirements import gate
from toolsys.domain.canonical import (
    NotCanonical,
    canonical_bytes,
    dump,
    normal_form,
    normalize,
    parse_strict,
    sha256_hex,
    tidy,
)
from toolsys.domain.trust import TrustLevel


def recomposed(value: Any, form: str, draw: st.DataObject) -> Any:
    """The same document with its keys in another order and its text in another Unicode composition."""
    if isinstance(value, str):
        return unicodedata.normalize(form, value)  # type: ignore[arg-type]
    if isinstance(value, list):
        return [recomposed(member, form, draw) for member in value]
    if isinstance(value, dict):
        order = draw.draw(st.permutations(list(value)))
        return {unicodedata.normalize(form, key): recomposed(value[key], form, draw) for key in order}  # type: ignore[arg-type]
    return value


def canonical_or_none(value: Any) -> bytes | None:
    try:
        return canonical_bytes(value)
    except NotCanonical:
        return None


def outcome(value: Callable[[], Any]) -> str:
    try:
        canonical_bytes(value())
    except NotCanonical as refused:
        return refused.reason
    return "form"


@gate("gate.9", "canonical.form")
@given(documents, st.sampled_from(["NFC", "NFD"]), st.data())
def test_form_and_hash_are_invariant_under_key_order_and_composition(
    document: Any, form: str, draw: st.DataObject
) -> None:
    known = canonical_or_none(document)
    assume(known is not None)
    assert known is not None
    other = canonical_bytes(recomposed(document, form, draw))
    assert other == known
    assert sha256_hex(other) == sha256_hex(known)


@gate("canonical.form")
@given(documents)
def test_parsing_what_was_dumped_is_a_fixed_point(document: Any) -> None:
    known = canonical_or_none(document)
    assume(known is not None)
    assert known is not None
    assert canonical_bytes(parse_strict(known)) == known
    assert dump(parse_strict(known)) == known


@given(documents)
def test_white_space_and_escapes_do_not_matter(document: Any) -> None:
    known = canonical_or_none(document)
    assume(known is not None)
    assert canonical_bytes(parse_strict(json.dumps(document, indent=2, ensure_ascii=True))) == known


@given(documents)
def test_normalizing_twice_changes_nothing(document: Any) -> None:
    assume(canonical_or_none(document) is not None)
    once = normalize(document)
    assert normalize(once) == once
    assert dump(normalize(once)) == dump(once)


# Everything that the faster writer must leave to the defining one, in documents that are otherwise plain.
TRICKY = st.sampled_from([
    1.0, -0.0, 0.0, 5.0, 1e-4, 9.9e-5, 1e-7, 1e15, 999999999999999.9, 1e16, 1e22, 2.0**53, 2**64 - 1, 2**64, 10**30,
    "e\u0301", "\u0301", '"\u0301', "\\\u0301", "\n\u0301", "<\u0338", "\u0958", "\u2028", "\x7f", "\x00", "\ud800",
    (1, 2), float("nan"), TrustLevel.USER, b"", {1: 2}, {None: 1},
    {"e\u0301": 1, "\u00e9": 2}, {"\ufb01": 1, "\U0001f600": 2, "z": 3},
])  # fmt: skip
plain = st.recursive(
    st.integers() | st.floats(1e-5, 1e16) | st.floats(-1e16, -1e-5) | st.text(max_size=8) | TRICKY,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
    max_leaves=12,
)


def defined(value: Any) -> tuple[bytes, str] | str:
    """What normalizing and writing by definition gives."""
    try:
        found = normalize(value)
        return dump(found), json.dumps(found, sort_keys=True)
    except NotCanonical as refused:
        return refused.reason


def fast(value: Any) -> tuple[bytes, str] | str:
    try:
        found, data = normal_form(value)
        assert canonical_bytes(value) == data
        return data, json.dumps(found, sort_keys=True)
    except NotCanonical as refused:
        return refused.reason


@gate("gate.9", "canonical.form")
@settings(max_examples=examples(800))
@given(plain | documents | wild)
def test_the_faster_writer_gives_what_is_defined(value: Any) -> None:
    assert fast(value) == defined(value)


@gate("canonical.strict")
@given(st.text(max_size=40) | st.binary(max_size=40))
def test_any_text_is_parsed_or_refused_with_a_reason(text: str | bytes) -> None:
    assert outcome(lambda: parse_strict(text)) in {"form", "duplicate_key", "depth", "number", "surrogate", "syntax"}


@gate("canonical.strict")
@given(wild)
def test_any_value_has_one_form_or_is_refused_with_a_reason(value: Any) -> None:
    assert outcome(lambda: value) in {"form", "duplicate_key", "number", "surrogate"}


@given(wild | st.binary() | st.sets(st.integers()))
def test_what_was_tidied_can_always_be_written(value: Any) -> None:
    written = dump(tidy(value))
    assert dump(tidy(json.loads(written))) == written
