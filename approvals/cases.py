"""What a person looks at to judge one held call: its arguments, earlier calls of its tool, and why it is held.

Reads only, a fixed number of queries, each bounded. Earlier calls are looked for among the newest decided requests.
Transaction: each needs the tenant's, which the console opens.
"""

from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

from django.db.models.fields.json import KeyTextTransform, KeyTransform
from django.utils import timezone

from approvals import fingerprints, given, wording
from approvals.fingerprints import Fingerprints
from approvals.given import Given
from approvals.models import PolicyRuleVersion
from approvals.wording import MatchedRule
from toolsys import arguments, ids
from toolsys.arguments import Difference, Rows
from toolsys.domain.states import ApprovalStatus
from toolsys.models import AgentSession, ApprovalRequest, Invocation, PolicyDecision
from toolsys.ports import Sealer

LOOKED_AT: Final = 500
HISTORY: Final = 10
CALLS_LOOKED_AT: Final = 10_000
_DECIDED: Final = (ApprovalStatus.APPROVED, ApprovalStatus.CONSUMED, ApprovalStatus.REJECTED, ApprovalStatus.EXPIRED)
_SAID_YES: Final = frozenset({ApprovalStatus.APPROVED, ApprovalStatus.CONSUMED})


@dataclass(frozen=True, slots=True)
class Reason:
    """Why a call is held. `rules` are those that matched, with the version that counted then, where it still is."""

    decision: PolicyDecision
    facts: list[tuple[str, str]]
    rules: list[tuple[MatchedRule, PolicyRuleVersion | None]]

    @property
    def verdict(self) -> str:
        return self.decision.verdict.replace("_", " ")


@dataclass(frozen=True, slots=True)
class Earlier:
    """Earlier decisions about the tool. `approved` and `others` count among the newest 500 of the organisation.

    `requests` come with the pointers of this call under which something stands that was redacted there too.
    `compared` is the newest approved call of this agent, and `differences` lead from its arguments to these; `hidden`
    are members that are redacted on both sides, with whether they are the same, as far as anybody can tell.
    """

    requests: list[tuple[ApprovalRequest, list[str]]]
    approved: int
    others: int
    compared: Invocation | None
    differences: list[Difference]
    hidden: list[tuple[Difference, bool | None]]
    is_identical: bool

    @property
    def is_beyond(self) -> bool:
        """The two differ, and nothing that is shown does: long texts and large objects are cut."""
        return not self.is_identical and not self.differences and all(is_same for _, is_same in self.hidden)


@dataclass(frozen=True, slots=True)
class Case:
    """`description` is what the pinned tool says of itself: text from outside for a tool of a server.

    `last_hour` counts this agent's calls of the tool, this one among them, of the newest 10,000 of the organisation.
    """

    effect: str
    rows: Rows
    reason: Reason | None
    earlier: Earlier
    description: str
    given: Given
    last_hour: int


def case_of(request: ApprovalRequest, decision: PolicyDecision | None, sealer: Sealer) -> Case:
    """Gather a case. The request comes with its invocation and its run's session."""
    call = request.invocation
    description, schema = _pinned(call)
    sent = given.given_of(call, schema, sealer)
    earlier, marks = _earlier(request, sealer)
    return Case(
        effect=wording.effect(call.side_effect, call.idempotency_class),
        rows=given.noted(fingerprints.marked(arguments.rows(call.arguments), marks), sent),
        reason=_reason(decision) if decision is not None else None,
        earlier=earlier,
        description=description,
        given=sent,
        last_hour=_last_hour(request),
    )


def _reason(decision: PolicyDecision) -> Reason:
    rules = wording.matched_rules(decision.matched, decision.rule)
    versions = PolicyRuleVersion.objects.filter(rule__name__in={rule.name for rule in rules})
    found = versions.filter(version__in={rule.version for rule in rules}).select_related("rule", "author", "owner")
    by_label = {(version.rule.name, version.version): version for version in found}
    seen = [(rule, by_label.get((rule.name, rule.version))) for rule in rules]
    return Reason(decision, wording.facts(decision.matched), seen)


def _earlier(request: ApprovalRequest, sealer: Sealer) -> tuple[Earlier, Fingerprints]:
    """Return what was decided before, and the fingerprints of this call, which it is compared by."""
    call = request.invocation
    newest = ApprovalRequest.objects.filter(status__in=_DECIDED).exclude(pk=request.pk).order_by("-id")[:LOOKED_AT]
    of_tool = ApprovalRequest.objects.filter(pk__in=newest.values("pk"), invocation__tool_name=call.tool_name)
    found = list(of_tool.select_related("invocation", "run__session", "decided_by").defer(
        "invocation__step_trace", "invocation__result"
    ).order_by("-id"))  # fmt: skip
    yes = [each for each in found if each.status in _SAID_YES]
    agent = request.run.session.agent_id
    compared = next((each.invocation for each in yes if each.run.session.agent_id == agent), None)
    is_identical = compared is not None and compared.normalized_arguments_hash == call.normalized_arguments_hash
    is_other = compared is not None and not is_identical
    differences = arguments.differences(compared.arguments, call.arguments) if compared and is_other else []
    listed = found[:HISTORY]
    beside = {each.pk: each for each in (compared, *(row.invocation for row in listed)) if each is not None}
    marks = fingerprints.of_calls([call, *beside.values()], sealer)
    here, there = marks.get(call.pk, {}), marks.get(compared.pk, {}) if compared is not None else {}
    earlier = Earlier(
        requests=[(row, fingerprints.shared(here, marks.get(row.invocation_id, {}))) for row in listed],
        approved=len(yes), others=len(found) - len(yes), compared=compared,
        differences=[each for each in differences if each.kind != "hidden"],
        hidden=[
            (each, fingerprints.is_same(each.pointer, here, there)) for each in differences if each.kind == "hidden"
        ],
        is_identical=is_identical,
    )  # fmt: skip
    return earlier, here


def _last_hour(request: ApprovalRequest) -> int:
    """Count by the index of ids, which are ordered by time: the bound holds whatever else is called."""
    since = ids.earliest(timezone.now() - timedelta(hours=1))
    newest = Invocation.objects.filter(pk__gte=since).order_by("-id").values("pk")[:CALLS_LOOKED_AT]
    calls = Invocation.objects.filter(pk__in=newest, tool_name=request.invocation.tool_name)
    return calls.filter(session__agent=request.run.session.agent_id).count()


def _pinned(call: Invocation) -> tuple[str, Any]:
    """Read one tool's words and its schema out of the pin, which may be large."""
    tool = KeyTransform(call.tool_name, "tool_set__tools")
    said, schema = KeyTextTransform("description", tool), KeyTransform("input_schema", tool)
    found = AgentSession.objects.filter(pk=call.session_id).values_list(said, schema).first()
    return (str(found[0] or ""), found[1]) if found else ("", None)
