"""Two things happen to one held call, in both orders, while every ring is lost between decision and queue.

One wins, the loser is told why; nothing is sent without an approval that stands at the watermark, and what was approved
is found again by the sweeper. Then the same changes at every moment of the worker's attempt, and at the same time.
"""

import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from django.db import connections
from django.db.models import F
from redis.exceptions import ConnectionError as NoQueue

from approvals import policy_services
from approvals.ruleset import SwitchKind
from tests.factories import Tenancy, events_of
from tests.integration.approvals.desk import ADMIN, CLIENT, EXPERT, WRITE, Desk, ask_for, hold, person
from tests.races.moments import at, row_of
from tests.scripted import Scripted
from tests.spec.requirements import gate
from toolsys import database, queue, services
from toolsys.domain.calls import Decision, Disposition, Facts, Progress, ProposedAction
from toolsys.domain.results import TextPart, ToolResult
from toolsys.models import Agent, ApiKey, ApprovalRequest, Invocation, Membership, PolicyDecision, RunStep
from toolsys.ports import PolicyGate, Runtime, Tool
from toolsys.problems import Problem
from toolsys.tenancy import bump_authz_epoch, tenant_transaction

pytestmark = pytest.mark.slow

DONE = ToolResult(ok=True, content=(TextPart(text="x"),), structured={"line": "x"})


@dataclass
class Site:
    """One held call, its approver, and a worker whose tool may move or change its version."""

    acme: Tenancy
    desk: Desk
    expert: Any
    tool: Scripted = field(default_factory=lambda: Scripted.write(DONE))
    moved: str = ""
    version: str = ""

    def runtime(self, worker: Runtime) -> Runtime:
        inner = self.tool.installed_in(worker)
        site, registry = self, inner.registry

        class Moving:
            def resolve(self, name: str, facts: Any) -> Tool | None:
                found = registry.resolve(name, facts)
                if isinstance(found, Scripted):
                    found.binding += site.moved
                    if site.version:
                        found.spec = found.spec.model_copy(update={"version": site.version})
                return found

        return replace(inner, registry=Moving())

    def people_of(self, **changes: Any) -> None:
        with tenant_transaction(self.acme.id):
            ApprovalRequest.objects.filter(pk=self.desk.request.pk).update(**changes)

    def change(self, **changes: Any) -> None:
        """What a server, a credential or a catalog changes of a tool; it raises the epoch, as their rows do."""
        for name, value in changes.items():
            setattr(self, name, value)
        with tenant_transaction(self.acme.id):
            bump_authz_epoch(self.acme.id)


def site_of(acme: Tenancy) -> Site:
    return Site(acme, hold(acme), person(acme, EXPERT))


def told(deed: Callable[[], object]) -> str:
    """Return what the person was told: the status that they brought about, or why not."""
    try:
        return str(getattr(deed(), "status", "done"))
    except Problem as problem:
        return problem.reason_code


def rule(site: Site, verdict: str, *seats: str) -> None:
    policy_services.save_rule(
        tenant_id=site.acme.id, user=person(site.acme, ADMIN), name="late", verdict=verdict, priority=9,
        match={"tools": [WRITE]}, seats=seats,
    )  # fmt: skip


def of_rows(site: Site, model: Any, changes: dict[str, Any], **which: Any) -> None:
    with tenant_transaction(site.acme.id):
        model.objects.filter(**which).update(**changes)


def leave(site: Site) -> None:
    with tenant_transaction(site.acme.id):
        Membership.objects.filter(user=site.expert).delete()


def deactivate(site: Site) -> None:
    type(site.expert).objects.filter(pk=site.expert.pk).update(is_active=False)


def cancel_run(site: Site) -> None:
    services.end_run(tenant_id=site.acme.id, run_id=site.acme.run.id, cancel=True, runtime=site.acme.runtime)


def cancel(site: Site) -> None:
    services.cancel_call(tenant_id=site.acme.id, invocation_id=site.desk.held.invocation_id)


def switch(site: Site) -> None:
    policy_services.throw_switch(
        tenant_id=site.acme.id, kind=SwitchKind.TOOL, target=WRITE, is_off=True, user=person(site.acme, ADMIN)
    )


def expire(site: Site) -> None:
    site.people_of(expires_at=F("created_at"))
    of_rows(site, Invocation, {"dispatch_after": F("created_at")}, pk=site.desk.held.invocation_id)


