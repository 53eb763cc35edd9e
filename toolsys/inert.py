"""Shows values that came from elsewhere as inert text: pretty JSON, with invisible characters made visible.

The template escapes; this only makes sure that what a person reads is what is there. Source: notes on the console.
"""

import json
import unicodedata
from typing import Any, Final

MAXIMUM_CHARACTERS: Final = 20_000
_ALLOWED: Final = frozenset("\n\t")
# Letters and marks that are drawn as nothing: fillers, the blank of Braille, joiners and variation selectors.
_BLANK: Final = frozenset(
    map(chr, (0x034F, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x180B, 0x180C, 0x180D, 0x180F, 0x2800, 0x3164, 0xFFA0))
) | frozenset(map(chr, (*range(0xFE00, 0xFE10), *range(0xE0100, 0xE01F0))))


def visible(text: str) -> str:
    """Replace control, format and private characters (bidi overrides, zero width) by their code point in brackets."""
    return "".join(char if char in _ALLOWED or not _is_invisible(char) else f"[U+{ord(char):04X}]" for char in text)


def pretty(value: Any) -> str:
    """Return a JSON value as indented text, cut where it is longer than anybody reads."""
    text = json.dumps(value, indent=2, ensure_ascii=False, sort_keys=True)
    shown = visible(text[:MAXIMUM_CHARACTERS])
    hidden = len(text) - MAXIMUM_CHARACTERS
    return shown if hidden <= 0 else f"{shown}\n… {hidden:,} more characters"


def _is_invisible(char: str) -> bool:
    return char in _BLANK or unicodedata.category(char) in {"Cc", "Cf", "Co", "Cs", "Cn", "Zl", "Zp"}
