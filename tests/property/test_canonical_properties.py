"""Gate 9: one document, one form, whatever order its keys came in and however its characters were composed."""

import json
import unicodedata
from collections.abc import Callable
from typing import Any

from hypothesis import assume, given
from hypothesis import strategies as st

from tests.property.strategies import documents, wild
from tests.spec.requirements import gate
from toolsys.domain.canonical import NotCanonical, canonical_bytes, dump, normalize, parse_strict, sha256_hex, tidy


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
