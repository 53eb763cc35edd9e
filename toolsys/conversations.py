"""Conversations of MCP clients: which agent session and run a request belongs to, and which step its call becomes.

A handshake opens a conversation of its own; without one, a key has one conversation for each agent, principal,
environment and name that its client gives. The pipeline is reached through `toolsys.services` alone: what is kept here
is a number for each call. Source: DESIGN §6 "POST /mcp", decision record 15.
"""

from dataclasses import dataclass
from datetime import timedelta
from typing import Final
from uuid import UUID

from django.db import IntegrityError

from toolsys import database, services
from toolsys.composition import Composition
from toolsys.domain import canonical
from toolsys.domain.spec import JsonObject
from toolsys.domain.states import RunStatus
from toolsys.models import Agent, AgentSession, ApiKey, Invocation, McpClientSession, McpProposal, Run
from toolsys.problems import FieldError, Problem
from toolsys.tenancy import tenant_transaction

RUN_SECONDS: Final = 24 * 3600.0
# A run is one task. Who was silent for so long begins another one; what was held goes on in its own.
IDLE_SECONDS: Final = 900.0
MAXIMUM_STEP: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class Party:
    """Who asks: a key of a tenant, and the agent, principal, environment and conversation that its client names."""

    tenant_id: str
    api_key_id: UUID
    agent: str = ""
    principal: str = ""
    environment: str = "production"
    conversation: str = ""

    @property
    def context(self) -> str:
        named = [self.agent, self.principal, self.environment, self.conversation]
        return canonical.sha256_hex(canonical.canonical_bytes(named))


@dataclass(frozen=True, slots=True)
class Conversation:
    """Where the calls of one client go now. `is_numbered_by_client`: its request ids name one request each."""

    id: UUID
    tenant_id: str
    api_key_id: UUID
    session_id: UUID
    run_id: UUID
    revision: str
    is_numbered_by_client: bool


@dataclass(frozen=True, slots=True)
class NumberedCall:
    """The step that a client's call is, new or known."""

    id: UUID
    run_id: UUID
    step_number: int


def begin(party: Party, revision: str, house: Composition) -> Conversation:
    """Open a conversation of a handshake. Transaction: must be outside. Raises: Problem (request.invalid)."""
    session, run = _opened(party, house)
    return _seen(_recorded(party, session, run, revision, None))


def resume(party: Party, conversation_id: UUID, house: Composition) -> Conversation:
    """Find the conversation of a handshake; another key's is not found. Raises: Problem (mcp.session_unknown)."""
    with tenant_transaction(party.tenant_id):
        rows = McpClientSession.objects.select_related("run").filter(api_key_id=party.api_key_id, closed_at=None)
        found = rows.filter(pk=conversation_id, context=None).first()
    if found is None:
        raise Problem("mcp.session_unknown")
    if not _is_over(found, house):
        return _seen(found)
    run = _started(party.tenant_id, found.session_id, house)
    return _moved(found, found.session_id, run, house)


def join(party: Party, revision: str, house: Composition) -> Conversation:
    """Find the conversation that a client without handshake means, or open it.

    Its tools are pinned anew with each run, so that they are never older than a day. Transaction: must be outside.
    Raises: Problem (request.invalid).
    """
    with tenant_transaction(party.tenant_id):
        found = _of_context(party)
    if found is not None and not _is_over(found, house):
        return _seen(found)
    session, run = _opened(party, house)
    if found is not None:
        return _moved(found, session.id, run, house)
    try:
        return _seen(_recorded(party, session, run, revision, party.context))
    except IntegrityError:
        services.end_run(tenant_id=party.tenant_id, run_id=run.id, cancel=False, runtime=house.runtime)
        with tenant_transaction(party.tenant_id):
            winner = _of_context(party)
        if winner is None:
            raise Problem("server.unavailable") from None
        return _seen(winner)


def end(party: Party, conversation_id: UUID, house: Composition) -> None:
    """Close the conversation of a handshake: what it proposed and was not sent is not sent any more.

    Raises: Problem (mcp.session_unknown).
    """
    with tenant_transaction(party.tenant_id):
        rows = McpClientSession.objects.select_for_update(of=("self",)).select_related("run")
        found = rows.filter(pk=conversation_id, api_key_id=party.api_key_id, closed_at=None, context=None).first()
        if found is None:
            raise Problem("mcp.session_unknown")
        found.closed_at = house.runtime.clock.now()
        found.save(update_fields=["closed_at"])
        open_runs = Run.objects.filter(
            session_id=found.session_id, status__in=[status for status in RunStatus if status.accepts_steps]
        )
        left = list(open_runs.values_list("id", flat=True))
    for run_id in left:
        _cancelled(party.tenant_id, run_id, house)


def number(
    conversation: Conversation, fingerprint: str, request_id: str, client_key: str | None, new_id: UUID
) -> NumberedCall:
    """Return the step of this call: of the same one where it is held or uncollected, else the next.

    Transaction: its own. Raises: Problem (mcp.session_unknown, mcp.key_reused, request.throttled).
    """
    given = request_id if conversation.is_numbered_by_client else ""
    rows = database.call(
        "SELECT toolsys_number_call(%s, %s, %s, %s, %s, %s)",
        (conversation.tenant_id, conversation.id, new_id, fingerprint, given, client_key),
    )
    found: JsonObject | None = database.from_json(rows[0][0])
    if found is None:
        raise Problem("mcp.session_unknown")
    if "conflict" in found:
        raise Problem("mcp.key_reused")
    call = NumberedCall(UUID(found["id"]), UUID(found["run_id"]), found["step_number"])
    if call.step_number > MAXIMUM_STEP:
        forget(conversation.tenant_id, call.id)
        raise Problem("request.throttled")
    return call