def run_late(site: Site) -> None:
    site.people_of(consume_by=F("created_at"))


# What ends the call whenever it comes before the watermark, and how the outcome then reads.
ENDS: dict[str, tuple[Callable[[Site], object], str]] = {
    "tool disabled": (
        lambda site: of_rows(site, Agent, {"enabled_tools": []}, pk=site.acme.agent.pk), "policy.agent.not_enabled"
    ),
    "agent disabled": (
        lambda site: of_rows(site, Agent, {"is_enabled": False}, pk=site.acme.agent.pk), "policy.agent.not_enabled"
    ),
    "key revoked": (
        lambda site: of_rows(site, ApiKey, {"revoked_at": F("created_at")}, pk=site.acme.key.pk), "policy.scope.missing"
    ),
    "switched off": (switch, "policy.switch.off"),
    "policy blocks": (lambda site: rule(site, "block"), "policy.rule.block"),
    "policy asks the client": (
        lambda site: rule(site, "require_client_approval"), "policy.approval.not_covering"
    ),
    "policy asks another seat": (
        lambda site: rule(site, "require_expert_approval", "expert", "client"), "policy.approval.not_covering"
    ),
    "policy asks a second expert": (
        lambda site: rule(site, "require_expert_approval", "expert", "expert"), "policy.approval.not_covering"
    ),
    "pin changed": (lambda site: site.change(version="9"), "policy.approval.voided"),
    "server moved": (lambda site: site.change(moved="there"), "policy.approval.voided"),
    "credential rotated": (lambda site: site.change(moved="credential@2"), "policy.approval.voided"),
}  # fmt: skip
LEAVES: dict[str, Callable[[Site], object]] = {"approver leaves": leave, "approver deactivated": deactivate}


def lose_rings(monkeypatch: pytest.MonkeyPatch) -> None:
    def lost(*_: object, **__: object) -> None:
        raise NoQueue("the process died before it rang")

    monkeypatch.setattr(queue, "ring_all", lost)


def finished(site: Site, worker: Runtime) -> Disposition:
    """Let the sweeper find the call, and a worker go on with it; what nobody decided is not found."""
    call = site.desk.held.invocation_id
    due = [row for row in database.call("SELECT * FROM toolsys_sweep(%s, %s)", (5000, 0.0)) if row[2] == call]
    if not due:
        return Disposition(call, Progress.HELD)
    (ended,) = site.acme.work(site.runtime(worker), site.desk.held)
    return ended


def approve(site: Site) -> object:
    return site.desk.decide(site.expert)


@gate("approvals.races")
@pytest.mark.parametrize("order", ["approve first", "approve second"])
@pytest.mark.parametrize("change", ENDS)
def test_an_approval_and_what_voids_it(
    acme: Tenancy, worker: Runtime, monkeypatch: pytest.MonkeyPatch, change: str, order: str
) -> None:
    site, (deed, code) = site_of(acme), ENDS[change]
    lose_rings(monkeypatch)
    for step in [approve, deed] if order == "approve first" else [deed, approve]:
        step(site)
    ended = finished(site, worker)
    assert (ended.state, ended.reason_code, site.tool.sent) == (Progress.SETTLED, code, [])
    assert row_of(acme, site.desk.held).effect_sent_at is None
    assert (site.desk.now.status, "approval.voided" in events_of(acme, site.desk.held)) == ("voided", True)


@gate("approvals.races")
@pytest.mark.parametrize("order", ["reject first", "reject second"])
@pytest.mark.parametrize("change", ENDS)
def test_a_rejection_and_what_would_have_voided_an_approval(
    acme: Tenancy, worker: Runtime, monkeypatch: pytest.MonkeyPatch, change: str, order: str
) -> None:
    site, (deed, code), answers = site_of(acme), ENDS[change], []
    lose_rings(monkeypatch)

    def reject(site: Site) -> None:
        answers.append(told(lambda: site.desk.reject(site.expert)))

    for step in [reject, deed] if order == "reject first" else [deed, reject]:
        step(site)
    ended = finished(site, worker)
    assert (answers, ended.state, site.tool.sent) == (["rejected"], Progress.SETTLED, [])
    assert ended.reason_code in {"policy.approval.expert_rejected", code}
    assert row_of(acme, site.desk.held).effect_sent_at is None


