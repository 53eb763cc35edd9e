"""What a person sees to judge a held call, and the other ways to decide: seats, withdrawals, several at once."""

import re
from typing import Any

import pytest
from django.db import connections
from django.test.utils import CaptureQueriesContext

from approvals import policy_services
from approvals.models import ApprovalVote
from tests.factories import Tenancy
from tests.integration.console.conftest import HeldCall, hold
from tests.integration.console.people import INBOX, INDEX, LOGIN, PASSWORD, Person, person
from tests.integration.console.test_decision_page import decide
from tests.spec.requirements import gate
from toolsys import queue
from toolsys.domain.states import Role
from toolsys.models import ApprovalRequest
from toolsys.ports import Runtime
from toolsys.tenancy import tenant_transaction

pytestmark = pytest.mark.slow


def hold_echo(tenancy: Tenancy, *texts: str) -> list[HeldCall]:
    """Hold calls of a tool that is of low risk, by a rule of an author who is nobody else."""
    author = person((tenancy, Role.TENANT_ADMIN)).user
    policy_services.save_rule(
        tenant_id=tenancy.id, user=author, name="hold-echo", verdict="require_expert_approval",
        match={"tools": ["demo.echo"], "arguments": [{"pointer": "/text", "operator": "prefix", "value": "t"}]},
    )  # fmt: skip
    found = []
    for text in texts:
        (disposition,) = tenancy.propose(("demo.echo", {"text": text}))
        with tenant_transaction(tenancy.id):
            request = ApprovalRequest.objects.get(invocation_id=disposition.invocation_id)
        found.append(HeldCall(tenancy, disposition, request))
    return found


def together(who: Person, held: list[HeldCall], decision: str = "", **values: Any) -> Any:
    given = {f"digest-{each.request.pk}": each.request.digest for each in held} | {"note": "", **values}
    return who.post(INBOX, request=[each.request.pk for each in held], decision=decision, **given)


def statuses(held: list[HeldCall]) -> list[str]:
    return [each.now().status for each in held]


@gate("decision.shown")
def test_the_page_says_what_it_does_why_it_is_held_and_what_is_new(
    acme: Tenancy, approver: Person, worker: Runtime
) -> None:
    first, second = hold_echo(acme, "the plan", "the other plan")
    page = approver.text(first.page)
    assert "this agent never had a call of this tool approved" in page
    decide(approver, first)
    acme.work(worker, first.disposition)
    page = approver.text(second.page)
    for shown in ("It computes an answer and touches nothing.", "<strong>hold-echo@1</strong> says require expert",
                  "begins with what the rule says; it was <q class=\"value\">the other plan</q>",
                  "now: </span>the other plan</ins>", "before: </span>the plan</del>",
                  "1 approved, 0 not, among the newest 500", "hold-echo version 1</a>"):  # fmt: skip
        assert shown in page, shown
    (third,) = hold_echo(acme, "the plan")
    assert "The same arguments as" in approver.text(third.page)


def test_nothing_hides_in_an_argument(acme: Tenancy, approver: Person) -> None:
    (held,) = hold_echo(acme, "t\u202e\u200b p\u0430y " + "x" * 1_000)
    page = approver.text(held.page)
    assert "2 invisible characters" in page
    assert "letters of Cyrillic and Latin in one word" in page
    assert '<details><summary><span class="value">t[U+202E][U+200B]' in page
    assert "\u202e" not in page


@gate("decision.seats")
def test_two_seats_take_two_people_and_the_page_says_who_sits(acme: Tenancy) -> None:
    author = person((acme, Role.TENANT_ADMIN)).user
    policy_services.save_rule(
        tenant_id=acme.id, user=author, name="two", verdict="require_client_approval",
        match={"tools": ["demo.external_*"]}, seats=["expert", "client"],
    )  # fmt: skip
    held = hold(acme)
    expert, client = person((acme, Role.EXPERT_APPROVER)), person((acme, Role.CLIENT_APPROVER))
    assert decide(expert, held).status_code == 302
    page = expert.text(held.page)
    assert "Your vote counts. Another seat is still free." in page
    assert f"expert: <strong>{expert.user}</strong>" in page
    assert "nobody yet" in page
    assert "You have voted." in page
    assert "1 of 2" in client.text(INBOX)
    assert held.now().status == "pending"
    assert decide(client, held).status_code == 302
    assert held.now().status == "approved"


