"""What stands beside the arguments of a held call: the tool's defaults, the agent's rate; and how fast people are."""

import re
from datetime import timedelta

from django.utils import timezone
from prometheus_client import REGISTRY

from approvals import policy_services
from approvals.models import ApprovalVote
from tests.factories import Tenancy
from tests.integration.console.conftest import HeldCall, hold
from tests.integration.console.people import INBOX, Person, person
from tests.integration.console.test_decision_page import decide
from tests.spec.requirements import gate
from toolsys import ids
from toolsys.domain.states import Role
from toolsys.models import ApprovalRequest, Invocation, RunStep
from toolsys.tenancy import tenant_transaction


def held_with(tenancy: Tenancy, **arguments: object) -> HeldCall:
    (disposition,) = tenancy.propose(("demo.external_write", {"line": "pay 4111 1111 1111 1111", **arguments}))
    with tenant_transaction(tenancy.id):
        return HeldCall(tenancy, disposition, ApprovalRequest.objects.get(invocation_id=disposition.invocation_id))


def beside(who: Person, held: HeldCall) -> str:
    """Return what the page says of the tool's defaults."""
    found = re.search(r"<h3>Beside the tool.s defaults</h3>(.*?)<details", who.text(held.page), re.DOTALL)
    assert found is not None
    return found[1]


@gate("decision.defaults")
def test_what_the_defaults_put_in_is_told_from_what_the_caller_gave(acme: Tenancy, approver: Person) -> None:
    left_out = beside(approver, held_with(acme))
    assert re.search(r"<code>/hold</code>.*not given; the default put in.*<ins>false</ins>", left_out)
    assert "/line" not in left_out
    other = beside(approver, held_with(acme, hold=True))
    assert re.search(
        r"<code>/hold</code>.*given, changed from the default.*</span>false</del>.*</span>true</ins>", other
    )
    same = beside(approver, held_with(acme, hold=False))
    assert "The caller gave every argument" in same


@gate("decision.defaults")
def test_where_what_was_given_is_gone_or_altered_nothing_is_claimed(acme: Tenancy, approver: Person) -> None:
    held = held_with(acme)
    for body in (None, b"\1" * 120):
        with tenant_transaction(acme.id):
            RunStep.objects.filter(pk=held.request.invocation.step_id).update(body=body)
        assert "no longer kept" in beside(approver, held)


def test_the_raw_text_is_copied_from_a_field_that_nothing_sends(held: HeldCall, approver: Person) -> None:
    field = re.search(r"<textarea([^>]*)>\n([^<]*)</textarea>", approver.text(held.page))
    assert field is not None
    assert ("readonly" in field[1], "name=" in field[1]) == (True, False)
    assert "&quot;line&quot;: &quot;pay the invoice&quot;" in field[2]


@gate("decision.rate")
def test_the_rate_counts_this_agents_calls_of_this_tool_in_the_last_hour(
    acme: Tenancy, globex: Tenancy, approver: Person
) -> None:
    held = [hold(acme, f"line {number}") for number in range(3)]
    acme.propose(("demo.echo", {"text": "another tool"}))
    hold(globex)
    assert "3 calls of this tool by this agent in the last hour" in approver.text(held[0].page)
    before = ids.earliest(timezone.now() - timedelta(minutes=61))
    with tenant_transaction(acme.id):
        call = Invocation.objects.get(pk=held[1].request.invocation_id)
        call.pk, call.idempotency_key, call.call_id = before, "0" * 64, "an-hour-ago"
        call.save(force_insert=True)
    assert "3 calls of this tool by this agent in the last hour" in approver.text(held[0].page)


@gate("inbox.pace")
def test_the_inbox_says_how_fast_people_decided_and_the_metric_names_nobody(acme: Tenancy, approver: Person) -> None:
    counted = _votes()
    held = [hold(acme, f"line {number}") for number in range(4)]
    ago = [-5, 10, 60, 7200]  # one of them as quick as nobody is
    for each, seconds in zip(held, ago, strict=True):
        each.change(created_at=timezone.now() - timedelta(seconds=seconds))
        decide(approver, each, note="seen")
    assert "How fast people decided" not in approver.text(INBOX)
    decide(approver, held[0], "withdraw")
    page = approver.text(f"{INBOX}?tab=decided")
    row = re.search(rf'<th scope="row" data-label="Person">{approver.user.username}</th>(.*?)</tr>', page)
    assert row is not None
    cells = re.findall(r"<td[^>]*>([^<]*)</td>", row[1])
    assert cells[:4] == ["4", "4", "4", "1"]
    assert 30 <= int(cells[4].removesuffix(" s")) <= 60
    assert _votes() - counted == 4
    shown = [
        sample.labels for each in REGISTRY.collect() if each.name == "approval_vote_seconds" for sample in each.samples
    ]
    assert {name for labels in shown for name in labels} <= {"vote", "le"}
    with tenant_transaction(acme.id):
        assert ApprovalVote.objects.filter(is_withdrawal=True).count() == 1


@gate("inbox.lapses")
def test_the_inbox_says_what_share_of_held_calls_expired_undecided_and_under_which_rule(
    acme: Tenancy, globex: Tenancy, approver: Person
) -> None:
    author = person((acme, Role.TENANT_ADMIN)).user
    now, path = timezone.now(), f"{INBOX}?tab=expired"
    hold(globex).change(expires_at=now - timedelta(minutes=1))
    swept, decided, old = hold(acme, "swept"), hold(acme, "decided"), hold(acme, "last week")
    hold(acme, "still open")
    assert "expired undecided" not in approver.text(path)
    swept.change(status="expired", expires_at=now - timedelta(hours=1), decided_at=now - timedelta(minutes=59))
    old.change(status="expired", expires_at=now - timedelta(days=2), decided_at=now - timedelta(days=2))
    decide(approver, decided, note="seen")
    policy_services.save_rule(
        tenant_id=acme.id, user=author, name="ask-first", verdict="require_expert_approval",
        match={"tools": ["demo.echo"]},
    )  # fmt: skip
    (disposition,) = acme.propose(("demo.echo", {"text": "nobody looks"}))
    with tenant_transaction(acme.id):
        ApprovalRequest.objects.filter(invocation_id=disposition.invocation_id).update(
            expires_at=now - timedelta(minutes=1)
        )
    page = approver.text(path)
    assert "2 of 3 held calls (67 %) expired undecided in the last day" in page
    rows = re.findall(r'data-label="Held by">([^<]*)</th><td[^>]*>([^<]*)</td><td[^>]*>([^<]*)</td>', page)
    assert rows == [("ask-first@1", "1 of 1", "100 %"), ("matrix", "1 of 2", "50 %")]
    assert "expired undecided" not in approver.text(INBOX)


def _votes() -> float:
    return REGISTRY.get_sample_value("approval_vote_seconds_count", {"vote": "approve"}) or 0.0
