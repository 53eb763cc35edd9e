"""An MCP client of the face as bare as can be: it writes its own JSON-RPC, so that it can also write it wrongly."""

import http.client
import itertools
import json
import uuid
from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import Any, Self
from urllib.parse import urlsplit

from django.test import Client

from tests.factories import Tenancy
from toolsys import provisioning

OLD, NEW = "2025-11-25", "2026-07-28"
TASKS = "io.modelcontextprotocol/tasks"
PATIENCE = 60.0


@dataclass
class Answer:
    """What came back. `body` is None where there was none."""

    status: int
    body: Any
    headers: Any

    @property
    def result(self) -> Any:
        assert "error" not in self.body, self.body
        return self.body["result"]

    @property
    def refusal(self) -> tuple[int, int, str]:
        """The HTTP status, JSON-RPC's code and ours."""
        error = self.body["error"]
        return self.status, error["code"], error["data"]["reason_code"]

    @property
    def meta(self) -> Any:
        return self.result["_meta"]

    @property
    def said(self) -> list[str]:
        return [each["text"] for each in self.result["content"]]


@dataclass
class Peer:
    """One client with one key. `session` is set by the handshake; without one it speaks the stateless revision."""

    tenancy: Tenancy
    key: str
    session: str | None = None
    capabilities: dict[str, Any] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)
    _ids: Any = field(default_factory=lambda: itertools.count(1))

    @classmethod
    def of(cls, tenancy: Tenancy, **names: str) -> Self:
        key = provisioning.create_api_key(tenancy.id, f"peer {uuid.uuid4().hex[:8]}", ["demo.write"])[1]
        return cls(tenancy, key, names={"toolsys-principal": "user-1", **names})

    def shake(self) -> Self:
        given = {"protocolVersion": OLD, "capabilities": {}, "clientInfo": {"name": "peer", "version": "1"}}
        begun = self.post({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": given})
        assert begun.result["protocolVersion"] == OLD
        self.session = begun.headers["Mcp-Session-Id"]
        assert self.notify("notifications/initialized").status == 202
        return self

    def post(self, body: Any, method: str | None = None, **changed: str | None) -> Answer:
        given: dict[str, str | None] = {
            "authorization": f"Bearer {self.key}", "accept": "application/json, text/event-stream",
            "prefer": "respond-async", "mcp-session-id": self.session, **self.names, **changed,
        }  # fmt: skip
        kind = given.pop("content-type", None) or "application/json"
        headers = {name: value for name, value in given.items() if value is not None}
        data = body if isinstance(body, str | bytes) else json.dumps(body)
        return self.send(method or "POST", None if body is None else data, kind, headers)

    def send(self, method: str, data: str | bytes | None, kind: str, headers: dict[str, str]) -> Answer:
        """Speak to the view in this process."""
        sent: dict[str, Any] = {} if data is None else {"data": data, "content_type": kind}
        answer: Any = Client(raise_request_exception=False).generic(method, "/mcp", headers=headers, **sent)
        raw = b"".join(answer.streaming_content) if answer.streaming else answer.content
        return Answer(answer.status_code, json.loads(raw) if raw else None, answer.headers)

    def ask(self, method: str, params: Any = None, *, id: Any = None, **changed: str | None) -> Answer:  # noqa: A002
        """Send a request as the revision has it."""
        given = dict(params or {})
        number = next(self._ids) if id is None else id
        body = {"jsonrpc": "2.0", "id": number, "method": method, "params": given}
        if self.session is not None:
            return self.post(body, **changed)
        given["_meta"] = {
            "io.modelcontextprotocol/protocolVersion": NEW,
            "io.modelcontextprotocol/clientCapabilities": self.capabilities, **given.get("_meta", {}),
        }  # fmt: skip
        named = given.get("name") or given.get("taskId")
        headers = {"mcp-protocol-version": NEW, "mcp-method": method, "mcp-name": named}
        return self.post(body, **{**headers, **changed})

    def call(self, name: str, arguments: Any, **changed: Any) -> Answer:
        return self.ask("tools/call", {"name": name, "arguments": arguments}, **changed)

    def notify(self, method: str, params: Any = None) -> Answer:
        return self.post({"jsonrpc": "2.0", "method": method, "params": params or {}})


@dataclass
class RemotePeer(Peer):
    """The same client over a socket, to a web process that is served at `address`. Raises: OSError, HTTPException."""

    address: str = ""

    def at(self, address: str) -> Self:
        """Return the same client, with its key and its session, speaking to another web process."""
        return replace(self, address=address)

    def send(self, method: str, data: str | bytes | None, kind: str, headers: dict[str, str]) -> Answer:
        with closing(http.client.HTTPConnection(urlsplit(self.address).netloc, timeout=PATIENCE)) as line:
            line.request(method, "/mcp", data, {**headers, "content-type": kind})
            answer = line.getresponse()
            raw = answer.read()
            return Answer(answer.status, json.loads(raw) if raw else None, answer.headers)
