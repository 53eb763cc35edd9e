"""Deciding a held call on its page: what is shown, what is asked, and that the ring follows the commit."""

import re
import threading
from datetime import timedelta
from typing import Any

import pytest
from django.contrib import messages
from django.db import connections
from django.utils import timezone

from approvals.models import ApprovalVote
from tests.factories import Tenancy, events_of
from tests.integration.console.conftest import HeldCall, hold
from tests.integration.console.people import INBOX, INVOCATIONS, PASSWORD, Person, page_of, person
from tests.spec.requirements import gate
from toolsys import queue, tenancy
from toolsys.domain.states import Role
from toolsys.models import ApiKey
from toolsys.ports import Runtime


def decide(who: Person, held: HeldCall, decision: str = "approve", **values: Any) -> Any:
    return who.post(
        held.page, **{"decision": decision, "note": "", "digest": held.request.digest, "password": PASSWORD, **values}
    )


def refused(who: Person, held: HeldCall, status: int, **values: Any) -> str:
    """Return the page that refuses; nothing was decided and nobody was rung for."""
    answer = decide(who, held, **values)
    assert answer.status_code == status
    assert held.now().status == "pending"
    assert held.ring not in queue.call_queue().job_ids
    with tenancy.tenant_transaction(held.tenancy.id):
        assert not ApprovalVote.objects.filter(request=held.request).exists()
    page: str = answer.content.decode()
    return page


def test_the_page_says_what_will_happen_to_whom_it_belongs_and_until_when(acme: Tenancy, approver: Person) -> None:
    held = hold(acme, "pay \u202e<b>evil</b> 4111 1111 1111 1111")
    page = approver.text(held.page)
    assert "This will run <strong>demo.external_write</strong>" in page
    assert "pay [U+202E]&lt;b&gt;evil&lt;/b&gt; [REDACTED]" in page
    for shown in (acme.agent.name, acme.principal.external_id, acme.key.name, "policy.matrix.external_write",
                  f"{held.request.expires_at:%Y-%m-%d %H:%M:%S} UTC", f'value="{held.request.digest}"'):  # fmt: skip
        assert shown in page
    assert "autofocus" not in page


@gate("approvals.decide")
def test_an_approval_is_committed_before_anybody_is_rung_for(
    held: HeldCall, approver: Person, worker: Runtime, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str] = []
    ring = queue.enqueue_call

    def look() -> None:
        """Read over a connection of its own: it sees what is committed."""
        seen.append(held.now().status)
        connections.close_all()

    def looked_at(*arguments: Any) -> None:
        assert not tenancy.is_transaction_open()
        other = threading.Thread(target=look)
        other.start()
        other.join(10)
        ring(*arguments)

    monkeypatch.setattr(queue, "enqueue_call", looked_at)
    answer = decide(approver, held, note="as agreed")
    assert (answer.status_code, answer.headers["Location"]) == (302, held.page)
    assert seen == ["approved"]
    assert held.ring in queue.call_queue().job_ids
    waiting = approver.get(held.page)
    assert "Approved. The call goes on." in waiting.content.decode()
    assert 'every three seconds; <a href="?still">keep it still</a>' in waiting.content.decode()
    assert waiting.headers["Refresh"] == "3"
    assert "Refresh" not in approver.get(f"{held.page}?still").headers
    held.tenancy.work(worker, held.disposition)
    done = approver.get(held.page)
    assert "Refresh" not in done.headers
    assert "as agreed" in done.content.decode()
    assert events_of(held.tenancy, held.disposition)[2] == "approval.approved"


def test_the_badge_of_every_page_says_in_words_what_its_number_counts(held: HeldCall, approver: Person) -> None:
    shown = approver.get(held.page).content.decode()
    badge = re.search(
        r'<span class="count">([0-9]+)<span class="visually-hidden"> waiting for you</span></span>', shown
    )
    assert badge is not None
    assert f"<title>({badge[1]}) " in re.sub(r"<title>\s+", "<title>", shown)


