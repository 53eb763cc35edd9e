"""The two revisions of MCP that are served: which one a request speaks, and what its envelope must say.

2025-11-25 begins with a handshake and names its session in a header; 2026-07-28 says everything in each request, and
repeats in headers what a middlebox may route by: where the two disagree, the request is refused.
"""

import base64
import binascii
import re
from dataclasses import dataclass
from typing import Any, Final

from django.conf import settings
from django.http import HttpRequest

from toolsys.api.mcp_messages import Fault, Message
from toolsys.domain.spec import JsonObject
from toolsys.problems import FieldError

HANDSHAKE: Final = "2025-11-25"
STATELESS: Final = "2026-07-28"
TASKS: Final = "io.modelcontextprotocol/tasks"
_PREFIX: Final = "io.modelcontextprotocol/"
_VERSION: Final = f"{_PREFIX}protocolVersion"
_CAPABILITIES: Final = f"{_PREFIX}clientCapabilities"
# Revisions that begin with a handshake, served or not: dates before the one that does without.
_OLD: Final = re.compile(r"202[45]-[0-9]{2}-[0-9]{2}\Z")
_NAMED: Final = {
    "tools/call": "name", "prompts/get": "name", "resources/read": "uri", "tasks/get": "taskId",
    "tasks/update": "taskId", "tasks/cancel": "taskId",
}  # fmt: skip
_BASE64: Final = re.compile(r"=\?base64\?(?P<payload>[A-Za-z0-9+/=]*)\?=\Z")


@dataclass(frozen=True, slots=True)
class Envelope:
    """What a request says about its client."""

    revision: str
    speaks_tasks: bool = False

    @property
    def is_handshake(self) -> bool:
        return self.revision == HANDSHAKE


def check_origin(request: HttpRequest) -> None:
    """A script of a page may be anybody's: its page must be ours or a named one. Raises: Fault (mcp.origin_refused)."""
    sent = request.META.get("HTTP_ORIGIN")
    if (
        sent is not None
        and sent != f"{request.scheme}://{request.get_host()}"
        and sent not in settings.TOOLSYS.mcp_origins
    ):
        raise Fault("mcp.origin_refused")


def check_accept(request: HttpRequest) -> None:
    """Answers are one JSON document. Raises: Fault (request.not_acceptable)."""
    sent = request.META.get("HTTP_ACCEPT", "*/*")[:1_000].lower()
    offered = {part.partition(";")[0].strip() for part in sent.split(",")}
    if offered.isdisjoint({"application/json", "application/*", "*/*"}):
        raise Fault("request.not_acceptable")


def is_stateless(request: HttpRequest, message: Message) -> bool:
    """Tell by the header, and without it by the envelope."""
    header = request.META.get("HTTP_MCP_PROTOCOL_VERSION")
    if header is None:
        return _VERSION in _meta(message)
    return _OLD.match(header) is None


def envelope_of(request: HttpRequest, message: Message) -> Envelope:
    """Judge the envelope of a request without a handshake.

    Raises: Fault (mcp.parameters_invalid, mcp.header_mismatch, mcp.revision_unsupported).
    """
    meta = _meta(message)
    missing = [key for key in (_VERSION, _CAPABILITIES) if key not in meta]
    if missing:
        raise Fault("mcp.parameters_invalid", [FieldError("/params/_meta", f"needs {key}") for key in missing])
    version, capabilities = meta[_VERSION], meta[_CAPABILITIES]
    headers = request.META
    _same("MCP-Protocol-Version", headers.get("HTTP_MCP_PROTOCOL_VERSION"), version)
    _same("Mcp-Method", headers.get("HTTP_MCP_METHOD"), message.method)
    name = _NAMED.get(message.method)
    if name is not None and isinstance(message.params.get(name), str):
        _same("Mcp-Name", _decoded(headers.get("HTTP_MCP_NAME")), message.params[name])
    if version != STATELESS:
        raise Fault("mcp.revision_unsupported", supported=[STATELESS], requested=str(version)[:64])
    if not isinstance(capabilities, dict):
        raise Fault("mcp.parameters_invalid", [FieldError("/params/_meta", f"{_CAPABILITIES} is an object")])
    extensions = capabilities.get("extensions")
    return Envelope(STATELESS, isinstance(extensions, dict) and TASKS in extensions)


def check_handshake(request: HttpRequest, negotiated: str) -> None:
    """What follows a handshake names its revision, or none. Raises: Fault (mcp.revision_unsupported)."""
    sent = request.META.get("HTTP_MCP_PROTOCOL_VERSION", negotiated)
    if sent != negotiated:
        raise Fault("mcp.revision_unsupported", supported=[negotiated], requested=sent[:64])


def require_tasks(envelope: Envelope) -> None:
    """Raises: Fault (mcp.capability_missing)."""
    if not envelope.speaks_tasks:
        raise Fault("mcp.capability_missing", requiredCapabilities={"extensions": {TASKS: {}}})


def ours(message: Message, key: str) -> str:
    """Return a text that the client put under a key of ours, empty where there is none."""
    found = _meta(message).get(f"toolsys/{key}", "")
    return found if isinstance(found, str) else ""


def _meta(message: Message) -> JsonObject:
    found = message.params.get("_meta")
    return found if isinstance(found, dict) else {}


def _same(name: str, header: str | None, value: Any) -> None:
    if header is None or header != value:
        raise Fault("mcp.header_mismatch", [FieldError(name, "says what the message says")])


def _decoded(header: str | None) -> str | None:
    """Undo the base64 that a value of other characters travels in; None for what is no such value."""
    found = _BASE64.match(header) if header is not None else None
    if found is None:
        return header
    try:
        decoded = base64.b64decode(found["payload"], validate=True)
        is_canonical = base64.b64encode(decoded).decode() == found["payload"]
        return decoded.decode("utf-8") if is_canonical else None
    except (binascii.Error, UnicodeDecodeError):
        return None
