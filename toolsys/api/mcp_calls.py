"""A call of an MCP client is one step with one call, through the same service as every other: proposed, waited for.

What is asked again while it is held or uncollected is the same step, which the pipeline replays and never runs twice.
The stateless revision's tasks are the same invocations by their ids. Source: DESIGN §6 "POST /mcp".
"""

import re
from typing import Final
from uuid import UUID

from django.conf import settings
from django.http import HttpRequest

from toolsys import conversations, selectors, services, wakeups
from toolsys.api import mcp_render, mcp_revisions, waiting
from toolsys.api.mcp_messages import Fault, Message, Reply
from toolsys.api.mcp_revisions import Envelope
from toolsys.composition import Composition
from toolsys.conversations import Conversation, NumberedCall, Party
from toolsys.domain import canonical
from toolsys.domain.spec import JsonObject
from toolsys.problems import FieldError, Problem
from toolsys.selectors import CallView
from toolsys.services import CallDraft, StepSubmission

CALL_ID: Final = "call"
_KEY: Final = re.compile(r"^[\x21-\x7e]{1,255}\Z")
_NAME: Final = re.compile(r"^[^\x00-\x1f]{1,128}\Z")


def call(
    request: HttpRequest, message: Message, envelope: Envelope, conversation: Conversation, house: Composition
) -> Reply:
    """Propose, and wait as long as the client says or is usual. Raises: Problem, with nothing written."""
    draft, fingerprint = _draft(message)
    key = _client_key(request, message)
    numbered = conversations.number(conversation, fingerprint, message.id_text, key, house.runtime.ids.uuid())
    wanted = waiting.preference(request, settings.TOOLSYS.mcp_wait_seconds)

    def read() -> CallView | None:
        found = selectors.step_calls(
            conversation.tenant_id, numbered.run_id, numbered.step_number, house.runtime.sealer
        )
        return found[0] if found else None

    def is_done(view: CallView | None) -> bool:
        is_held = view is not None and view.is_waiting_for_people and envelope.speaks_tasks
        return view is not None and (view.status.is_terminal or is_held)

    with wakeups.HUB.waiting(wakeups.step_key(numbered.run_id, numbered.step_number)) as waiter:
        is_replay = _propose(conversation, numbered, draft, fingerprint, house)
        view, _ = waiting.wait(waiter, read, is_done, wanted)
    if view is None:
        raise Problem("server.unavailable")
    if envelope.speaks_tasks and not view.status.is_terminal:
        return Reply({"resultType": "task", **mcp_render.task(view)})
    return Reply(mcp_render.call(view, is_replay=is_replay), collects=numbered.id if view.status.is_terminal else None)


def _propose(
    conversation: Conversation, numbered: NumberedCall, draft: CallDraft, fingerprint: str, house: Composition
) -> bool:
    """Take the step as far as this process can; say whether it was known."""
    submission = StepSubmission(
        tenant_id=conversation.tenant_id, api_key_id=conversation.api_key_id, run_id=numbered.run_id,
        step_number=numbered.step_number, calls=(draft,), context_trust=(), correlation_id="", body_hash=fingerprint,
    )  # fmt: skip
    try:
        return services.propose_step(submission, house.runtime)[0].is_replay
    except Problem:
        conversations.forget(conversation.tenant_id, numbered.id)
        raise


def _draft(message: Message) -> tuple[CallDraft, str]:
    """Return the call and what tells it from others. Raises: Fault (mcp.parameters_invalid)."""
    name, arguments = message.params.get("name"), message.params.get("arguments", {})
    if not isinstance(name, str) or not _NAME.match(name):
        raise Fault("mcp.parameters_invalid", [FieldError("/params/name", "a text of 1 to 128 characters")])
    if not isinstance(arguments, dict):
        raise Fault("mcp.parameters_invalid", [FieldError("/params/arguments", "an object")])
    told = canonical.canonical_bytes([name, message.raw_hash or arguments])
    return CallDraft(CALL_ID, name, arguments, message.raw_hash), canonical.sha256_hex(told)


def _client_key(request: HttpRequest, message: Message) -> str | None:
    """Return the client's own name for this call. Raises: Fault (mcp.parameters_invalid)."""
    sent = mcp_revisions.ours(message, "idempotency-key") or request.META.get("HTTP_IDEMPOTENCY_KEY", "")
    if not sent:
        return None
    if not _KEY.match(sent):
        raise Fault("mcp.parameters_invalid", [FieldError("Idempotency-Key", "1 to 255 visible ASCII characters")])
    return sent


def cancel(message: Message, conversation: Conversation, house: Composition) -> None:
    """Cancel what the named request of this conversation asked for last. A name of nothing is nothing."""
    named = message.params.get("requestId")
    if isinstance(named, str | int) and not isinstance(named, bool):
        conversations.cancel_request(conversation, Message(named, message.method, {}).id_text, house)


def get_task(message: Message, party: Party, house: Composition) -> Reply:
    """Say how far a call is; with its outcome, when it has one. Raises: Fault (mcp.task_unknown)."""
    view, proposal_id = _task(message, party, house)
    ends = view.status.is_terminal
    return Reply(mcp_render.task(view), collects=proposal_id if ends else None)


def update_task(message: Message, party: Party, house: Composition) -> Reply:
    """Acknowledge: no task of ours asks its client anything. Raises: Fault (mcp.task_unknown)."""
    _task(message, party, house)
    return Reply({})


def cancel_task(message: Message, party: Party, house: Composition) -> Reply:
    """Raises: Fault (mcp.task_unknown)."""
    view, _ = _task(message, party, house)
    services.cancel_call(tenant_id=party.tenant_id, invocation_id=view.id)
    return Reply({})


def _task(message: Message, party: Party, house: Composition) -> tuple[CallView, UUID]:
    """Find a call that this key proposed here; whatever else exists is not told from what does not."""
    try:
        invocation_id = UUID(str(message.params.get("taskId"))[:64])
    except ValueError:
        raise Fault("mcp.task_unknown") from None
    proposal_id = conversations.proposal_of(party, invocation_id)
    view = selectors.call(party.tenant_id, invocation_id, house.runtime.sealer) if proposal_id else None
    if view is None or proposal_id is None:
        raise Fault("mcp.task_unknown")
    return view, proposal_id


def tools(conversation: Conversation) -> JsonObject:
    """Return the pinned tools with the hash of their set."""
    found = selectors.session(conversation.tenant_id, conversation.session_id)
    assert found is not None, "a conversation has a session"
    return {
        "tools": mcp_render.tools(found.tool_set.tools),
        "_meta": {"toolsys/tool-schema-sha256": found.tool_schema_sha256},
    }
