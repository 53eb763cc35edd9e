"""The public face of toolsys for writes: sessions, runs, steps, and going on with what was begun.

Views, admin pages, jobs and commands call one function here and get one answer. The pipeline is called from this
module only. Each ORM write is one transaction; commit points are the store's. Source: DESIGN §3 and §6.
"""

import logging
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Final
from uuid import UUID

from django.db import transaction
from django.db.models import Q, QuerySet

from toolsys import batches, database, dryruns, pipeline, queue, spans, toolsets, trace, wakeups
from toolsys.bodies import StepBody, opened, sealed
from toolsys.domain.calls import Disposition, Progress, ProposedCall, StepDraft
from toolsys.domain.skills import SkillDeclaration, SkillSource
from toolsys.domain.spec import JsonObject
from toolsys.domain.states import OPEN_RUNS, RunStatus
from toolsys.domain.trust import TrustLevel, lowest
from toolsys.dryruns import Foreseen
from toolsys.envelope import CannotOpen, UnknownKey
from toolsys.models import Agent, AgentSession, ApiKey, Invocation, Principal, Run, RunStep, Skill
from toolsys.ports import Runtime, Sealer, ToolProvider
from toolsys.problems import FieldError, Problem
from toolsys.registry import Registry
from toolsys.tenancy import tenant_transaction

log = logging.getLogger("toolsys.services")
TRUST_ASSERT: Final = "trust.assert"
QUARANTINED: Final = "tool.quarantined"
STALE_RETRIES: Final = 5
REFRESH_SECONDS: Final = 15.0
MAXIMUM_RUN_SECONDS: Final = 7 * 24 * 3600
DEFAULT_RUN_SECONDS: Final = 3600


@dataclass(frozen=True, slots=True)
class CallDraft:
    """One call as the runtime sent it. `raw_hash` is set where its arguments have no canonical form."""

    call_id: str
    name: str
    arguments: Any
    raw_hash: str | None = None
    argument_trust: dict[str, TrustLevel] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class StepSubmission:
    """One model turn. `body_hash` is over what was sent, so that a replay is told from a conflict."""

    tenant_id: str
    api_key_id: UUID
    run_id: UUID
    step_number: int
    calls: tuple[CallDraft, ...]
    context_trust: tuple[TrustLevel, ...]
    correlation_id: str
    body_hash: str


def propose_step(submission: StepSubmission, runtime: Runtime) -> list[Disposition]:
    """Take a step as far as this process can: calls in order, until one is handed off or held.

    Transaction: must be outside. Raises: Problem, with nothing written.
    """
    calls = _proposed(submission, runtime)
    group = batches.parallel_group(calls, runtime)
    if group is None:
        return _advance(calls, runtime)
    return _begin_all([replace(call, step=replace(call.step, parallel_group=group)) for call in calls], runtime)


def foresee_step(submission: StepSubmission, runtime: Runtime) -> list[Foreseen]:
    """Say what would become of each call of a step, and write nothing.

    Transaction: must be outside. Raises: Problem.
    """
    return dryruns.foresee(_proposed(submission, runtime), runtime)


def _proposed(submission: StepSubmission, runtime: Runtime) -> list[ProposedCall]:
    """Raises: Problem (step.duplicate_call_id)."""
    identifiers = [call.call_id for call in submission.calls]
    if len(set(identifiers)) != len(identifiers):
        raise Problem("step.duplicate_call_id", [FieldError("/calls", "call_id is repeated")])
    is_trusted = bool(submission.context_trust or any(call.argument_trust for call in submission.calls))
    is_trusted = is_trusted and _asserts_trust(submission)
    body = StepBody.of(submission.calls, trusted=is_trusted)
    labels = submission.context_trust if is_trusted else ()
    step_id = runtime.ids.uuid()
    draft = StepDraft(
        id=step_id, number=submission.step_number, body_hash=submission.body_hash,
        body=sealed(body, submission.tenant_id, step_id, runtime.sealer), call_count=len(submission.calls),
        context_trust=labels, origin_trust=lowest(labels), parallel_group=None,
        correlation_id=submission.correlation_id,
    )  # fmt: skip
    return [
        body.call(index, tenant_id=submission.tenant_id, run_id=submission.run_id, step=draft,
                  api_key_id=submission.api_key_id, invocation_id=runtime.ids.uuid())
        for index in range(len(submission.calls))
    ]  # fmt: skip


def _asserts_trust(submission: StepSubmission) -> bool:
    """Labels are believed only from a key that may assert them (DESIGN §2)."""
    with tenant_transaction(submission.tenant_id):
        return ApiKey.objects.filter(pk=submission.api_key_id, scopes__contains=[TRUST_ASSERT]).exists()


