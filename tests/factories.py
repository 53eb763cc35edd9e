"""Builders of what tests need: a tenant with an agent, a principal, a key, a session and a run."""

import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from functools import cache
from typing import Any

from django.conf import settings
from django.contrib.auth import get_user_model
from django.utils import timezone

from config import wiring
from toolsys import selectors, services
from toolsys.composition import Composition
from toolsys.domain.calls import Disposition
from toolsys.domain.seats import Seat
from toolsys.models import (
    Agent,
    AgentSession,
    ApiKey,
    ApprovalRequest,
    Invocation,
    Membership,
    Principal,
    Run,
    Tenant,
    ToolEvent,
    ToolSet,
)
from toolsys.pins import Pin, pin_of
from toolsys.ports import Runtime
from toolsys.selectors import CallView
from toolsys.services import CallDraft, StepSubmission
from toolsys.tenancy import tenant_transaction

ALL_SCOPES = ("demo.write", "trust.assert")
ENVIRONMENT = "production"


@dataclass
class Tenancy:
    """One tenant with everything that a call needs."""

    id: str
    name: str
    agent: Agent
    principal: Principal
    key: ApiKey
    session: AgentSession
    run: Run
    runtime: Runtime
    _steps: list[int] = field(default_factory=lambda: [0])

    def propose(self, *calls: tuple[str, Any], step: int | None = None, **changes: Any) -> list[Disposition]:
        """Submit one step through the web runtime."""
        return services.propose_step(self.submission(*calls, step=step, **changes), self.runtime)

    def submission(self, *calls: tuple[str, Any], step: int | None = None, **changes: Any) -> StepSubmission:
        number = self._next() if step is None else step
        given: dict[str, Any] = {
            "tenant_id": self.id, "api_key_id": self.key.id, "run_id": self.run.id,
            "step_number": number, "context_trust": (), "correlation_id": "", "body_hash": repr(calls),
            "calls": tuple(CallDraft(f"call_{n}", name, arguments) for n, (name, arguments) in enumerate(calls)),
        }  # fmt: skip
        return StepSubmission(**{**given, **changes})

    def work(self, worker: Runtime, disposition: Disposition) -> list[Disposition]:
        """Do what a queue job would do for this invocation."""
        return services.advance_step(self.id, worker, invocation_id=disposition.invocation_id)

    def work_later(self, worker: Runtime, disposition: Disposition) -> Disposition:
        """Let the wait before a further attempt pass, as time would, and work."""
        with tenant_transaction(self.id):
            Invocation.objects.filter(pk=disposition.invocation_id).update(not_before="2020-01-01T00:00:00Z")
        return self.work(worker, disposition)[0]

    def finish(self, worker: Runtime, disposition: Disposition) -> Disposition:
        """Work until the call has ended: on a busy machine a cold start may take more than one attempt."""
        for _ in range(worker.limits.max_attempts):
            found = self.work_later(worker, disposition)
            if found.is_settled:
                break
        return found

    def call(self, disposition: Disposition) -> CallView:
        found = selectors.call(self.id, disposition.invocation_id, self.runtime.sealer)
        assert found is not None
        return found

    def _next(self) -> int:
        self._steps[0] += 1
        return self._steps[0]


def _deployment() -> tuple[str, Any]:
    """What decides which builtins there are: the settings, and what a test adds to them."""
    return str(settings.TOOLSYS), wiring.builtins


@cache
def _pin(tools: tuple[str, ...], scopes: tuple[str, ...], deployment: tuple[str, Any]) -> Pin:
    """Return what a session over the deployment's builtins pins: the same for each tenant that has no server yet."""
    specs = wiring.compose({}, None).registry.specs_for_session("", tools, frozenset(scopes), environment=ENVIRONMENT)
    return pin_of(specs)


@cache
def _composition(deployment: tuple[str, Any]) -> Composition:
    return wiring.compose_web()


def composition() -> Composition:
    return _composition(_deployment())


def make_tenancy(name: str, *, tools: Sequence[str] = ("*",), scopes: Sequence[str] = ALL_SCOPES) -> Tenancy:
    """Make a tenant of its own for one test, with the rows that opening a session and starting a run leave."""
    tenant_id = f"{name}-{uuid.uuid4().hex[:10]}"
    pin = _pin(tuple(tools), tuple(scopes), _deployment())
    Tenant.objects.using("operator").create(id=tenant_id, name=name.title(), is_tool_calling_enabled=True)
    with tenant_transaction(tenant_id):
        agent = Agent.objects.create(tenant_id=tenant_id, name="assistant", enabled_tools=list(tools))
        principal = Principal.objects.create(tenant_id=tenant_id, external_id="user-1", scopes=list(scopes))
        key = ApiKey.objects.create(
            tenant_id=tenant_id, name="runtime", prefix=uuid.uuid4().hex[:8], secret_sha256="0" * 64,
            scopes=list(scopes),
        )  # fmt: skip
        shared = ToolSet.objects.create(tenant_id=tenant_id, sha256=pin.sha256, tools=pin.tools)
        session = AgentSession.objects.create(
            tenant_id=tenant_id, agent=agent, principal=principal, api_key=key, environment=ENVIRONMENT,
            profile=agent.profile, tool_set=shared, tool_schema_sha256=pin.sha256,
        )  # fmt: skip
        run = Run.objects.create(
            tenant_id=tenant_id, session=session, deadline_at=timezone.now() + timedelta(seconds=600)
        )
    return Tenancy(tenant_id, name.title(), agent, principal, key, session, run, composition().runtime)


def approver(tenant_id: str, seat: Seat = Seat.EXPERT) -> Any:
    """Make a person who may take the seat."""
    user = get_user_model().objects.create(username=f"approver-{uuid.uuid4().hex[:10]}")
    with tenant_transaction(tenant_id):
        Membership.objects.create(tenant_id=tenant_id, user=user, role=seat.role)
    return user


def approve(tenancy: Tenancy, held: Disposition, *, digest: str | None = None) -> None:
    """Put the request into the state that a decision leaves it in, with people in its seats."""
    with tenant_transaction(tenancy.id):
        request = ApprovalRequest.objects.get(invocation_id=held.invocation_id)
        request.status = "approved"
        request.votes = [{"user": approver(tenancy.id, Seat(seat)).pk, "seat": seat} for seat in request.seats]
        request.digest = digest or request.digest
        request.decided_at = timezone.now()
        request.consume_by = request.decided_at + timedelta(seconds=request.consume_seconds)
        request.save()


def reject(tenancy: Tenancy, held: Disposition) -> None:
    with tenant_transaction(tenancy.id):
        ApprovalRequest.objects.filter(invocation_id=held.invocation_id).update(
            status="rejected", decided_at=timezone.now(), rejection_code="policy.approval.expert_rejected"
        )


def events_of(tenancy: Tenancy, disposition: Disposition) -> list[str]:
    with tenant_transaction(tenancy.id):
        found = ToolEvent.objects.filter(invocation_id=disposition.invocation_id).order_by("id")
        return list(found.values_list("type", flat=True))
