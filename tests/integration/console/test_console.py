"""The console over real sessions: who sees what, deciding a held call, and pages without inline script or style."""

import re
import uuid
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.db import connections
from django.test import Client

from tests.factories import Tenancy
from tests.spec.requirements import gate
from toolsys import provisioning
from toolsys.domain.states import Role
from toolsys.models import ApprovalRequest, Membership
from toolsys.ports import Runtime
from toolsys.tenancy import tenant_transaction

INLINE = re.compile(
    r'<script(?![^>]*\b(src|nonce|type="application/json"))|\sstyle="|\son[a-z]+="|<style(?![^>]*nonce)'
)


class Visitor:
    """A signed-in person."""

    def __init__(self, *places: tuple[Tenancy, Role]) -> None:
        self.user = get_user_model().objects.create_user(username=f"u-{uuid.uuid4().hex[:8]}", password="a-long-pw-1")
        for tenancy, role in places:
            provisioning.add_member(tenancy.id, self.user, role)
        self.client = Client()

    def login(self) -> Any:
        credentials = {"username": self.user.username, "password": "a-long-pw-1"}
        return self.client.post("/admin/login/?next=/admin/", credentials)

    def get(self, path: str) -> Any:
        return self.client.get(f"/admin/{path}")


@pytest.fixture
def held(acme: Tenancy) -> ApprovalRequest:
    (disposition,) = acme.propose(("demo.external_write", {"line": "pay \u202e4111 1111 1111 1111"}))
    with tenant_transaction(acme.id):
        return ApprovalRequest.objects.get(invocation_id=disposition.invocation_id)


@pytest.fixture
def approver(acme: Tenancy) -> Visitor:
    visitor = Visitor((acme, Role.EXPERT_APPROVER))
    visitor.login()
    return visitor


def test_who_belongs_to_no_tenant_cannot_sign_in(database: None) -> None:
    stranger = Visitor()
    assert stranger.login().status_code == 200
    assert stranger.get("").status_code == 302


def test_an_invocation_shows_its_fourteen_steps(acme: Tenancy, worker: Runtime, approver: Visitor) -> None:
    (proposed,) = acme.propose(("demo.echo", {"text": "hello"}))
    acme.work(worker, proposed)
    connections.close_all()
    page = approver.get(f"toolsys/invocation/{proposed.invocation_id}/change/").content.decode()
    numbers = re.findall(r'<th scope="row">(\d+)</th>', page)
    assert numbers == [str(number) for number in range(1, 15)]
    assert "result committed" in page
    assert "first claim committed" in page


@gate("approvals.decide")
def test_a_held_call_is_decided_on_its_page(
    acme: Tenancy, held: ApprovalRequest, approver: Visitor, worker: Runtime
) -> None:
    path = f"/admin/toolsys/approvalrequest/{held.pk}/change/"
    page = approver.client.get(path).content.decode()
    assert "[U+202E]" in page
    assert "4111" not in page
    approver.client.post(path, {"decision": "approve", "digest": held.digest, "note": "fine"})
    with tenant_transaction(acme.id):
        assert ApprovalRequest.objects.get(pk=held.pk).status == "approved"


@gate("approvals.own_call")
def test_whoever_answers_for_the_key_is_told_why_they_cannot_decide(
    acme: Tenancy, held: ApprovalRequest, approver: Visitor
) -> None:
    with tenant_transaction(acme.id):
        type(acme.key).objects.filter(pk=acme.key.pk).update(owner=approver.user)
    path = f"/admin/toolsys/approvalrequest/{held.pk}/change/"
    assert "Whoever proposed a call cannot decide it" in approver.client.get(path).content.decode()
    approver.client.post(path, {"decision": "approve", "digest": held.digest})
    with tenant_transaction(acme.id):
        assert ApprovalRequest.objects.get(pk=held.pk).status == "pending"


def test_a_stale_page_decides_nothing(acme: Tenancy, held: ApprovalRequest, approver: Visitor) -> None:
    path = f"/admin/toolsys/approvalrequest/{held.pk}/change/"
    answer = approver.client.post(path, {"decision": "approve", "digest": "0" * 64}, follow=True)
    assert "This request changed" in answer.content.decode()
    with tenant_transaction(acme.id):
        assert ApprovalRequest.objects.get(pk=held.pk).status == "pending"


def test_another_tenants_pages_do_not_exist(held: ApprovalRequest, globex: Tenancy) -> None:
    visitor = Visitor((globex, Role.TENANT_ADMIN))
    visitor.login()
    for path in (f"approvalrequest/{held.pk}", f"invocation/{held.invocation_id}"):
        assert visitor.get(f"toolsys/{path}/change/").status_code == 404
    assert "demo.external_write" not in visitor.get("toolsys/invocation/").content.decode()


def test_a_removed_membership_loses_access_at_once(acme: Tenancy, approver: Visitor) -> None:
    assert approver.get("").status_code == 200
    with tenant_transaction(acme.id):
        Membership.objects.filter(user=approver.user).delete()
    assert approver.get("").status_code == 302


def test_switching_is_explicit_and_only_among_ones_own(acme: Tenancy, globex: Tenancy, initech: Tenancy) -> None:
    visitor = Visitor((acme, Role.TENANT_AUDITOR), (globex, Role.TENANT_AUDITOR))
    visitor.login()
    assert "Acme" in visitor.get("").content.decode()
    visitor.client.post("/admin/switch-tenant/", {"tenant": globex.id})
    assert "Globex" in visitor.get("").content.decode()
    visitor.client.post("/admin/switch-tenant/", {"tenant": initech.id})
    assert "Initech" not in visitor.get("").content.decode()


def test_a_new_key_is_shown_once_and_works(acme: Tenancy) -> None:
    admin = Visitor((acme, Role.TENANT_ADMIN))
    admin.login()
    answer = admin.client.post("/admin/toolsys/apikey/add/", {"name": "ci", "scopes": "[]"}, follow=True)
    (key,) = set(re.findall(r"tsk_[0-9a-z]{8}_[A-Za-z0-9_-]{43}", answer.content.decode()))
    assert Client().get(f"/v1/runs/{acme.run.id}", headers={"authorization": f"Bearer {key}"}).status_code == 200
    assert key not in admin.get("toolsys/apikey/").content.decode()


@pytest.mark.parametrize(
    "path",
    ["", "toolsys/invocation/", "toolsys/run/", "toolsys/approvalrequest/", "toolsys/approvalrequest/?tab=decided"],
)
def test_pages_have_a_strict_policy_and_nothing_inline(approver: Visitor, held: ApprovalRequest, path: str) -> None:
    answer = approver.get(path)
    assert answer.status_code == 200
    assert "unsafe" not in answer["Content-Security-Policy"]
    assert not INLINE.search(answer.content.decode())
