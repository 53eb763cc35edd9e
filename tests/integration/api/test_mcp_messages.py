"""What an MCP client may get wrong: each has a code of the protocol and one of ours, and writes nothing."""

import base64
import json
from collections.abc import Iterator
from typing import Any

import pytest
from django.db import OperationalError, connections
from django.test import Client

from tests.factories import Tenancy
from tests.integration.api.mcp_peer import NEW, OLD, Peer
from tests.spec.requirements import gate
from toolsys import conversations
from toolsys.domain.reasons import reason
from toolsys.models import Invocation, McpProposal
from toolsys.tenancy import tenant_transaction

VERSION = "io.modelcontextprotocol/protocolVersion"
CAPABILITIES = "io.modelcontextprotocol/clientCapabilities"
PING = {"jsonrpc": "2.0", "id": 1, "method": "ping"}


@pytest.fixture
def client(acme: Tenancy) -> Iterator[Peer]:
    yield Peer.of(acme).shake()
    with tenant_transaction(acme.id):
        assert (Invocation.objects.count(), McpProposal.objects.count()) == (0, 0)
    connections.close_all()


AT_FAULT: list[tuple[Any, tuple[int, int, str]]] = [
    ("{", (400, -32700, "request.malformed")), ("", (415, -32600, "request.unsupported_media_type")),
    ('{"a": 1, "a": 2}', (400, -32700, "request.malformed")), ("[" * 100_000, (400, -32700, "request.malformed")),
    ([PING, PING], (400, -32600, "mcp.request_invalid")), ([], (400, -32600, "mcp.request_invalid")),
    ("7", (400, -32600, "mcp.request_invalid")), ({**PING, "jsonrpc": "1.0"}, (400, -32600, "mcp.request_invalid")),
    ({**PING, "method": 7}, (400, -32600, "mcp.request_invalid")),
    ({**PING, "id": 1.5}, (400, -32600, "mcp.request_invalid")),
    ({**PING, "id": None}, (400, -32600, "mcp.request_invalid")),
    ({**PING, "id": True}, (400, -32600, "mcp.request_invalid")),
    ({**PING, "id": "x" * 129}, (400, -32600, "mcp.request_invalid")),
    ({"jsonrpc": "2.0", "id": 1, "result": {}}, (400, -32600, "mcp.request_invalid")),
    ({**PING, "params": [1]}, (400, -32602, "mcp.parameters_invalid")),
    ({**PING, "method": "prompts/list"}, (200, -32601, "mcp.method_unknown")),
    ({**PING, "method": "sampling/createMessage"}, (200, -32601, "mcp.method_unknown")),
    ({**PING, "method": "tasks/get", "params": {"taskId": "x"}}, (200, -32601, "mcp.method_unknown")),
    ({**PING, "method": "server/discover"}, (200, -32601, "mcp.method_unknown")),
    ({**PING, "method": "tools/call", "params": {}}, (200, -32602, "mcp.parameters_invalid")),
    ({**PING, "method": "tools/call", "params": {"name": "a\nb"}}, (200, -32602, "mcp.parameters_invalid")),
    ({**PING, "method": "tools/call", "params": {"name": "x.y", "arguments": "{}"}},
     (200, -32602, "mcp.parameters_invalid")),
    ({**PING, "method": "initialize"}, (200, -32602, "mcp.parameters_invalid")),
]  # fmt: skip


@gate("mcp.face.refused")
def test_a_message_at_fault_is_refused(client: Peer) -> None:
    answers = [client.post(body) for body, _ in AT_FAULT]
    assert [answer.refusal for answer in answers] == [refusal for _, refusal in AT_FAULT]
    for answer in answers:
        error, said = answer.body["error"], reason(answer.refusal[2])
        assert (error["message"], error["data"]["retryable"]) == (said.message, said.retryable)
        assert error["data"]["request_id"] == answer.headers["Request-Id"]