@gate("decision.withdraw")
def test_a_vote_is_taken_back_and_a_used_one_is_not(held: HeldCall, approver: Person, worker: Runtime) -> None:
    assert decide(approver, held).status_code == 302
    assert "Take my vote back" in approver.text(held.page)
    assert approver.post(held.page, decision="withdraw").status_code == 302
    assert held.now().status == "voided"
    page = approver.text(held.page)
    assert "taken back by" in page
    assert "Take my vote back" not in page
    assert approver.post(held.page, decision="withdraw").status_code == 409


@gate("decision.reject_code")
def test_the_agent_is_told_the_code_that_the_person_chose(held: HeldCall, approver: Person, worker: Runtime) -> None:
    assert decide(approver, held, "reject", note="not him", rejection="wrong_target").status_code == 302
    held.tenancy.work(worker, held.disposition)
    assert held.tenancy.call(held.disposition).reason_code == "policy.rejected.wrong_target"
    assert "the agent is told <code>wrong_target</code>" in approver.text(held.page)


@gate("console.stale")
def test_a_vote_that_came_between_makes_a_conflict(acme: Tenancy) -> None:
    author = person((acme, Role.TENANT_ADMIN)).user
    policy_services.save_rule(
        tenant_id=acme.id, user=author, name="two", verdict="require_expert_approval",
        match={"tools": ["demo.external_*"]}, seats=["expert", "expert"],
    )  # fmt: skip
    held = hold(acme)
    first, second = (person((acme, Role.EXPERT_APPROVER)) for _ in range(2))
    seen = re.search(r'name="seen" value="(\w+)"', second.text(held.page))
    assert seen is not None
    assert decide(first, held).status_code == 302
    answer = decide(second, held, seen=seen[1])
    assert answer.status_code == 409
    assert "This request changed. Look at it again." in answer.content.decode()
    assert held.now().status == "pending"
    fresh = re.search(r'name="seen" value="(\w+)"', answer.content.decode())
    assert fresh is not None
    assert decide(second, held, seen=fresh[1]).status_code == 302
    assert held.now().status == "approved"


@gate("decision.password")
def test_high_risk_takes_the_password_and_guessing_ends_the_session(held: HeldCall, approver: Person) -> None:
    assert decide(approver, held, password="").status_code == 403
    for _ in range(4):
        assert decide(approver, held, password="guess").status_code == 403
    assert held.now().status == "pending"
    last = decide(approver, held, password="guess")
    assert last.headers["Location"] == f"{LOGIN}?next={held.page}"
    assert approver.get(INDEX).status_code == 302
    assert decide(approver, held, password=PASSWORD).status_code == 302
    assert held.now().status == "pending", "the session is gone, and the right password does not bring it back"


@gate("decision.several")
def test_several_are_shown_in_full_and_decided_each_by_itself(acme: Tenancy, approver: Person) -> None:
    held = hold_echo(acme, "t one", "t two", "t three")
    shown = together(approver, held[:2]).content.decode()
    assert "Approve all 2" in shown
    assert shown.index("t one") < shown.index("t two")
    assert statuses(held) == ["pending"] * 3
    held[1].change(digest="0" * 64)
    done = together(approver, held, "approve").content.decode()
    assert statuses(held) == ["approved", "pending", "approved"]
    assert "not decided:</strong> This request changed." in done
    assert held[0].ring in queue.call_queue().job_ids
    with tenant_transaction(acme.id):
        assert ApprovalVote.objects.count() == 2


@gate("decision.several")
def test_what_may_not_be_approved_together_may_be_rejected_together(acme: Tenancy, approver: Person) -> None:
    mixed = [*hold_echo(acme, "t one"), hold(acme)]
    assert "not approved: only up to 10" in together(approver, mixed).content.decode()
    refused = together(approver, mixed, "approve", password=PASSWORD)
    assert refused.status_code == 422
    assert together(approver, mixed, "reject").status_code == 422, "a rejection says why"
    assert statuses(mixed) == ["pending"] * 2
    assert together(approver, mixed, "reject", note="none of it", rejection="not_needed").status_code == 200
    assert statuses(mixed) == ["rejected"] * 2


