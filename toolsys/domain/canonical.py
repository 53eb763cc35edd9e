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

from jsonschema_rs.canonical.json import to_string

MAXIMUM_DEPTH: Final = 64
_INTEGER_LIMIT: Final = 1 << 64
_EXACT_FLOAT: Final = float(1 << 53)
# Between these every writer of shortest round-trip numbers writes the same characters.
_PLAIN_FLOATS: Final = (1e-4, 1e15)
_PLAIN_SCALARS: Final = frozenset({str, bool, type(None)})
_CONTAINERS: Final = frozenset({dict, list})


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
    """Raises: NotCanonical."""
    found = _written(value)
    return dump(normalize(value)) if found is None else found[0]


def normal_form(value: Any) -> tuple[Any, bytes]:
    """Return the normalized value and its canonical bytes: what is sent and what is hashed are one document.

    Raises: NotCanonical.
    """
    found = _written(value)
    if found is None:
        normalized = normalize(value)
        return normalized, dump(normalized)
    data, is_same = found
    return (value if is_same else json.loads(data)), data


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


def _written(value: Any) -> tuple[bytes, bool] | None:
    """Return the canonical bytes of a value by a faster writer, and whether it was in normal form as it came.

    Most are, up to whole numbers written as floats; they are only looked at. Where only text is to be composed, what
    comes of it is written in the same way. None: numbers or types that only `normalize` and `dump` can tell of.
    """
    is_same = _look([value], 0)
    if is_same is None:
        return None
    try:
        text = to_string(value)
    except ValueError:
        return None
    # What JSON escapes composes with nothing, so that normal text has only normal strings in it.
    if text.isascii() or unicodedata.is_normalized("NFC", text):
        return text.encode(), is_same
    return to_string(normalize(value)).encode(), False


def _look(container: Any, depth: int) -> bool | None:
    """Return whether normalizing leaves every number as it is; None where only `normalize` can say what comes out.

    It looks at types exactly and never at text: this is the hot loop.
    """
    if depth > MAXIMUM_DEPTH:
        return None
    is_same = True
    for member in container.values() if type(container) is dict else container:
        kind = type(member)
        if kind in _PLAIN_SCALARS:
            continue
        if kind is int:
            found = -_INTEGER_LIMIT < member < _INTEGER_LIMIT or None
        elif kind is float:
            found = _look_at_number(member)
        else:
            found = _look(member, depth + 1) if kind in _CONTAINERS else None
        if found is None:
            return None
        is_same = is_same and found
    return is_same


def _look_at_number(value: float) -> bool | None:
    if _PLAIN_FLOATS[0] <= abs(value) < _PLAIN_FLOATS[1]:
        return not value.is_integer()
    return False if value == 0 and math.copysign(1.0, value) > 0 else None


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


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise NotCanonical("syntax")
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
_ENCODER: Final = json.JSONEncoder(
    ensure_ascii=False, allow_nan=False, sort_keys=True, separators=(",", ":"), check_circular=False
)