PEOPLE: dict[str, tuple[Callable[[Site], object], Callable[[Site], object], tuple[str, str], str | None, int]] = {
    "approve, approve": (approve, lambda site: site.desk.decide(person(site.acme, EXPERT)),
                         ("approved", "approval.decided"), "tool.succeeded", 1),
    "approve, reject": (approve, lambda site: site.desk.reject(person(site.acme, EXPERT)),
                        ("approved", "approval.decided"), "tool.succeeded", 1),
    "reject, approve": (lambda site: site.desk.reject(person(site.acme, EXPERT)), approve,
                        ("rejected", "approval.decided"), "policy.approval.expert_rejected", 0),
    "reject, reject": (lambda site: site.desk.reject(person(site.acme, EXPERT)),
                       lambda site: site.desk.reject(site.expert),
                       ("rejected", "approval.decided"), "policy.approval.expert_rejected", 0),
    "approve, expire": (approve, expire, ("approved", "done"), "tool.succeeded", 1),
    "expire, approve": (expire, approve, ("done", "approval.expired"), "policy.approval.expired", 0),
    "reject, expire": (lambda site: site.desk.reject(site.expert), expire,
                       ("rejected", "done"), "policy.approval.expert_rejected", 0),
    "expire, reject": (expire, lambda site: site.desk.reject(site.expert),
                       ("done", "approval.expired"), "policy.approval.expired", 0),
    "approve, use too late": (approve, run_late, ("approved", "done"), "policy.approval.expired", 0),
    "approve, cancel": (approve, cancel, ("approved", "done"), "tool.cancelled", 0),
    "cancel, approve": (cancel, approve, ("done", "approval.call_ended"), "tool.cancelled", 0),
    "reject, cancel": (lambda site: site.desk.reject(site.expert), cancel, ("rejected", "done"), "tool.cancelled", 0),
    "cancel, reject": (cancel, lambda site: site.desk.reject(site.expert),
                       ("done", "approval.call_ended"), "tool.cancelled", 0),
    "expire, cancel": (expire, cancel, ("done", "done"), "tool.cancelled", 0),
    "cancel, expire": (cancel, expire, ("done", "done"), "tool.cancelled", 0),
    "approve, cancel the run": (approve, cancel_run, ("approved", "done"), "tool.run_cancelled", 0),
    "cancel the run, approve": (cancel_run, approve, ("done", "approval.call_ended"), "tool.run_cancelled", 0),
    "approve, withdraw": (approve, lambda site: site.desk.withdraw(site.expert),
                          ("approved", "voided"), "policy.approval.voided", 0),
    "withdraw, approve": (lambda site: site.desk.withdraw(site.expert), approve,
                          ("approval.no_vote", "approved"), "tool.succeeded", 1),
    "approve, deactivate": (approve, deactivate, ("approved", "done"), "policy.approval.not_covering", 0),
    "deactivate, approve": (deactivate, approve, ("done", "auth.forbidden"), None, 0),
    "approve, leave": (approve, leave, ("approved", "done"), "policy.approval.not_covering", 0),
    "leave, approve": (leave, approve, ("done", "auth.forbidden"), None, 0),
}  # fmt: skip


@gate("approvals.races")
@pytest.mark.parametrize("pair", PEOPLE)
def test_of_two_people_or_moments_one_wins_and_the_loser_is_told(
    acme: Tenancy, worker: Runtime, monkeypatch: pytest.MonkeyPatch, pair: str
) -> None:
    first, second, answers, code, sent = PEOPLE[pair]
    site = site_of(acme)
    lose_rings(monkeypatch)
    assert (told(lambda: first(site)), told(lambda: second(site))) == answers
    ended = finished(site, worker)
    assert (ended.reason_code, len(site.tool.sent)) == (code, sent)
    if code is None:
        assert (ended.state, site.desk.now.status) == (Progress.HELD, "pending")
    assert bool(row_of(acme, site.desk.held).effect_sent_at) is bool(sent)