def test_nothing_ticked_and_foreign_ids_decide_nothing(acme: Tenancy, globex: Tenancy, approver: Person) -> None:
    foreign = hold(globex)
    for decision in ("", "approve", "reject"):
        answer = together(approver, [foreign], decision, note="x")
        assert answer.status_code == 302
    assert approver.post(INBOX).headers["Location"] == INBOX
    assert approver.post(INBOX, request="no-id").status_code == 404
    assert foreign.now().status == "pending"


@gate("console.get")
def test_nothing_acts_on_get(held: HeldCall, approver: Person) -> None:
    query = f"decision=approve&digest={held.request.digest}&password={PASSWORD}&request={held.request.pk}&note=x"
    for path in (held.page, INBOX):
        assert approver.get(f"{path}?{query}").status_code == 200
    assert held.now().status == "pending"


def _queries(who: Person, path: str) -> int:
    with CaptureQueriesContext(connections["default"]) as queries:
        who.text(path)
    return len(queries)


@gate("inbox.queries")
def test_the_inbox_asks_as_much_for_many_as_for_few(acme: Tenancy, approver: Person) -> None:
    held = [hold(acme, f"line {number}") for number in range(3)]
    decide(approver, held[0])
    approver.text(INBOX)
    few = {tab: _queries(approver, f"{INBOX}?tab={tab}") for tab in ("mine", "others", "decided", "expired")}
    held += [hold(acme, f"another {number}") for number in range(6)]
    decide(approver, held[1])
    many = {tab: _queries(approver, f"{INBOX}?tab={tab}") for tab in few}
    assert many == few
    assert max(many.values()) <= 19
    page = _queries(approver, held[2].page)
    assert _queries(approver, held[3].page) == page
    assert page <= 30


def test_a_long_inbox_goes_on_page_after_page(acme: Tenancy, approver: Person, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("approvals.inbox.PAGE", 2)
    held = [hold(acme, f"line {number}") for number in range(5)]
    seen: list[str] = []
    path: str | None = INBOX
    while path is not None:
        page = approver.text(path)
        seen += re.findall(r'type="checkbox" name="request" value="([\w-]+)"', page)
        found = re.search(r'href="(\?tab=mine&amp;after=[^"]+)"', page)
        path = INBOX + found[1].replace("&amp;", "&") if found else None
    assert seen == [str(each.request.pk) for each in held]
    assert approver.get(f"{INBOX}?after=nonsense").status_code == 200


@gate("inbox.four_eyes")
def test_what_somebody_may_not_decide_does_not_wait_for_them(acme: Tenancy, approver: Person) -> None:
    """Whoever wrote the rule, answers for it, or proposed the call: it waits for others."""
    writes, answers, proposes = (person((acme, Role.EXPERT_APPROVER)) for _ in range(3))
    policy_services.save_rule(
        tenant_id=acme.id, user=writes.user, owner=answers.user, name="hold-echo", verdict="require_expert_approval",
        match={"tools": ["demo.echo"]},
    )  # fmt: skip
    acme.propose(("demo.echo", {"text": "by the rule"}))
    written = hold(acme, "by the matrix")
    assert [_waiting(each) for each in (writes, answers, proposes, approver)] == [(1, 1), (1, 1), (2, 0), (2, 0)]
    with tenant_transaction(acme.id):
        type(acme.principal).objects.filter(pk=acme.principal.pk).update(external_id=proposes.user.username)
    assert [_waiting(each) for each in (proposes, approver)] == [(0, 2), (2, 0)]
    assert str(written.request.pk) in approver.text(INBOX)


def _waiting(who: Person) -> tuple[int, ...]:
    """Return how many requests are under "waiting for me" and under "waiting for others"."""
    found = [re.findall(r'<th scope="row"', who.text(f"{INBOX}?tab={tab}")) for tab in ("mine", "others")]
    return tuple(map(len, found))