def test_a_rejection_needs_a_note_and_keeps_nothing_without_one(
    held: HeldCall, approver: Person, worker: Runtime
) -> None:
    assert "Nothing is decided yet; note: say why." in refused(approver, held, 422, decision="reject")
    assert decide(approver, held, "reject", note="not before Monday").status_code == 302
    held.tenancy.work(worker, held.disposition)
    page = approver.text(held.page)
    assert "An expert reviewed and rejected this action" in page
    assert "not before Monday" in page


def test_neither_button_means_no_decision(held: HeldCall, approver: Person) -> None:
    refused(approver, held, 422, decision="", note="a note decides nothing")


def test_a_changed_request_must_be_looked_at_again(held: HeldCall, approver: Person) -> None:
    page = refused(approver, held, 409, digest="0" * 64, note="keep <this>")
    assert "This request changed. Look at it again." in page
    assert "keep &lt;this&gt;</textarea>" in page
    assert f'value="{held.request.digest}"' in page


def test_a_decided_request_is_not_decided_again(held: HeldCall, approver: Person) -> None:
    decide(approver, held)
    other = person((held.tenancy, Role.EXPERT_APPROVER))
    answer = decide(other, held, "reject", note="no")
    assert answer.status_code == 409
    assert "This request is already decided." in answer.content.decode()
    assert held.now().status == "approved"


def test_an_expired_request_offers_no_decision(held: HeldCall, approver: Person) -> None:
    held.change(expires_at=timezone.now() - timedelta(seconds=1))
    page = approver.text(held.page)
    assert '<textarea id="note"' not in page
    assert "This will run" not in page
    assert "chip-expired" in page
    assert "This request has expired." in refused(approver, held, 409)


@gate("approvals.own_call")
def test_four_eyes_are_explained_and_kept(held: HeldCall, approver: Person) -> None:
    with tenancy.tenant_transaction(held.tenancy.id):
        ApiKey.objects.filter(pk=held.tenancy.key.pk).update(owner=approver.user)
    page = approver.text(held.page)
    assert "<strong>You answer for it.</strong>" in page
    assert '<textarea id="note"' not in page
    refused(approver, held, 403)


def test_other_roles_look_and_do_not_decide(held: HeldCall) -> None:
    for role in (Role.TENANT_ADMIN, Role.CLIENT_APPROVER, Role.TENANT_AUDITOR, Role.DEVELOPER):
        reader = person((held.tenancy, role))
        assert "It takes the role expert approver. <strong>You do not have it" in reader.text(held.page), role
        refused(reader, held, 403)


def test_an_error_after_the_decision_takes_it_back(
    held: HeldCall, approver: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: Any) -> None:
        raise RuntimeError("the answer could not be made")

    monkeypatch.setattr(messages, "success", fails)
    approver.browser.raise_request_exception = False
    refused(approver, held, 500)


def test_a_lost_ring_is_no_lost_decision(held: HeldCall, approver: Person, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: Any) -> None:
        raise ConnectionError("no queue")

    monkeypatch.setattr(queue, "enqueue_call", fails)
    assert decide(approver, held).status_code == 302
    assert held.now().status == "approved"


def test_the_inbox_sorts_what_waits_by_whom_it_waits_for(acme: Tenancy, approver: Person) -> None:
    first, second, lapsed, decided = (hold(acme, line) for line in ("first", "second", "lapsed", "decided"))
    first.change(expires_at=timezone.now() + timedelta(hours=2))
    second.change(expires_at=timezone.now() + timedelta(hours=1))
    lapsed.change(expires_at=timezone.now() - timedelta(hours=1))
    decide(approver, decided)
    page = approver.text(INBOX)
    for label in ("Waiting for me (2)", "Waiting for others (0)", "Decided (1)", "Expired (1)"):
        assert label in page
    assert 0 < page.index(second.page) < page.index(first.page)
    assert page.startswith("<!DOCTYPE html>")
    assert "<title>(2) Approvals" in page
    assert lapsed.page in approver.text(f"{INBOX}?tab=expired")
    assert decided.page in approver.text(f"{INBOX}?tab=decided")
    auditor = person((acme, Role.TENANT_AUDITOR))
    assert "Waiting for others (2)" in auditor.text(INBOX)
    assert page_of(INVOCATIONS, first.request.invocation_id) in approver.text(first.page)
