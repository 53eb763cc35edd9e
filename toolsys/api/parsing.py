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

from toolsys.api.nesting import shallow
from toolsys.domain import canonical, idempotency
from toolsys.domain.canonical import NotCanonical
from toolsys.problems import Problem

JSON_TYPE: Final = "application/json"


@dataclass(frozen=True, slots=True)
class StepDocument:
    """The body of a step, its hash, and by call index the hash of arguments that have no canonical form."""

    value: Any
    body_hash: str
    raw_hashes: dict[int, str]


def parse(request: HttpRequest) -> Any:
    """Raises: Problem (request.unsupported_media_type, request.too_large, request.malformed)."""
    return _strict(_read(request))[0]


def parse_optional(request: HttpRequest) -> Any:
    """Read a body where none is needed: absent is an empty object. Raises: Problem, as `parse`."""
    if not _is_chunked(request) and _declared_length(request) == 0:
        return {}
    return parse(request)


def parse_step(request: HttpRequest) -> StepDocument:
    """Raises: Problem, as `parse`; never for what a model wrote into the arguments of one call."""
    raw = _read(request)
    try:
        value, hashed = _strict(raw)
        found: dict[int, str] = {}
    except Problem:
        value, hashed = _tolerant(raw), canonical.sha256_hex(raw)
        found = _mark_objects(value, raw)
        if not found or not _is_canonical(value):
            raise
    return StepDocument(value, hashed, found | _mark_strings(value))


def parse_message(request: HttpRequest) -> tuple[Any, str | None]:
    """Return one JSON-RPC message; where the arguments of its call have no canonical form, their hash beside it.

    Raises: Problem, as `parse`.
    """
    raw = _read(request)
    try:
        return _strict(raw)[0], None
    except Problem:
        value = _tolerant(raw)
        call = value.get("params") if isinstance(value, dict) else None
        if not isinstance(call, dict) or _fits(call.get("arguments")):
            raise
        call["arguments"] = {}
        if not _is_canonical(value):
            raise
        return value, idempotency.raw_arguments_hash(raw)


def _strict(raw: bytes) -> tuple[Any, str]:
    try:
        value = canonical.parse_strict(raw)
        return value, canonical.sha256_hex(canonical.canonical_bytes(value))
    except NotCanonical:
        raise Problem("request.malformed") from None


def _read(request: HttpRequest) -> bytes:
    coding = request.META.get("HTTP_CONTENT_ENCODING", "identity").lower()
    if (request.content_type or "").lower() != JSON_TYPE or coding != "identity":
        raise Problem("request.unsupported_media_type")
    limit, declared = settings.TOOLSYS.max_body_bytes, _declared_length(request)
    if declared > limit:
        raise Problem("request.too_large")
    try:
        # Django reads no further than Content-Length, which a chunked body does not have.
        raw = request.META["wsgi.input"].read(limit + 1) if _is_chunked(request) else request.body
    except RequestDataTooBig:
        raise Problem("request.too_large") from None
    except (UnreadablePostError, RawPostDataException, OSError):
        raise Problem("request.malformed") from None
    if len(raw) > limit:
        raise Problem("request.too_large")
    if len(raw) < declared:
        raise Problem("request.malformed")
    return bytes(raw)


def _is_chunked(request: HttpRequest) -> bool:
    return "chunked" in request.META.get("HTTP_TRANSFER_ENCODING", "").lower()


def _declared_length(request: HttpRequest) -> int:
    sent = request.META.get("CONTENT_LENGTH") or "0"
    if not (sent.isascii() and sent.isdecimal() and len(sent) <= 18):
        raise Problem("request.malformed")
    return int(sent)


class _Bad:
    """Stands for a number or an object that two readers could read differently."""


_BAD: Final = _Bad()


def _tolerant(raw: bytes) -> Any:
    """Parse again, leaving a mark in place of what is at fault."""
    decoder = json.JSONDecoder(
        object_pairs_hook=_pairs, parse_constant=lambda _: _BAD, parse_float=_float, parse_int=_int
    )
    try:
        return decoder.decode(shallow(raw.decode("utf-8")))
    except (ValueError, RecursionError):
        raise Problem("request.malformed") from None


def _pairs(pairs: list[tuple[str, Any]]) -> Any:
    found = dict(pairs)
    return found if len(found) == len(pairs) else _BAD


def _float(literal: str) -> Any:
    value = float(literal)
    return value if math.isfinite(value) and not (value == 0 and literal.startswith("-")) else _BAD


def _int(literal: str) -> Any:
    return _BAD if len(literal) > 21 or literal == "-0" else int(literal)


def _calls(value: Any) -> list[tuple[int, dict[str, Any]]]:
    calls = value.get("calls") if isinstance(value, dict) else None
    listed = calls if isinstance(calls, list) else []
    return [(index, call) for index, call in enumerate(listed) if isinstance(call, dict)]


def _mark_objects(value: Any, raw: bytes) -> dict[int, str]:
    """Empty the arguments at fault. Their own bytes are lost to the parser: the key is over the body and the index."""
    found = {}
    for index, call in _calls(value):
        if not _fits(call.get("arguments")):
            found[index] = idempotency.raw_arguments_hash(raw + b"\0" + str(index).encode())
            call["arguments"] = {}
    return found


def _mark_strings(value: Any) -> dict[int, str]:
    """Parse arguments that came as a JSON string. What a model wrote there and is no object is its call's fault."""
    found = {}
    for index, call in _calls(value):
        text = call.get("arguments")
        if not isinstance(text, str):
            continue
        call["arguments"] = _object_in(text)
        if call["arguments"] is None:
            found[index] = idempotency.raw_arguments_hash(text.encode("utf-8", "surrogatepass"))
            call["arguments"] = {}
    return found


def _object_in(text: str) -> dict[str, Any] | None:
    try:
        found = canonical.parse_strict(text)
    except NotCanonical:
        return None
    return found if isinstance(found, dict) and _fits(found) else None


def _fits(arguments: Any) -> bool:
    """Arguments are bounded at the depth where they stand, so that the body around them has a canonical form too."""
    return _is_canonical([[[arguments]]])


def _is_canonical(value: Any) -> bool:
    try:
        canonical.normalize(value)
    except (NotCanonical, RecursionError):
        return False
    return True
