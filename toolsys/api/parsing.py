"""Reads request bodies: JSON only, bounded, strict. A fault of the envelope is a problem and writes nothing.

Arguments of one call that have no canonical form are that call's fault: they are marked with a hash over the raw bytes,
and the call becomes an outcome. Source: DESIGN §1 "Rows and problems".
"""

import json
import math
from dataclasses import dataclass
from typing import Any, Final

from django.conf import settings
from django.core.exceptions import RequestDataTooBig
from django.http import HttpRequest
from django.http.request import RawPostDataException, UnreadablePostError

from toolsys.domain import canonical, idempotency
from toolsys.domain.canonical import NotCanonical
from toolsys.problems import Problem

JSON_TYPE: Final = "application/json"


@dataclass(frozen=True, slots=True)
class ParsedBody:
    """The body, its hash, and by call index the hash of arguments that have no canonical form."""

    value: Any
    body_hash: str
    raw_hashes: dict[int, str]


def parse(request: HttpRequest) -> ParsedBody:
    """Raises: Problem (request.unsupported_media_type, request.too_large, request.malformed)."""
    raw = _read(request)
    try:
        value = canonical.parse_strict(raw)
        hashed = canonical.sha256_hex(canonical.canonical_bytes(value))
    except NotCanonical as fault:
        if fault.reason == "syntax":
            raise Problem("request.malformed") from None
        return _tolerant(raw)
    return ParsedBody(value, hashed, {})


def _read(request: HttpRequest) -> bytes:
    if (request.content_type or "").lower() != JSON_TYPE:
        raise Problem("request.unsupported_media_type")
    limit = settings.TOOLSYS.max_body_bytes
    if int(request.META.get("CONTENT_LENGTH") or 0) > limit:
        raise Problem("request.too_large")
    try:
        raw = request.body
    except RequestDataTooBig:
        raise Problem("request.too_large") from None
    except (UnreadablePostError, RawPostDataException):
        raise Problem("request.malformed") from None
    if len(raw) > limit:
        raise Problem("request.too_large")
    return raw


class _Bad:
    """Stands for a number or an object that two readers could read differently."""


_BAD: Final = _Bad()


def _tolerant(raw: bytes) -> ParsedBody:
    """Parse again, marking what is at fault; outside of a call's arguments it is the envelope's fault."""
    decoder = json.JSONDecoder(
        object_pairs_hook=_pairs, parse_constant=lambda _: _BAD, parse_float=_float, parse_int=_int
    )
    try:
        value = decoder.decode(raw.decode("utf-8"))
    except (ValueError, RecursionError):
        raise Problem("request.malformed") from None
    calls = value.get("calls") if isinstance(value, dict) else None
    hashes: dict[int, str] = {}
    for index, call in enumerate(calls if isinstance(calls, list) else []):
        if isinstance(call, dict) and not _is_canonical(call.get("arguments")):
            hashes[index] = idempotency.raw_arguments_hash(raw + b"\0" + str(index).encode())
            call["arguments"] = {}
    if not hashes or not _is_canonical(value):
        raise Problem("request.malformed")
    return ParsedBody(value, canonical.sha256_hex(raw), hashes)


def _pairs(pairs: list[tuple[str, Any]]) -> Any:
    found = dict(pairs)
    return found if len(found) == len(pairs) else _BAD


def _float(literal: str) -> Any:
    value = float(literal)
    return value if math.isfinite(value) and not (value == 0 and literal.startswith("-")) else _BAD


def _int(literal: str) -> Any:
    return _BAD if len(literal) > 21 or literal == "-0" else int(literal)


def _is_canonical(value: Any) -> bool:
    try:
        canonical.normalize(value)
    except (NotCanonical, RecursionError):
        return False
    return True
