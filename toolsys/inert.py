"""Shows values that came from elsewhere as inert text: pretty JSON, with invisible characters made visible.

The template escapes; this only makes sure that what a person reads is what is there. Source: notes on the console.
"""

import json
import unicodedata
from typing import Any, Final

MAXIMUM_CHARACTERS: Final = 20_000
_ALLOWED: Final = frozenset("\n\t")


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
    return unicodedata.category(char) in {"Cc", "Cf", "Co", "Cs", "Cn", "Zl", "Zp"}