@gate("mcp.face.refused")
def test_the_way_a_message_comes_is_judged_before_it_is_read(client: Peer) -> None:
    assert client.post(PING).result == {}
    assert client.post(PING, accept=None).result == {}
    assert client.post(PING, accept="text/html, application/*;q=0.5").result == {}
    assert client.post(PING, accept="text/event-stream").refusal == (406, -32600, "request.not_acceptable")
    wrong = client.post("x", **{"content-type": "text/plain"})
    assert wrong.refusal == (415, -32600, "request.unsupported_media_type")
    large = json.dumps(PING) + " " * 1_100_000
    assert client.post(large).refusal == (413, -32600, "request.too_large")
    assert client.post(PING, origin="http://evil.example").refusal == (403, -32000, "mcp.origin_refused")
    assert client.post(PING, authorization=None).refusal == (401, -32000, "auth.missing")
    assert client.post(PING, authorization="Bearer tsk_00000000_" + "A" * 43).refusal == (401, -32000, "auth.invalid")
    for method in ("GET", "PUT", "OPTIONS"):
        answer = client.post(None, method)
        assert answer.refusal == (405, -32000, "request.method_not_allowed")
        assert answer.headers["Allow"] == "POST, DELETE"
    foreign: Any = Client(raise_request_exception=False).post(
        "/mcp", "{}", "application/json", HTTP_HOST="evil.example"
    )
    assert (foreign.status_code, foreign.json()["code"]) == (400, "request.malformed")


@gate("mcp.face.refused")
def test_a_session_speaks_the_revision_that_it_began_with(client: Peer) -> None:
    assert client.post(PING, **{"mcp-protocol-version": OLD}).result == {}
    for other in ("2025-06-18", "2024-11-05"):
        refused = client.post(PING, **{"mcp-protocol-version": other})
        assert refused.refusal == (400, -32022, "mcp.revision_unsupported")
        assert refused.body["error"]["data"]["supported"] == [OLD]
    assert client.post(PING, **{"mcp-session-id": None}).refusal == (400, -32600, "mcp.session_missing")
    for unknown in ("nonsense", "00000000-0000-7000-8000-000000000000"):
        refused = client.post(PING, **{"mcp-session-id": unknown})
        assert refused.refusal == (404, -32000, "mcp.session_unknown")
    older = {"protocolVersion": "2024-11-05", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}
    begun = client.post({**PING, "method": "initialize", "params": older})
    assert begun.result["protocolVersion"] == OLD, "it may go where it does not speak ours"


