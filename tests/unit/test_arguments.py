"""Arguments as rows and as differences: nothing hides, nothing is too long, what is redacted is not called equal."""

import pytest

from toolsys import arguments
from toolsys.arguments import Difference, Row
from toolsys.domain.redaction import MARK


def row(value: object) -> Row:
    (found,) = arguments.rows({"to": value}).rows
    return found


def test_a_value_is_shown_with_its_place_and_kind() -> None:
    found = arguments.rows({"b": [1, True], "a": {"x/y": None}, "c": "text"})
    assert [(each.pointer, each.depth, each.kind, each.text) for each in found.rows] == [
        ("/a", 1, "1 member", ""), ("/a/x~1y", 2, "nothing", "null"), ("/b", 1, "2 items", ""),
        ("/b/0", 2, "number", "1"), ("/b/1", 2, "yes or no", "true"), ("/c", 1, "text, 4 characters", "text"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "shown", "warning"),
    [
        ("pay \u202eevil", "pay [U+202E]evil", "1 invisible character, shown as [U+…]"),
        ("a\u200b\u2066b", "a[U+200B][U+2066]b", "2 invisible characters, shown as [U+…]"),
        ("p\u0430ypal.com", "p\u0430ypal.com", "letters of Cyrillic and Latin in one word: p\u0430ypal"),
    ],
    ids=["bidi", "zero-width", "homoglyph"],
)
def test_what_hides_in_a_text_is_named(text: str, shown: str, warning: str) -> None:
    found = row(text)
    assert (found.text, found.warnings) == (shown, (warning,))
    assert arguments.rows({text: 1}).rows[0].warnings == (warning,)


def test_plain_words_of_any_alphabet_raise_no_alarm() -> None:
    for text in ("Zürich\tund Genève\n", "Привет мир", "Ελλάδα and Greece", "日本 toolsys", "naïve 1.000 €"):
        assert arguments.warnings(text) == (), text


def test_a_huge_text_is_folded_and_bounded() -> None:
    found = row("x" * 100_000)
    assert found.kind == "text, 100,000 characters"
    assert found.text == "x" * 160 + "…"
    assert found.folded.endswith("… 80,000 more characters")
    assert len(found.folded) < 20_100


def test_more_members_than_anybody_reads_are_counted() -> None:
    found = arguments.rows(list(range(1_000)))
    assert (len(found.rows), found.left_out) == (400, 600)
    deep: object = 1
    for _ in range(100):
        deep = {"a": deep}
    assert len(arguments.rows(deep).rows) <= arguments.DEPTH_LIMIT


def test_differences_name_the_place_and_both_values() -> None:
    before = {"to": "ana", "note": "x", "list": [1, 2], "same": True}
    after = {"to": "bob", "list": [1, 3, 4], "same": True, "new": None}
    assert arguments.differences(before, after) == [
        Difference("/list/1", "changed", "2", "3"), Difference("/list/2", "added", "", "4"),
        Difference("/new", "added", "", "null"), Difference("/note", "removed", "x", ""),
        Difference("/to", "changed", "ana", "bob"),
    ]  # fmt: skip
    assert arguments.differences(after, after) == []


def test_what_is_redacted_on_both_sides_is_never_called_equal() -> None:
    said = {"token": MARK, "text": "a"}
    assert arguments.differences(said, said) == [Difference("/token", "hidden", MARK, MARK)]


def test_a_long_text_is_shown_around_its_first_difference() -> None:
    (found,) = arguments.differences({"a": "x" * 1_000 + "1" * 500}, {"a": "x" * 1_000 + "2" * 500})
    assert found.before == "…" + "x" * 40 + "1" * 200 + "…"
    assert found.after == "…" + "x" * 40 + "2" * 200 + "…"
    assert len(arguments.differences({}, {str(n): n for n in range(1_000)})) == 100
