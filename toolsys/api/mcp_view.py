"""`/mcp`: the governed tools as an MCP server, one more face of the same services, in two revisions of the protocol.

A plain view: JSON in, JSON out, no stream and nothing that the server asks of its client. Who calls is known by the
same keys as the REST API. Source: DESIGN §6 "POST /mcp".
"""

import re
from collections.abc import Callable
from typing import Final
from uuid import UUID

from django.db import connections
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.views.decorators.csrf import csrf_exempt

from toolsys import conversations, database
from toolsys.api import mcp_calls, mcp_messages, mcp_render, mcp_revisions, problems
from toolsys.api.authentication import caller_of
from toolsys.api.mcp_messages import Fault, Message, Reply
from toolsys.api.mcp_revisions import HANDSHAKE, STATELESS, Envelope
from toolsys.composition import Composition, composed
from toolsys.conversations import Conversation, Party
from toolsys.domain.spec import JsonObject
from toolsys.problems import FieldError, Problem

SESSION: Final = "Mcp-Session-Id"
_LABEL: Final = re.compile(r"^[^\x00-\x1f]{0,128}\Z")
_CAPABILITIES: Final[JsonObject] = {"tools": {}}
_TASKS: Final[JsonObject] = {"extensions": {mcp_revisions.TASKS: {}}}
_FRESH: Final[JsonObject] = {"ttlMs": 0, "cacheScope": "private"}


@csrf_exempt
def serve(request: HttpRequest) -> HttpResponseBase:
    """Answer one message. Keys are sent by programs, so that no cookie and no form token is asked for."""
    return _Exchange(request).answered()


