"""Grants and requests for access on their pages: proposed by one, confirmed by another, revoked; answered by admins."""

from typing import Any

import pytest

from approvals import access
from approvals.models import AccessRequest
from tests.factories import Tenancy
from tests.integration.console.conftest import HeldCall
from tests.integration.console.people import PASSWORD, Person, page_of, person
from tests.spec.requirements import gate
from toolsys.domain.states import Role
from toolsys.models import StandingGrant
from toolsys.tenancy import tenant_transaction

pytestmark = pytest.mark.slow

GRANTS, ACCESS = "/admin/toolsys/standinggrant/", "/admin/approvals/accessrequest/"
GIVEN = {
    "conditions": '/line prefix "pay"', "maximum_uses": "2", "hours": "1", "is_for_principal": "on", "note": "monthly",
}  # fmt: skip


def grant_of(tenancy: Tenancy) -> StandingGrant:
    with tenant_transaction(tenancy.id):
        return StandingGrant.objects.get()


def propose(who: Person, held: HeldCall, **changes: Any) -> Any:
    return who.post(f"{GRANTS}add/?request={held.request.pk}", **GIVEN | changes)


@gate("console.grants")
def test_a_grant_is_proposed_confirmed_by_another_and_revoked(held: HeldCall, approver: Person) -> None:
    maker = person((held.tenancy, Role.TENANT_ADMIN), (held.tenancy, Role.EXPERT_APPROVER))
    answer = propose(maker, held)
    assert answer.status_code == 302, answer.content.decode()
    path = answer.headers["Location"]
    assert "Confirm it" not in maker.text(path)
    assert maker.post(path, confirm="1", password=PASSWORD).status_code == 403
    assert approver.post(path, confirm="1").status_code == 403, "high risk takes the password"
    assert grant_of(held.tenancy).activated_at is None
    assert approver.post(path, confirm="1", password=PASSWORD).status_code == 302
    assert grant_of(held.tenancy).activated_at is not None
    assert "/line prefix" in approver.text(path)
    assert path in approver.text(GRANTS)
    assert approver.get(f"{path}?revoke=1").status_code == 200
    assert grant_of(held.tenancy).revoked_at is None
    assert approver.post(path, revoke="1").status_code == 302
    assert grant_of(held.tenancy).revoked_by == approver.user


def test_what_is_wrong_with_a_grant_is_said(held: HeldCall, approver: Person) -> None:
    for changes, said in (
        ({"conditions": ""}, "required"), ({"conditions": "line is x"}, "Input should be"),
        ({"maximum_uses": "5000"}, "less than or equal"), ({"hours": "9999"}, "less than or equal"),
    ):  # fmt: skip
        answer = propose(approver, held, **changes)
        assert (answer.status_code, said in answer.content.decode()) == (422, True), (changes, answer.content.decode())


@gate("console.roles")
def test_grants_of_others_do_not_exist_and_readers_only_read(held: HeldCall, globex: Tenancy, approver: Person) -> None:
    path = propose(approver, held).headers["Location"]
    stranger = person((globex, Role.EXPERT_APPROVER))
    assert stranger.get(path).status_code == 404
    assert propose(stranger, held).status_code == 404
    for role in (Role.TENANT_AUDITOR, Role.DEVELOPER):
        reader = person((held.tenancy, role))
        assert reader.get(path).status_code == 200
        assert propose(reader, held).status_code == 404
        for button in ("confirm", "revoke"):
            assert reader.post(path, **{button: "1", "password": PASSWORD}).status_code == 403
    assert grant_of(held.tenancy).revoked_at is None
    assert person((held.tenancy, Role.OPERATOR)).get(GRANTS).status_code == 404


@gate("console.access")
def test_an_admin_answers_who_asks_for_access(acme: Tenancy, globex: Tenancy) -> None:
    (denied,) = acme.propose(("no.such", {}))
    access.ask_for_access(
        tenant_id=acme.id, invocation_id=denied.invocation_id, note="please <b>", api_key_id=acme.key.id
    )
    with tenant_transaction(acme.id):
        row = AccessRequest.objects.get()
    admin, auditor = person((acme, Role.TENANT_ADMIN)), person((acme, Role.TENANT_AUDITOR))
    assert "please &lt;b&gt;" in admin.text(ACCESS)
    assert "It is granted" not in auditor.text(ACCESS)
    assert auditor.post(ACCESS, id=row.pk, answer="grant").status_code == 404
    assert person((globex, Role.TENANT_ADMIN)).post(ACCESS, id=row.pk, answer="grant").status_code == 404
    assert admin.get(f"{ACCESS}?id={row.pk}&answer=grant").status_code == 200
    assert admin.post(ACCESS, id=row.pk, answer="dismiss", words="use the other").status_code == 302
    with tenant_transaction(acme.id):
        row.refresh_from_db()
    assert (row.status, row.answer, row.answered_by) == ("dismissed", "use the other", admin.user)
    page = admin.text(ACCESS)
    assert "Nobody asks." in page
    assert "use the other" in page


@pytest.mark.parametrize("path", [f"{GRANTS}add/", f"{GRANTS}add/?request=nonsense", page_of(GRANTS, "no-id")])
def test_a_grant_is_drawn_from_a_held_call_only(approver: Person, path: str) -> None:
    assert approver.get(path).status_code == 404
