"""What a draft of rules would have decided about past calls: which verdicts change, and how many approvals a day.

Judges by what was recorded (classification, trust, profile, time and the sealed arguments) and compares with the
verdict of then. Switches, flags and manifests are no part of a draft: calls that they ended are left out.
"""

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Annotated, Any, Final
from uuid import UUID

from pydantic import Field, TypeAdapter

from approvals import matchers, policy_selectors
from approvals.gate import judged
from approvals.matchers import Rule, Subject
from approvals.ruleset import Ruleset
from toolsys.domain.calls import ProposedAction
from toolsys.domain.spec import Classification, IdempotencyClass, JsonObject, RiskLevel, SideEffectClass
from toolsys.domain.states import PolicyVerdict
from toolsys.domain.trust import TrustLevel
from toolsys.models import Invocation, InvocationPayload, PolicyDecision
from toolsys.ports import Sealer
from toolsys.tenancy import tenant_transaction

PAGE: Final = 500
EXAMPLES: Final = 20
CALLS_LIMIT: Final = 100_000
_RULES: Final = TypeAdapter(Annotated[list[Rule], Field(max_length=1_000)])
DAY_SECONDS: Final = 86_400.0
RULED: Final = ("policy.matrix.", "policy.rule.", "policy.trust.")


@dataclass(frozen=True, slots=True)
class RecordedCall:
    """One call as policy saw it then. `verdict` is what was decided."""

    id: UUID
    action: ProposedAction
    agent: str
    principal: str
    profile: str
    at: datetime
    verdict: PolicyVerdict


@dataclass(frozen=True, slots=True)
class Change:
    call: RecordedCall
    verdict: PolicyVerdict
    rule: str


@dataclass(slots=True)
class Replayed:
    """`changes` counts by (then, with the draft); `examples` are the first of them, the newest calls first.

    `left_out` could not be judged: ended before rules were asked, or their arguments are purged.
    """

    calls: int = 0
    left_out: int = 0
    changes: Counter[tuple[PolicyVerdict, PolicyVerdict]] = field(default_factory=Counter)
    examples: list[Change] = field(default_factory=list)
    approvals_then: int = 0
    approvals_with_draft: int = 0
    oldest: datetime | None = None
    newest: datetime | None = None

    @property
    def days(self) -> float:
        """The time that the calls span; a day at least, since a rate over an hour says little about a day."""
        if self.oldest is None or self.newest is None:
            return 1.0
        return max((self.newest - self.oldest).total_seconds() / DAY_SECONDS, 1.0)

    @property
    def approvals_a_day(self) -> float:
        """How many approvals a day the draft adds; negative where it removes them."""
        return (self.approvals_with_draft - self.approvals_then) / self.days


def compare(calls: Iterable[RecordedCall], draft: Ruleset) -> Replayed:
    """Judge each call with the draft. Pure."""
    found = Replayed()
    for call in calls:
        subject = Subject.of(call.action, agent=call.agent, principal=call.principal, now=call.at)
        decision = judged(call.action, subject, draft, call.profile)
        found.calls += 1
        found.approvals_then += call.verdict.needs_approval
        found.approvals_with_draft += decision.verdict.needs_approval
        found.oldest = min(found.oldest or call.at, call.at)
        found.newest = max(found.newest or call.at, call.at)
        if decision.verdict is not call.verdict:
            found.changes[(call.verdict, decision.verdict)] += 1
            if len(found.examples) < EXAMPLES:
                found.examples.append(Change(call, decision.verdict, decision.rule))
    return found


def drafted(value: Any) -> list[Rule]:
    """Read a draft: a list of rules, or an object with `rules`.

    Raises: ValueError, pydantic.ValidationError among them.
    """
    rules = value.get("rules") if isinstance(value, dict) else value
    found = _RULES.validate_python(rules)
    if len({rule.name for rule in found}) != len(found):
        raise ValueError("two rules of the draft have one name")
    return found


def replay(tenant_id: str, rules: list[Rule], last: int, sealer: Sealer) -> Replayed:
    """Run a draft, in place of the tenant's rules, over its last calls. Transaction: its own; reads only."""
    with tenant_transaction(tenant_id):
        profiles = policy_selectors.current_ruleset(sealer).profiles
        draft = Ruleset(tuple(map(matchers.compiled, rules)), profiles)
        left_out: list[UUID] = []
        found = compare(_recorded(tenant_id, min(last, CALLS_LIMIT), sealer, left_out), draft)
    found.left_out = len(left_out)
    return found


def _recorded(tenant_id: str, last: int, sealer: Sealer, left_out: list[UUID]) -> Iterator[RecordedCall]:
    rows = Invocation.objects.select_related("run__session__agent", "run__session__principal")
    rows = rows.defer("result", "step_trace", "arguments").order_by("-id")
    before: UUID | None = None
    while last > 0:
        page = list((rows if before is None else rows.filter(pk__lt=before))[: min(last, PAGE)])
        if not page:
            return
        decisions = PolicyDecision.objects.in_bulk([row.policy_decision_id for row in page if row.policy_decision_id])
        payloads = InvocationPayload.objects.filter(invocation__in=page, kind="arguments", sealed__isnull=False)
        sealed = dict(payloads.values_list("invocation_id", "sealed"))
        for row in page:
            decision = decisions.get(row.policy_decision_id) if row.policy_decision_id else None
            data = sealed.get(row.pk)
            if decision is None or data is None or not decision.reason_code.startswith(RULED):
                left_out.append(row.pk)
                continue
            plain = sealer.open(bytes(data), tenant_id=tenant_id, kind="arguments", row=row.pk)
            yield _call(row, decision, json.loads(plain))
        last, before = last - len(page), page[-1].pk


def _call(row: Invocation, decision: PolicyDecision, arguments: JsonObject) -> RecordedCall:
    session = row.run.session
    action = ProposedAction(
        tool_name=row.tool_name,
        tool_version=row.tool_version,
        server_id=row.server_id,
        classification=Classification(
            side_effect=SideEffectClass(row.side_effect),
            risk=RiskLevel(row.risk),
            idempotency=IdempotencyClass(row.idempotency_class),
        ),
        arguments=arguments,
        arguments_hash=row.normalized_arguments_hash,
        origin_trust=TrustLevel(row.origin_trust),
        argument_trust={name: TrustLevel(label) for name, label in row.argument_trust.items()},
    )
    return RecordedCall(
        row.pk, action, session.agent.name, session.principal.external_id, session.profile, row.created_at,
        PolicyVerdict(decision.verdict),
    )  # fmt: skip
