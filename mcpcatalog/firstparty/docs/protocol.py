"""The MCP of a server with two read-only tools: JSON-RPC in, JSON-RPC out, both eras, no state.

One message at a time and no batch. An error names what was wrong in our words and repeats nothing that was sent.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from pydantic import ValidationError

from mcpcatalog.contracts import Arguments, ToolContract
from mcpcatalog.firstparty.docs.audit import audit
from mcpcatalog.firstparty.docs.contracts import AUDIT, SEARCH, AuditArguments, SearchArguments
from mcpcatalog.firstparty.docs.library import Library, NoSuchDocument
from mcpcatalog.firstparty.docs.search import search

MODERN: Final = "2026-07-28"
HANDSHAKE: Final = ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")
PARSE_ERROR, INVALID_REQUEST, METHOD_NOT_FOUND, INVALID_PARAMS = -32_700, -32_600, -32_601, -32_602
HEADER_MISMATCH: Final = -32_020
_INFO: Final = {"name": "toolsys-docs", "version": "1"}
_CAPABILITIES: Final[dict[str, Any]] = {"tools": {}}
_COMPLETE: Final = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}


@dataclass(frozen=True, slots=True)
class Answer:
    """An HTTP status and a JSON-RPC answer; none to a notification. `tool` is for the log."""

    status: int
    body: dict[str, Any] | None = None
    tool: str = ""


@dataclass(frozen=True, slots=True)
class _Tool:
    contract: ToolContract
    arguments: type[Arguments]
    run: Callable[[Library, Any], dict[str, Any]]


_TOOLS: Final = {
    SEARCH.name: _Tool(SEARCH, SearchArguments, search),
    AUDIT.name: _Tool(AUDIT, AuditArguments, audit),
}


class _Refused(Exception):
    def __init__(self, code: int, message: str, status: int = 200) -> None:
        super().__init__(message)
        self.code, self.message, self.status = code, message, status


def answer(body: bytes, headers: Mapping[str, str], library: Library) -> Answer:
    """Answer one message. It reads the folder, so not on an event loop."""
    identifier: Any = None
    tool = ""
    try:
        message = _message(body)
        identifier = message.get("id")
        method, params = message["method"], message.get("params") or {}
        if identifier is None:
            return Answer(202)
        tool = str(params.get("name", ""))[:64] if method == "tools/call" else ""
        is_modern = headers.get("mcp-protocol-version") == MODERN
        if is_modern and headers.get("mcp-method", method) != method:
            raise _Refused(HEADER_MISMATCH, "the header Mcp-Method is another one than the message's", 400)
        result = _result(method, params, library)
    except _Refused as refused:
        error = {"code": refused.code, "message": refused.message}
        return Answer(refused.status, {"jsonrpc": "2.0", "id": identifier, "error": error}, tool)
    return Answer(200, {"jsonrpc": "2.0", "id": identifier, "result": result | (_COMPLETE if is_modern else {})}, tool)


def _message(body: bytes) -> dict[str, Any]:
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        raise _Refused(PARSE_ERROR, "not JSON", 400) from None
    is_message = isinstance(found, dict) and found.get("jsonrpc") == "2.0" and isinstance(found.get("method"), str)
    if not is_message or not isinstance(found.get("params", {}), dict) or not _is_identifier(found.get("id")):
        raise _Refused(INVALID_REQUEST, "not one JSON-RPC 2.0 request", 400)
    return dict(found)


def _is_identifier(value: Any) -> bool:
    return value is None or (isinstance(value, int) and not isinstance(value, bool)) or (
        isinstance(value, str) and len(value) <= 256
    )  # fmt: skip


def _result(method: str, params: dict[str, Any], library: Library) -> dict[str, Any]:
    if method == "server/discover":
        return {"supportedVersions": [MODERN], "capabilities": _CAPABILITIES}
    if method == "initialize":
        wanted = params.get("protocolVersion")
        version = wanted if wanted in HANDSHAKE else HANDSHAKE[0]
        return {"protocolVersion": version, "capabilities": _CAPABILITIES, "serverInfo": _INFO}
    if method == "ping":
        return {}
    if method == "tools/list":
        return {"tools": [_declared(tool.contract) for tool in _TOOLS.values()]}
    if method == "tools/call":
        return _called(params, library)
    raise _Refused(METHOD_NOT_FOUND, "there is no such method")


def _declared(contract: ToolContract) -> dict[str, Any]:
    hints = {"readOnlyHint": True, "idempotentHint": True, "openWorldHint": False}
    return {
        "name": contract.name, "description": contract.description, "inputSchema": contract.input_schema,
        "annotations": hints,
    }  # fmt: skip


def _called(params: dict[str, Any], library: Library) -> dict[str, Any]:
    name = params.get("name")
    tool = _TOOLS.get(name) if isinstance(name, str) else None
    if tool is None:
        raise _Refused(INVALID_PARAMS, "there is no such tool")
    try:
        arguments = tool.arguments.model_validate(params.get("arguments", {}), strict=True)
    except ValidationError:
        raise _Refused(INVALID_PARAMS, "the arguments do not fit this tool") from None
    try:
        found = tool.run(library, arguments)
    except NoSuchDocument:
        return {"content": [{"type": "text", "text": "There is no such document."}], "isError": True}
    text = json.dumps(found, ensure_ascii=False, separators=(",", ":"))
    return {"content": [{"type": "text", "text": text}], "structuredContent": found}
