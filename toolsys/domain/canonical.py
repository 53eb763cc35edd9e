"""Strict JSON in, canonical JSON out: the form that hashes, keys and digests are taken over.

The parser refuses what two readers could read differently (duplicate keys, NaN, lone surrogates, keys that
become equal after NFC, integers beyond 64 bits, deep nesting). Source: TS "Argument validation and the
canonical form", DESIGN §1. Every refusal is `NotCanonical`, with a stable reason for operators.
"""

import hashlib
import json
import math
import unicodedata
from typing import Any, Final, NoReturn

MAXIMUM_DEPTH: Final = 64
_INTEGER_LIMIT: Final = 1 << 64
_EXACT_FLOAT: Final = float(1 << 53)


class NotCanonical(ValueError):
    """The document has no canonical form. `reason` is stable: duplicate_key, depth, number, surrogate, syntax."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


def parse_strict(text: str | bytes) -> Any:
    """Parse one JSON document.

    Raises: NotCanonical where the text is not JSON or has no single meaning.
    """
    try:
        decoded = text if isinstance(text, str) else text.decode("utf-8")
        return _DECODER.decode(decoded)
    except UnicodeDecodeError:
        raise NotCanonical("syntax") from None
    except json.JSONDecodeError:
        raise NotCanonical("syntax") from None
    except RecursionError:
        raise NotCanonical("depth") from None


def normalize(value: Any) -> Any:
    """Return the value with NFC strings and integral floats as integers, or refuse it.

    Raises: NotCanonical.
    """
    return _normalize(value, 1)


def dump(value: Any) -> bytes:
    """Serialize a *normalized* value: keys by code point, no white space, UTF-8."""
    return _ENCODER.encode(value).encode("utf-8")


def canonical_bytes(value: Any) -> bytes:
    return dump(normalize(value))


def tidy(value: Any, depth: int = 1) -> Any:
    """Return a JSON value that can always be written, for what a tool answered: unlike arguments it has no key.

    What has no canonical form becomes the nearest that has: no number, a replacement character, a note on depth.
    """
    if isinstance(value, str):
        return value if value.isascii() else value.encode("utf-8", "replace").decode("utf-8")
    if isinstance(value, float):
        return value + 0.0 if math.isfinite(value) else None
    if isinstance(value, dict):
        return "[nested too deeply]" if depth > MAXIMUM_DEPTH else {
            tidy(str(key)): tidy(member, depth + 1) for key, member in value.items()
        }  # fmt: skip
    if isinstance(value, list | tuple):
        return "[nested too deeply]" if depth > MAXIMUM_DEPTH else [tidy(member, depth + 1) for member in value]
    if isinstance(value, int):
        return value if value.bit_length() <= 4096 else None
    return None if value is None else tidy(str(value))


def sha256_hex(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _normalize(value: Any, depth: int) -> Any:  # noqa: C901 - one branch a JSON type, on the hot path
    if isinstance(value, str):
        return _text(value)
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int):
        if not -_INTEGER_LIMIT < value < _INTEGER_LIMIT:
            raise NotCanonical("number")
        return value
    if isinstance(value, float):
        return _number(value)
    if depth > MAXIMUM_DEPTH:
        raise NotCanonical("depth")
    if isinstance(value, dict):
        normalized = {_text(key): _normalize(member, depth + 1) for key, member in value.items()}
        if len(normalized) != len(value):
            raise NotCanonical("duplicate_key")
        return normalized
    if isinstance(value, list | tuple):
        return [_normalize(member, depth + 1) for member in value]
    raise NotCanonical("syntax")


def _text(value: str) -> str:
    if value.isascii():
        return value
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:
        raise NotCanonical("surrogate") from None
    return unicodedata.normalize("NFC", value)


def _number(value: float) -> int | float:
    if not math.isfinite(value) or (value == 0 and math.copysign(1.0, value) < 0):
        raise NotCanonical("number")
    return int(value) if value.is_integer() and abs(value) <= _EXACT_FLOAT else value


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise NotCanonical("duplicate_key")
    return found


def _refuse(_literal: str) -> NoReturn:
    raise NotCanonical("number")


def _parse_integer(literal: str) -> int:
    if len(literal) > 21:
        raise NotCanonical("number")
    if literal == "-0":
        raise NotCanonical("number")
    return int(literal)


_DECODER: Final = json.JSONDecoder(object_pairs_hook=_unique, parse_constant=_refuse, parse_int=_parse_integer)
_ENCODER: Final = json.JSONEncoder(ensure_ascii=False, allow_nan=False, sort_keys=True, separators=(",", ":"))