@gate("approvals.races")
@pytest.mark.parametrize("moment", ["before_intent", "after_intent", "after_claim", "before_watermark"])
@pytest.mark.parametrize("change", [*ENDS, *LEAVES])
def test_nothing_is_sent_when_the_approval_stops_standing_before_the_watermark(
    acme: Tenancy, worker: Runtime, change: str, moment: str
) -> None:
    deed, code = ENDS.get(change) or (LEAVES[change], "policy.approval.not_covering")
    site = site_of(acme)
    approve(site)
    (ended,) = acme.work(at(site.runtime(worker), moment, lambda: deed(site)), site.desk.held)
    assert (ended.reason_code, site.tool.sent) == (code, [])
    assert row_of(acme, site.desk.held).effect_sent_at is None


@gate("approvals.races")
@pytest.mark.parametrize("change", [*ENDS, *LEAVES])
def test_what_comes_after_the_watermark_changes_nothing_for_this_call(
    acme: Tenancy, worker: Runtime, change: str
) -> None:
    deed = ENDS[change][0] if change in ENDS else LEAVES[change]
    site = site_of(acme)
    approve(site)
    (ended,) = acme.work(at(site.runtime(worker), "after_watermark", lambda: deed(site)), site.desk.held)
    assert (ended.reason_code, len(site.tool.sent)) == ("tool.succeeded", 1)


@gate("approvals.races")
@pytest.mark.parametrize("moment", ["before_intent", "after_intent"])
def test_an_approval_is_taken_back_until_its_use_and_not_after(acme: Tenancy, worker: Runtime, moment: str) -> None:
    site, answers = site_of(acme), []
    approve(site)

    def withdraw() -> None:
        answers.append(told(lambda: site.desk.withdraw(site.expert)))

    (ended,) = acme.work(at(site.runtime(worker), moment, withdraw), site.desk.held)
    if moment == "before_intent":
        assert (answers, ended.reason_code, site.tool.sent) == (["voided"], "policy.approval.voided", [])
    else:
        assert (answers, ended.reason_code, len(site.tool.sent)) == (["approval.decided"], "tool.succeeded", 1)


@gate("approvals.races")
@pytest.mark.parametrize("order", ["approve first", "approve second"])
@pytest.mark.parametrize("what", ["another step's", "a bit of it"])
def test_arguments_that_were_altered_in_the_database_are_never_sent(
    acme: Tenancy, worker: Runtime, what: str, order: str
) -> None:
    """They are sealed to their step: what is not what was proposed cannot even be read."""
    site, other = site_of(acme), hold(acme, "something else")
    if order == "approve first":
        approve(site)
    with tenant_transaction(acme.id):
        bodies = {row.step_number: bytes(row.body or b"") for row in RunStep.objects.filter(run=acme.run)}
        mine, theirs = row_of(acme, site.desk.held).step_id, row_of(acme, other.held).step_number
        flipped = bodies[row_of(acme, site.desk.held).step_number]
        altered = bodies[theirs] if what == "another step's" else flipped[:-1] + bytes([flipped[-1] ^ 1])
        RunStep.objects.filter(pk=mine).update(body=altered)
    if order == "approve second":
        approve(site)
    (ended,) = acme.work(site.runtime(worker), site.desk.held)
    row = row_of(acme, site.desk.held)
    assert (ended.reason_code, site.tool.sent, row.effect_sent_at) == ("tool.unreadable", [], None)
    assert "something else" not in f"{row.error} {row.result}"
    assert site.desk.now.status == "voided"


class Rewriting:
    """A policy port that rewrites what it is shown, as a careless hook would."""

    def __init__(self, policy: PolicyGate) -> None:
        self._policy = policy

    def evaluate(self, action: ProposedAction, facts: Facts) -> Decision:
        decision = self._policy.evaluate(action, facts)
        action.arguments["line"] = "to somebody else"
        return decision


@gate("approvals.races", "faults.b47")
def test_what_is_sent_is_made_from_what_was_approved_and_not_from_what_became_of_it(
    acme: Tenancy, worker: Runtime
) -> None:
    site = site_of(acme)
    approve(site)
    runtime = site.runtime(worker)
    acme.work(replace(runtime, policy=Rewriting(runtime.policy)), site.desk.held)
    assert [arguments["line"] for arguments, _ in site.tool.sent] == ["x"]