def collect(tenant_id: str, call_id: UUID) -> None:
    """Note that the outcome of a call goes out now: the same call after it is a new one."""
    database.call("SELECT toolsys_collect_call(%s, %s)", (tenant_id, call_id))


def forget(tenant_id: str, call_id: UUID) -> None:
    """Give back the place of a call that was refused before anything was written."""
    database.call("SELECT toolsys_forget_call(%s, %s)", (tenant_id, call_id))


def proposal_of(party: Party, invocation_id: UUID) -> UUID | None:
    """Return the proposal behind an invocation that this key's client asked for; None for any other."""
    with tenant_transaction(party.tenant_id):
        step = Invocation.objects.filter(pk=invocation_id).values_list("run_id", "step_number").first()
        if step is None:
            return None
        rows = McpProposal.objects.filter(run_id=step[0], step_number=step[1])
        rows = rows.filter(client_session__api_key_id=party.api_key_id)
        return rows.values_list("id", flat=True).first()


def cancel_request(conversation: Conversation, request_id: str, house: Composition) -> None:
    """Cancel the call that this request asked for last; who only attached earlier has no say. Unknown is nothing."""
    with tenant_transaction(conversation.tenant_id):
        rows = McpProposal.objects.filter(client_session_id=conversation.id, request_id=request_id, collected_at=None)
        steps = list(rows.values_list("run_id", "step_number"))
        calls = [
            identifier
            for run_id, step_number in steps[:1]
            for identifier in Invocation.objects.filter(run_id=run_id, step_number=step_number).values_list(
                "id", flat=True
            )
        ]
    for invocation_id in calls:
        services.cancel_call(tenant_id=conversation.tenant_id, invocation_id=invocation_id)


def _opened(party: Party, house: Composition) -> tuple[AgentSession, Run]:
    """Raises: Problem (request.invalid), where the agent that is meant is not named or not there."""
    with tenant_transaction(party.tenant_id):
        agent = party.agent or _only_agent()
        principal = party.principal or f"key:{ApiKey.objects.values_list('name', flat=True).get(pk=party.api_key_id)}"
    session = services.open_session(
        tenant_id=party.tenant_id, api_key_id=party.api_key_id, agent_name=agent, principal_id=principal,
        environment=party.environment, profile=None, runtime=house.runtime, registry=house.registry,
    )  # fmt: skip
    return session, _started(party.tenant_id, session.id, house)


def _only_agent() -> str:
    names = list(Agent.objects.filter(is_enabled=True).order_by("id").values_list("name", flat=True)[:2])
    if len(names) != 1:
        raise Problem("request.invalid", [FieldError("Toolsys-Agent", "name the agent: there is not exactly one")])
    return names[0]


def _started(tenant_id: str, session_id: UUID, house: Composition) -> Run:
    return services.start_run(
        tenant_id=tenant_id, session_id=session_id, manifest=None, deadline_seconds=RUN_SECONDS, correlation_id="",
    )  # fmt: skip


def _recorded(party: Party, session: AgentSession, run: Run, revision: str, context: str | None) -> McpClientSession:
    with tenant_transaction(party.tenant_id):
        return McpClientSession.objects.create(
            tenant_id=party.tenant_id, api_key_id=party.api_key_id, session=session, run=run, revision=revision,
            context=context, last_call_at=run.created_at,
        )  # fmt: skip


def _of_context(party: Party) -> McpClientSession | None:
    rows = McpClientSession.objects.select_related("run").filter(api_key_id=party.api_key_id, closed_at=None)
    return rows.filter(context=party.context).first()


def _is_over(found: McpClientSession, house: Composition) -> bool:
    """Tell whether its next call begins another run. One that a breaker failed stays until the client was silent."""
    now, run = house.runtime.clock.now(), found.run
    is_idle = now - found.last_call_at > timedelta(seconds=IDLE_SECONDS)
    return is_idle or run.deadline_at <= now or run.status == RunStatus.COMPLETED


def _moved(found: McpClientSession, session_id: UUID, run: Run, house: Composition) -> Conversation:
    """Let the next calls go into a new run; of two who move it at once, the first one's counts."""
    with tenant_transaction(found.tenant_id):
        rows = McpClientSession.objects.filter(pk=found.pk, run_id=found.run_id, closed_at=None)
        is_first = rows.update(session_id=session_id, run_id=run.id, last_call_at=house.runtime.clock.now()) == 1
        row = McpClientSession.objects.get(pk=found.pk)
    if not is_first:
        services.end_run(tenant_id=found.tenant_id, run_id=run.id, cancel=False, runtime=house.runtime)
    return _seen(row)


def _cancelled(tenant_id: str, run_id: UUID, house: Composition) -> None:
    try:
        services.end_run(tenant_id=tenant_id, run_id=run_id, cancel=True, runtime=house.runtime)
    except Problem:
        return  # it ended by itself


def _seen(row: McpClientSession) -> Conversation:
    return Conversation(
        row.id, row.tenant_id, row.api_key_id, row.session_id, row.run_id, row.revision,
        is_numbered_by_client=row.context is None,
    )  # fmt: skip