class _Exchange:
    """One request, and what is known of it so far: enough to say what was wrong in its own words."""

    def __init__(self, request: HttpRequest) -> None:
        self.request = request
        self.house: Composition = composed()
        self.message: Message | None = None
        self.envelope: Envelope | None = None
        self.party: Party | None = None

    def answered(self) -> HttpResponseBase:
        try:
            return self._answer()
        except Exception as error:  # noqa: BLE001
            # Whatever goes wrong is answered in the protocol's words; what nobody expected is logged by `code_of`.
            for connection in connections.all(initialized_only=True):
                if connection.in_atomic_block:
                    connection.set_rollback(True)
            return self._refusal(error)

    def _refusal(self, error: Exception) -> HttpResponse:
        code = problems.code_of(error, self.request)
        identifier = self.message.id if self.message is not None else None
        is_handshake = self.envelope is not None and self.envelope.is_handshake
        refused = mcp_messages.error(self.request, identifier, code, error, is_handshake=is_handshake)
        if code == "request.method_not_allowed":
            refused["Allow"] = "POST, DELETE"
        return refused

    def _answer(self) -> HttpResponseBase:
        mcp_revisions.check_origin(self.request)
        caller = caller_of(self.request.META.get("HTTP_AUTHORIZATION", ""))
        if self.request.method == "DELETE":
            conversations.end(Party(caller.tenant_id, caller.api_key_id), self._session_id(), self.house)
            return HttpResponse(status=204)
        if self.request.method != "POST":
            raise Problem("request.method_not_allowed")
        mcp_revisions.check_accept(self.request)
        self.message = message = mcp_messages.read(self.request)
        self.party = self._party(caller.tenant_id, caller.api_key_id, message)
        if mcp_revisions.is_stateless(self.request, message):
            reply = self._stateless(message, self.party)
        else:
            self.envelope = Envelope(HANDSHAKE)
            reply = self._handshake(message, self.party)
        if reply is None or message.id is None:
            return HttpResponse(status=202)
        return mcp_messages.result(message.id, reply, self._collect)

    def _party(self, tenant_id: str, api_key_id: UUID, message: Message) -> Party:
        """Raises: Fault (mcp.parameters_invalid)."""
        said = {
            name: mcp_revisions.ours(message, name) or self.request.META.get(f"HTTP_TOOLSYS_{name.upper()}", "")
            for name in ("agent", "principal", "environment", "session")
        }
        wrong = [name for name, text in said.items() if not _LABEL.match(text)]
        if wrong:
            raise Fault(
                "mcp.parameters_invalid",
                [FieldError(f"Toolsys-{name.title()}", "at most 128 characters, no control ones") for name in wrong],
            )
        return Party(
            tenant_id, api_key_id, agent=said["agent"], principal=said["principal"],
            environment=said["environment"] or "production", conversation=said["session"],
        )  # fmt: skip

    def _stateless(self, message: Message, party: Party) -> Reply | None:
        if message.id is None:
            return None
        envelope = self.envelope = mcp_revisions.envelope_of(self.request, message)
        if message.method == "server/discover":
            offered = {
                "supportedVersions": [STATELESS], "capabilities": _CAPABILITIES | _TASKS, "instructions":
                mcp_render.INSTRUCTIONS, **_FRESH,
            }  # fmt: skip
            return Reply(mcp_render.completed(offered))
        task = _TASK_METHODS.get(message.method)
        if task is not None:
            mcp_revisions.require_tasks(envelope)
            found = task(message, party, self.house)
            return Reply(mcp_render.completed(found.result), collects=found.collects)
        if message.method not in {"tools/list", "tools/call"}:
            raise Fault("mcp.method_unknown")
        conversation = conversations.join(party, STATELESS, self.house)
        if message.method == "tools/list":
            _no_cursor(message)
            return Reply(mcp_render.completed(mcp_calls.tools(conversation) | _FRESH))
        reply = mcp_calls.call(self.request, message, envelope, conversation, self.house)
        return Reply(mcp_render.completed(reply.result), collects=reply.collects)

    def _handshake(self, message: Message, party: Party) -> Reply | None:
        if message.method == "initialize" and message.id is not None:
            return self._begin(message, party)
        conversation = conversations.resume(party, self._session_id(), self.house)
        mcp_revisions.check_handshake(self.request, conversation.revision)
        if message.id is None:
            if message.method == "notifications/cancelled":
                mcp_calls.cancel(message, conversation, self.house)
            return None
        return self._method(message, conversation)

    def _method(self, message: Message, conversation: Conversation) -> Reply:
        """Raises: Fault (mcp.method_unknown)."""
        match message.method:
            case "ping":
                return Reply({})
            case "tools/list":
                _no_cursor(message)
                return Reply(mcp_calls.tools(conversation))
            case "tools/call":
                return mcp_calls.call(self.request, message, Envelope(HANDSHAKE), conversation, self.house)
        raise Fault("mcp.method_unknown")

    def _begin(self, message: Message, party: Party) -> Reply:
        """Open a conversation. Whatever revision the client would rather speak, it is told ours and may go.

        Raises: Fault (mcp.parameters_invalid), Problem (request.invalid).
        """
        for name, kind in (("protocolVersion", str), ("capabilities", dict), ("clientInfo", dict)):
            if not isinstance(message.params.get(name), kind):
                raise Fault("mcp.parameters_invalid", [FieldError(f"/params/{name}", "is missing")])
        opened = conversations.begin(party, HANDSHAKE, self.house)
        offered = {
            "protocolVersion": HANDSHAKE, "capabilities": _CAPABILITIES, "serverInfo": mcp_render.SERVER,
            "instructions": mcp_render.INSTRUCTIONS,
        }  # fmt: skip
        return Reply(offered, {SESSION: str(opened.id)})

    def _session_id(self) -> UUID:
        """Raises: Fault (mcp.session_missing), Problem (mcp.session_unknown)."""
        sent = self.request.META.get("HTTP_MCP_SESSION_ID")
        if sent is None:
            raise Fault("mcp.session_missing")
        try:
            return UUID(sent[:64])
        except ValueError:
            raise Problem("mcp.session_unknown") from None

    def _collect(self, call_id: UUID) -> None:
        """Runs while the answer goes out, after the view: the connection is taken for it and given back."""
        assert self.party is not None
        conversations.collect(self.party.tenant_id, call_id, self.house.runtime.probe)
        database.release_connection()


_TASK_METHODS: Final[dict[str, Callable[[Message, Party, Composition], Reply]]] = {
    "tasks/get": mcp_calls.get_task, "tasks/update": mcp_calls.update_task, "tasks/cancel": mcp_calls.cancel_task,
}  # fmt: skip


def _no_cursor(message: Message) -> None:
    """The list is one page, so that every cursor is somebody else's. Raises: Fault (mcp.parameters_invalid)."""
    if message.params.get("cursor") is not None:
        raise Fault("mcp.parameters_invalid", [FieldError("/params/cursor", "no list here has a second page")])