def step_call_ids(tenant_id: str, run_id: UUID, step_number: int, sealer: Sealer) -> list[str]:
    """Return the ids of a step's calls in order. Raises: Problem (request.not_found)."""
    with tenant_transaction(tenant_id):
        step = RunStep.objects.filter(run_id=run_id, step_number=step_number).first()
    if step is None or step.body is None:
        raise Problem("request.not_found")
    return [call["call_id"] for call in opened(bytes(step.body), tenant_id, step.id, sealer).calls]


def advance_step(
    tenant_id: str, runtime: Runtime, *, step_id: UUID | None = None, invocation_id: UUID | None = None
) -> list[Disposition]:
    """Go on with a step, from an invocation of it or from its first call without a terminal row.

    Transaction: must be outside. Called by queue jobs; arriving twice changes nothing.
    """
    found, body_bytes, facts = database.call(
        "SELECT * FROM toolsys_step_of(%s, %s, %s)", (tenant_id, step_id, invocation_id)
    )[0]
    step = database.from_json(found)
    if step is None:
        return []
    number, run_id, key_id = step["number"], UUID(step["run_id"]), UUID(step["api_key_id"])
    draft = StepDraft(
        id=UUID(step["id"]), number=number, body_hash=step["body_hash"], body=b"", call_count=step["call_count"],
        context_trust=tuple(TrustLevel(label) for label in step["context_trust"]),
        origin_trust=TrustLevel(step["origin_trust"]), correlation_id=step["correlation_id"],
        parallel_group=UUID(step["parallel_group"]) if step["parallel_group"] else None,
    )  # fmt: skip
    try:
        body = opened(bytes(body_bytes or b""), tenant_id, draft.id, runtime.sealer)
    except CannotOpen as fault:
        return _end_unreadable(tenant_id, draft, run_id, key_id, fault, runtime)
    known = {row["index"]: UUID(row["id"]) for row in step["calls"]}
    first = step["call_index"] if step["call_index"] is not None else 0
    calls = [
        body.call(index, tenant_id=tenant_id, run_id=run_id, step=draft, api_key_id=key_id,
                  invocation_id=known.get(index) or runtime.ids.uuid())
        for index in range(first, draft.call_count)
    ]  # fmt: skip
    if facts is not None:
        calls[0] = replace(calls[0], prefetched=database.from_json(facts))
    try:
        if draft.parallel_group is None:
            return _advance(calls, runtime)
        return _advance_in_group(calls, step, runtime)
    finally:
        wakeups.wake(wakeups.step_key(run_id, number))


def _end_unreadable(
    tenant_id: str, draft: StepDraft, run_id: UUID, api_key_id: UUID, fault: CannotOpen, runtime: Runtime
) -> list[Disposition]:
    """End what has begun of a step whose body does not open, and begin nothing more of it.

    Raises: UnknownKey, while the run is open: a process with the key may still go on.
    """
    with tenant_transaction(tenant_id):
        is_open = Run.objects.filter(pk=run_id, status__in=OPEN_RUNS, deadline_at__gt=database.now()).exists()
        if is_open and isinstance(fault, UnknownKey):
            # Whoever raised is logged by its type only; this text names a key by its id and nothing else.
            log.error("a call is left to other processes: %s", fault)
            raise fault
        rows = list(Invocation.objects.filter(run_id=run_id, step_number=draft.number, completed_at=None))
    ended = [
        _run(ProposedCall(
            tenant_id=tenant_id, invocation_id=row.id, run_id=run_id, step=draft, call_id=row.call_id,
            call_index=row.call_index, name=row.tool_name, arguments=None, raw_hash=row.normalized_arguments_hash,
            argument_trust={}, api_key_id=api_key_id, is_unreadable=True,
        ), runtime)
        for row in rows
    ]  # fmt: skip
    if all(each.is_settled for each in ended):
        with tenant_transaction(tenant_id):
            RunStep.objects.filter(pk=draft.id, completed_at=None).update(completed_at=database.now())
    wakeups.wake(wakeups.step_key(run_id, draft.number))
    return ended


def _advance_in_group(calls: Sequence[ProposedCall], step: JsonObject, runtime: Runtime) -> list[Disposition]:
    """Do one call of a group, then ring for the one that waits for its place; or do all, where one has no row yet."""
    index = step["call_index"]
    found = [_run(call, runtime) for call in (calls if index is None else calls[:1])]
    waiting = [each.invocation_id for each in found if _is_begun(each)]
    if index is not None:
        waiting += [row["id"] for row in step["calls"] if row["index"] == index + runtime.limits.parallel_cap]
    queue.ring_if_heard([queue.bell_id("call", calls[0].tenant_id, each, 0) for each in waiting])
    return found


