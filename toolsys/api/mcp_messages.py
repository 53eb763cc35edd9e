"""JSON-RPC as the MCP face reads and answers it: one message a request, faults with a code of the protocol and ours.

Whatever an error says comes from the reason table; nothing that was sent is echoed but the id, and a bounded revision.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.http.response import HttpResponseBase

from toolsys.api import parsing
from toolsys.api.base import answer, as_json
from toolsys.api.problems import RETRY_SECONDS
from toolsys.domain.reasons import reason
from toolsys.domain.spec import JsonObject
from toolsys.problems import FieldError, Problem

MAXIMUM_ID: Final = 128
JSON_RPC: Final = "2.0"
_OTHER: Final = -32000
_CODES: Final = {
    "request.malformed": -32700, "mcp.request_invalid": -32600, "request.unsupported_media_type": -32600,
    "request.not_acceptable": -32600, "request.too_large": -32600, "mcp.session_missing": -32600,
    "mcp.method_unknown": -32601, "mcp.parameters_invalid": -32602, "request.invalid": -32602,
    "mcp.task_unknown": -32602, "mcp.key_reused": -32602, "mcp.header_mismatch": -32020,
    "mcp.capability_missing": -32021, "mcp.revision_unsupported": -32022, "server.internal": -32603,
    "server.unavailable": -32603,
}  # fmt: skip


class Fault(Problem):
    """A problem of a message, with what the protocol wants said in `data`."""

    def __init__(self, reason_code: str, errors: Iterable[FieldError] = (), **said: Any) -> None:
        super().__init__(reason_code, tuple(errors))
        self.said = said


@dataclass(frozen=True, slots=True)
class Message:
    """One request, or a notification, whose `id` is None. `raw_hash`: the arguments in it have no canonical form."""

    id: str | int | None
    method: str
    params: JsonObject
    raw_hash: str | None = None

    @property
    def id_text(self) -> str:
        """Tell the number 1 from the text "1", as clients may use both."""
        return as_json(self.id)


@dataclass(frozen=True, slots=True)
class Reply:
    """What a method answers. `collects` is the proposal whose outcome this is: noted while the answer goes out."""

    result: JsonObject
    headers: dict[str, str] = field(default_factory=dict)
    collects: Any = None


def read(request: HttpRequest) -> Message:
    """Raises: Problem (request.*), Fault (mcp.request_invalid, mcp.parameters_invalid)."""
    value, raw_hash = parsing.parse_message(request)
    if not isinstance(value, dict) or value.get("jsonrpc") != JSON_RPC or not isinstance(value.get("method"), str):
        raise Fault("mcp.request_invalid")
    identifier = value.get("id")
    if "id" in value and not _is_id(identifier):
        raise Fault("mcp.request_invalid", [FieldError("/id", "a text of at most 128 characters, or an integer")])
    params = value.get("params", {})
    if not isinstance(params, dict):
        raise Fault("mcp.parameters_invalid", [FieldError("/params", "an object")])
    return Message(identifier, value["method"], params, raw_hash)


def _is_id(value: Any) -> bool:
    if isinstance(value, str):
        return len(value) <= MAXIMUM_ID
    return isinstance(value, int) and not isinstance(value, bool)


def error(
    request: HttpRequest, identifier: str | int | None, code: str, fault: Exception, *, is_handshake: bool
) -> HttpResponse:
    """Render a fault. A client of the handshake takes other statuses than 200 for a broken connection: it gets 200 for
    what is wrong with one request and not with the way it came.
    """
    row = reason(code)
    data: JsonObject = {"reason_code": code, "retryable": row.retryable, "remediation": row.remediation}
    data["request_id"] = getattr(request, "request_id", "")
    if isinstance(fault, Problem) and fault.errors:
        data["errors"] = [{"pointer": each.pointer, "message": each.message} for each in fault.errors]
    if isinstance(fault, Fault):
        data |= fault.said
    body = {
        "jsonrpc": JSON_RPC, "id": identifier,
        "error": {"code": _CODES.get(code, _OTHER), "message": row.message, "data": data},
    }  # fmt: skip
    is_one_requests = identifier is not None and is_handshake and code not in _OF_THE_WAY
    headers = {}
    if row.http_status == 401:
        headers["WWW-Authenticate"] = 'Bearer realm="toolsys"'
    if row.http_status == 503:
        headers["Retry-After"] = RETRY_SECONDS
    return answer(body, 200 if is_one_requests else _status(row.http_status, code), headers)


_OF_THE_WAY: Final = frozenset({
    "auth.missing", "auth.invalid", "mcp.origin_refused", "request.not_acceptable", "request.unsupported_media_type",
    "request.too_large", "request.malformed", "mcp.request_invalid", "mcp.session_missing", "mcp.session_unknown",
    "mcp.revision_unsupported", "server.unavailable",
})  # fmt: skip


def _status(http_status: int, code: str) -> int:
    """The protocol says 400 where parameters are at fault."""
    return 400 if _CODES.get(code) == -32602 else http_status


def result(identifier: str | int | None, reply: Reply, collect: Any) -> HttpResponseBase:
    """Render an answer; of an outcome the last byte follows after `collect` has noted that it goes out.

    Who is gone by then is not asked for the last byte, so that its outcome stays to be collected. Who has read all of
    it may call again at once: the note is committed.
    """
    body = {"jsonrpc": JSON_RPC, "id": identifier, "result": reply.result}
    if reply.collects is None:
        return answer(body, 200, reply.headers)
    data = as_json(body).encode("utf-8", "replace")

    def parts() -> Iterator[bytes]:
        yield data[:-1]
        collect(reply.collects)
        yield data[-1:]

    sent = StreamingHttpResponse(parts(), content_type=parsing.JSON_TYPE, headers=reply.headers)
    sent["Content-Length"] = str(len(data))
    return sent