def _stateless(**changed: Any) -> dict[str, Any]:
    meta = {VERSION: NEW, CAPABILITIES: {}, **changed.pop("meta", {})}
    params = {"_meta": {key: value for key, value in meta.items() if value is not ...}, **changed.pop("params", {})}
    return {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": params, **changed}


HEADERS = {"mcp-protocol-version": NEW, "mcp-method": "tools/list", "mcp-session-id": None}
ENVELOPES: list[tuple[dict[str, Any], dict[str, Any], tuple[int, int, str]]] = [
    ({}, {"mcp-method": None}, (400, -32020, "mcp.header_mismatch")),
    ({}, {"mcp-method": "tools/call"}, (400, -32020, "mcp.header_mismatch")),
    ({}, {"mcp-protocol-version": None}, (400, -32020, "mcp.header_mismatch")),
    ({}, {"mcp-protocol-version": "2027-01-01"}, (400, -32020, "mcp.header_mismatch")),
    ({"meta": {VERSION: "2027-01-01"}}, {"mcp-protocol-version": "2027-01-01"},
     (400, -32022, "mcp.revision_unsupported")),
    ({"meta": {VERSION: ...}}, {}, (400, -32602, "mcp.parameters_invalid")),
    ({"meta": {CAPABILITIES: ...}}, {}, (400, -32602, "mcp.parameters_invalid")),
    ({"meta": {CAPABILITIES: []}}, {}, (400, -32602, "mcp.parameters_invalid")),
    ({"params": {"_meta": 7}}, {}, (400, -32602, "mcp.parameters_invalid")),
    ({"method": "initialize"}, {"mcp-method": "initialize"}, (404, -32601, "mcp.method_unknown")),
    ({"method": "ping"}, {"mcp-method": "ping"}, (404, -32601, "mcp.method_unknown")),
    ({"method": "tools/call", "params": {"name": "demo.echo"}}, {"mcp-method": "tools/call"},
     (400, -32020, "mcp.header_mismatch")),
    ({"method": "tools/call", "params": {"name": "demo.echo"}}, {"mcp-method": "tools/call", "mcp-name": "demo.other"},
     (400, -32020, "mcp.header_mismatch")),
    ({"method": "tools/call", "params": {"name": "demo.echo"}},
     {"mcp-method": "tools/call", "mcp-name": "=?base64?ZGVtby5lY2hp?="}, (400, -32020, "mcp.header_mismatch")),
    ({"method": "tools/call", "params": {"name": "demo.echo"}},
     {"mcp-method": "tools/call", "mcp-name": "=?base64?////?="}, (400, -32020, "mcp.header_mismatch")),
]  # fmt: skip


@gate("mcp.face.refused")
def test_an_envelope_that_disagrees_with_itself_is_refused(client: Peer) -> None:
    answers = [
        client.post(_stateless(**json_copy(changed)), **{**HEADERS, **headers}) for changed, headers, _ in ENVELOPES
    ]
    assert [answer.refusal for answer in answers] == [refusal for *_, refusal in ENVELOPES]
    (other,) = [answer.body["error"]["data"] for answer in answers if answer.refusal[1] == -32022]
    assert (other["supported"], other["requested"]) == ([NEW], "2027-01-01")


def json_copy(value: dict[str, Any]) -> dict[str, Any]:
    return {key: dict(each) if isinstance(each, dict) else each for key, each in value.items()}


def test_a_name_may_come_in_base64(acme: Tenancy) -> None:
    encoded = base64.b64encode(b"nope.t\xc3\xb6\xc3\xb6l").decode()
    body = _stateless(method="tools/call", params={"name": "nope.tööl", "arguments": {}})
    sent = {**HEADERS, "mcp-method": "tools/call", "mcp-name": f"=?base64?{encoded}?="}
    answer = Peer.of(acme).post(body, **sent)
    assert answer.result["structuredContent"]["reason_code"] == "policy.matrix.unknown_tool"


@gate("mcp.face.refused")
@pytest.mark.parametrize("method", ["notifications/cancelled", "notifications/whatever"])
def test_a_notification_of_the_stateless_revision_is_taken_and_does_nothing(client: Peer, method: str) -> None:
    client.session = None
    answer = client.post({"jsonrpc": "2.0", "method": method, "params": {"requestId": 1}}, **{
        "mcp-protocol-version": NEW, "mcp-method": method,
    })  # fmt: skip
    assert (answer.status, answer.body) == (202, None)


@gate("mcp.face.refused")
@pytest.mark.parametrize(
    ("error", "refusal"),
    [(OperationalError("gone"), (503, -32603, "server.unavailable")),
     (RuntimeError("secret tsk_abc"), (200, -32603, "server.internal"))],
    ids=["database", "fault"],
)  # fmt: skip
def test_what_fails_here_is_told_without_a_word_of_it(
    client: Peer, monkeypatch: pytest.MonkeyPatch, error: Exception, refusal: tuple[int, int, str]
) -> None:
    def fail(*_: Any) -> None:
        raise error

    with monkeypatch.context() as broken:
        broken.setattr(conversations, "resume", fail)
        answer = client.post(PING)
    assert answer.refusal == refusal
    assert "secret" not in json.dumps(answer.body)
    assert ("Retry-After" in answer.headers) is (refusal[0] == 503)