def _advance(calls: Sequence[ProposedCall], runtime: Runtime) -> list[Disposition]:
    """Run calls in order; the next one begins only when the one before is terminal."""
    found = []
    for call in calls:
        disposition = _run(call, runtime)
        found.append(disposition)
        if _is_begun(disposition):
            queue.enqueue_call(call.tenant_id, disposition.invocation_id)
        if not disposition.is_settled:
            break
    return found


def _begin_all(calls: Sequence[ProposedCall], runtime: Runtime) -> list[Disposition]:
    """Begin every call of a parallel group; ring for as many as may run at a time, each rings for one more."""
    found = [_run(call, runtime) for call in calls]
    if any(map(_is_begun, found)):
        first = found[: runtime.limits.parallel_cap]
        queue.ring_if_heard([queue.bell_id("call", calls[0].tenant_id, each.invocation_id, 0) for each in first])
    return found


def _is_begun(disposition: Disposition) -> bool:
    """Say whether a call waits for a worker only, and nobody was rung for yet: begun here, or given back here."""
    is_open = disposition.state in {Progress.HANDED_OFF, Progress.RELEASED}
    return is_open and not disposition.is_replay and not disposition.worker


def _run(call: ProposedCall, runtime: Runtime) -> Disposition:
    """Enter the pipeline; enter again where a commit found that what we had read no longer held."""
    for _ in range(STALE_RETRIES):
        trace.begin()
        with spans.execute(call.invocation_id):
            disposition = pipeline.run(call, runtime)
        if disposition.state is not Progress.STALE:
            if disposition.worker:
                queue.enqueue_call(call.tenant_id, disposition.invocation_id, worker=disposition.worker)
            return disposition
        call = replace(call, invocation_id=runtime.ids.uuid(), prefetched=None)
    return disposition


def open_session(
    *, tenant_id: str, api_key_id: UUID, agent_name: str, principal_id: str, environment: str, profile: str | None,
    runtime: Runtime, registry: Registry,
) -> AgentSession:  # fmt: skip
    """Pin what this agent may be shown now. Stale discoveries are refreshed by workers first, within 15 s.

    Transaction: must be outside. Raises: Problem (request.invalid).
    """
    refreshed = {domain: _refresh(tenant_id, provider, runtime) for domain, provider in runtime.providers.items()}
    with tenant_transaction(tenant_id):
        agent = Agent.objects.filter(name=agent_name, is_enabled=True).first()
        if agent is None:
            raise Problem("request.invalid", [FieldError("/agent", "no such agent, or it is disabled")])
        principal, _ = Principal.objects.get_or_create(tenant_id=tenant_id, external_id=principal_id)
        key = ApiKey.objects.get(pk=api_key_id)
        scopes = frozenset(key.scopes) & frozenset(principal.scopes)
        place = {"profile": profile or agent.profile, "environment": environment}
        # What is looked at between these two reads is offered: it is held back once, or not at all.
        held = registry.withheld_for_session(tenant_id, agent.enabled_tools, scopes, **place)
        offered = registry.specs_for_session(tenant_id, agent.enabled_tools, scopes, **place)
        pin = registry.pin(offered)
        held = [name for name in held if name not in pin.tools]
        session = AgentSession.objects.create(
            tenant_id=tenant_id, agent=agent, principal=principal, api_key=key, **place,
            tool_set=toolsets.of_pin(tenant_id, pin), tool_schema_sha256=pin.sha256,
            withheld_tools=[{"name": name, "reason_code": QUARANTINED} for name in held],
        )  # fmt: skip
        for domain, provider in runtime.providers.items():
            mine = [name for name in held if name.startswith(f"{domain}.")]
            provider.note_pin(tenant_id, session.id, offered, refreshed[domain], mine)
        return session


def refresh_key(domain: str, tenant_id: str) -> str:
    return f"refresh/{domain}/{tenant_id}"


def _refresh(tenant_id: str, provider: ToolProvider, runtime: Runtime) -> frozenset[str]:
    """Have workers look again at what is stale; return what that was."""
    keys = provider.refresh_keys(tenant_id)
    if not keys:
        return frozenset()
    with wakeups.HUB.waiting(refresh_key(provider.domain, tenant_id)) as waiter:
        for key in keys:
            queue.enqueue_refresh(provider.domain, tenant_id, key)
        database.release_connection()
        waiter.until(
            lambda: provider.refresh_keys(tenant_id), lambda left: not left, REFRESH_SECONDS, runtime.clock.boottime
        )
    return frozenset(keys)


