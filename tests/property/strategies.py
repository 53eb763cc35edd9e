"""What properties are drawn from: JSON values as a parser gives them, with and without a canonical form."""

from typing import Any

from hypothesis import strategies as st

# No lone surrogates and, after NFC, no two keys alike: such documents have a canonical form.
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
numbers = st.integers(-(2**63), 2**63) | st.floats(allow_nan=False, allow_infinity=False).map(lambda value: value + 0.0)
scalars = st.none() | st.booleans() | numbers | texts


def _nested(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4)


documents = st.recursive(scalars, _nested, max_leaves=8)
wild_texts = st.text(max_size=12)
wild_scalars = st.none() | st.booleans() | st.integers() | st.floats() | wild_texts
wild = st.recursive(
    wild_scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(wild_texts, inner, max_size=4),
    max_leaves=8,
)