def together(*deeds: Callable[[], object]) -> list[str]:
    """Do them at the same time; return what each was told."""
    barrier, answers = threading.Barrier(len(deeds)), [""] * len(deeds)

    def play(index: int, deed: Callable[[], object]) -> None:
        barrier.wait(20)
        try:
            answers[index] = told(deed)
        finally:
            connections.close_all()

    threads = [threading.Thread(target=play, args=pair) for pair in enumerate(deeds)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    return answers


@gate("approvals.races")
def test_two_votes_at_once_take_two_seats_and_decide_once(acme: Tenancy, worker: Runtime) -> None:
    ask_for(acme, "expert", "client")
    site = site_of(acme)
    people = [person(acme, EXPERT), person(acme, CLIENT)]
    answers = together(*[lambda who=who: site.desk.decide(who) for who in people])
    assert sorted(answers) == ["approved", "pending"]
    assert sorted(vote["seat"] for vote in site.desk.now.votes) == ["client", "expert"]
    assert events_of(acme, site.desk.held).count("approval.approved") == 1
    acme.work(site.runtime(worker), site.desk.held)
    assert len(site.tool.sent) == 1


@gate("approvals.races")
def test_two_votes_at_once_for_the_last_seat_are_one_vote(acme: Tenancy) -> None:
    ask_for(acme, "expert", "client")
    site = site_of(acme)
    site.desk.decide(person(acme, CLIENT))
    people = [person(acme, EXPERT) for _ in range(3)]
    answers = together(*[lambda who=who: site.desk.decide(who) for who in people])
    assert sorted(answers) == ["approval.decided", "approval.decided", "approved"]


@gate("approvals.races")
@pytest.mark.parametrize("round", range(4))
def test_approving_and_rejecting_at_once_has_one_winner(acme: Tenancy, worker: Runtime, round: int) -> None:  # noqa: A002
    site, other = site_of(acme), person(acme, EXPERT)
    answers = together(lambda: site.desk.decide(site.expert), lambda: site.desk.reject(other))
    assert sorted(answers) in (["approval.decided", "approved"], ["approval.decided", "rejected"])
    acme.work(site.runtime(worker), site.desk.held)
    assert len(site.tool.sent) == answers.count("approved")


@gate("approvals.races")
@pytest.mark.parametrize("round", range(4))
def test_a_withdrawal_and_the_worker_at_once_leave_no_doubt(acme: Tenancy, worker: Runtime, round: int) -> None:  # noqa: A002
    site = site_of(acme)
    approve(site)
    answers = together(lambda: site.desk.withdraw(site.expert), lambda: acme.work(site.runtime(worker), site.desk.held))
    ended = finished(site, worker) if site.desk.now.status == "voided" else None
    if answers[0] == "voided":
        assert site.tool.sent == []
        assert acme.call(site.desk.held).reason_code == "policy.approval.voided", ended
    else:
        assert (answers[0], len(site.tool.sent)) == ("approval.decided", 1)


@gate("approvals.evaluations")
def test_every_evaluation_is_stored_also_one_that_changes_nothing(acme: Tenancy, worker: Runtime) -> None:
    (call,) = acme.propose(("demo.echo", {"text": "x"}))
    acme.work(worker, call)
    site = site_of(acme)
    approve(site)
    acme.work(site.runtime(worker), site.desk.held)

    def stored(found: Disposition) -> list[tuple[str, str]]:
        with tenant_transaction(acme.id):
            rows = PolicyDecision.objects.filter(invocation_id=found.invocation_id).order_by("created_at", "id")
            return list(rows.values_list("verdict", "rule"))

    assert stored(call) == [("allow", "matrix")] * 2
    assert (
        stored(site.desk.held) == [("require_expert_approval", "builtin.untrusted_write")] * 2
        or stored(site.desk.held) == [("require_expert_approval", "matrix")] * 2
    )


@gate("approvals.evaluations")
def test_an_epoch_that_rises_before_the_watermark_has_its_evaluation_kept_too(acme: Tenancy, worker: Runtime) -> None:
    site = site_of(acme)
    approve(site)
    site.acme.work(at(site.runtime(worker), "before_watermark", lambda: site.change(moved="")), site.desk.held)
    with tenant_transaction(acme.id):
        epochs = PolicyDecision.objects.filter(invocation_id=site.desk.held.invocation_id).order_by("created_at", "id")
        assert len(site.tool.sent) == 1
        found = list(epochs.values_list("authz_epoch", flat=True))
    assert (len(found), found[-1]) == (3, found[-2] + 1)