def start_run(
    *, tenant_id: str, session_id: UUID, manifest: Sequence[str] | None, deadline_seconds: float | None,
    correlation_id: str, call_budget: int | None = None,
) -> Run:  # fmt: skip
    """Begin one task. Raises: Problem (request.not_found, session.closed)."""
    seconds = min(deadline_seconds or DEFAULT_RUN_SECONDS, MAXIMUM_RUN_SECONDS)
    with tenant_transaction(tenant_id):
        session = AgentSession.objects.filter(pk=session_id).first()
        if session is None:
            raise Problem("request.not_found")
        if session.closed_at is not None:
            raise Problem("session.closed")
        return Run.objects.create(
            tenant_id=tenant_id, session=session, manifest=None if manifest is None else list(manifest),
            deadline_at=database.now() + timedelta(seconds=seconds), correlation_id=correlation_id,
            budgets={} if call_budget is None else {"calls": call_budget},
        )  # fmt: skip


def end_run(*, tenant_id: str, run_id: UUID, cancel: bool, runtime: Runtime) -> Run:
    """Complete a run, or cancel it with every call of it that is not terminal.

    Raises: Problem (request.not_found, run.not_open).
    """
    now = runtime.clock.now()
    with tenant_transaction(tenant_id):
        run = Run.objects.select_for_update().filter(pk=run_id).first()
        if run is None:
            raise Problem("request.not_found")
        if not RunStatus(run.status).accepts_steps:
            raise Problem("run.not_open")
        run.status = RunStatus.CANCELLED if cancel else RunStatus.COMPLETED
        run.ended_at = now
        run.cancel_requested_at = now if cancel else None
        run.save(update_fields=["status", "ended_at", "cancel_requested_at"])
        if cancel:
            _request_cancel(tenant_id, Invocation.objects.filter(run=run, completed_at=None))
        transaction.on_commit(partial(wakeups.wake, wakeups.RUN_ENDED, wakeups.RUNS), robust=True)
        return run


def register_skills(*, tenant_id: str, server_id: str, declared: Sequence[SkillDeclaration], at: datetime) -> None:
    """Make these the skills of an MCP server: new versions are added, what is missing is withdrawn.

    Transaction: opens one, or a savepoint inside an open one.
    """
    rows = [
        Skill(
            tenant_id=tenant_id, source=SkillSource.MCP, server_id=server_id, name=each.name, version=each.version,
            description=each.description, remote_name=each.remote_name, required_tools=list(each.required_tools),
            arguments=[asdict(argument) for argument in each.arguments],
        )
        for each in declared
    ]  # fmt: skip
    offered = Q()
    for each in declared:
        offered |= Q(name=each.name, version=each.version)
    with tenant_transaction(tenant_id):
        known = Skill.objects.filter(tenant_id=tenant_id, source=SkillSource.MCP, server_id=server_id)
        if declared:  # first, so that what is old is not forgotten while it is offered again
            known.filter(offered).exclude(withdrawn_at=None).update(withdrawn_at=None)
        Skill.objects.bulk_create(rows, ignore_conflicts=True)
        gone = known.filter(withdrawn_at=None)
        (gone.exclude(offered) if declared else gone).update(withdrawn_at=at)


def cancel_call(*, tenant_id: str, invocation_id: UUID) -> None:
    """Ask for one call to end: what was not sent is not sent any more. A terminal call stays as it is.

    Raises: Problem (request.not_found).
    """
    with tenant_transaction(tenant_id):
        found = Invocation.objects.filter(pk=invocation_id)
        if not found.exists():
            raise Problem("request.not_found")
        _request_cancel(tenant_id, found.filter(completed_at=None, cancel_requested_at=None))


def _request_cancel(tenant_id: str, calls: "QuerySet[Invocation]") -> None:
    """Mark and ring: the watermark statement looks at the mark, a worker ends what nobody holds."""
    identifiers = list(calls.select_for_update().values_list("id", flat=True))
    # The sweeper compares both with the database's clock, and finds the call if the bell is lost.
    now = database.now()
    Invocation.objects.filter(pk__in=identifiers).update(cancel_requested_at=now, dispatch_after=now)
    bells = [queue.bell_id("call", tenant_id, each, 0) for each in identifiers]
    transaction.on_commit(partial(queue.ring_all, bells), robust=True)
