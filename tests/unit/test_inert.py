"""What a person reads is what is there: nothing invisible stays invisible."""

import pytest

from toolsys import inert

INVISIBLE = "\u202e\u2066\u200b\u200d\ufeff\u00ad\x00\x1b\x7f\ue000\u2028"


@pytest.mark.parametrize("char", INVISIBLE)
def test_invisible_characters_become_their_code_point(char: str) -> None:
    assert inert.visible(f"a{char}b") == f"a[U+{ord(char):04X}]b"


def test_text_in_any_script_stays_as_it_is() -> None:
    for text in ("Grüße, мир, 世界, عالم", "line\nline\ttab", "e\u0301"):
        assert inert.visible(text) == text


def test_values_are_indented_and_cut() -> None:
    assert inert.pretty({"b": [1, None], "a": "<b>\u202e"}) == (
        '{\n  "a": "<b>[U+202E]",\n  "b": [\n    1,\n    null\n  ]\n}'
    )
    long = inert.pretty("x" * (inert.MAXIMUM_CHARACTERS + 10))
    assert long.endswith("… 12 more characters")


@pytest.mark.parametrize("point", [0x034F, 0x115F, 0x180B, 0x2800, 0x3164, 0xFE0F, 0xFFA0, 0xE0101])
def test_letters_that_are_drawn_as_nothing_are_shown_too(point: int) -> None:
    assert inert.visible(f"a{chr(point)}b") == f"a[U+{point:04X}]b"
