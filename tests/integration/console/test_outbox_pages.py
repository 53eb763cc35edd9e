"""The outbox's pages: endpoints with a secret shown once, the log, sending again; who may, and whose they are."""

import re

import pytest

from approvals.models import Delivery, NotificationEndpoint
from tests.factories import Tenancy
from tests.integration.console.conftest import hold
from tests.integration.console.people import Person, page_of, person
from tests.spec.requirements import gate
from toolsys.domain.states import Role
from toolsys.tenancy import tenant_transaction

pytestmark = pytest.mark.slow

ENDPOINTS, DELIVERIES = "/admin/approvals/notificationendpoint/", "/admin/approvals/delivery/"
GIVEN = {
    "name": "ours", "kind": "webhook", "target": "https://hooks.example.com/toolsys", "types": "approval.requested",
    "is_enabled": "on",
}  # fmt: skip


@pytest.fixture
def admin(acme: Tenancy) -> Person:
    return person((acme, Role.TENANT_ADMIN))


def only(tenancy: Tenancy) -> NotificationEndpoint:
    with tenant_transaction(tenancy.id):
        return NotificationEndpoint.objects.get()


@gate("outbox.pages")
def test_an_endpoint_is_made_changed_and_its_secret_shown_once(acme: Tenancy, admin: Person) -> None:
    made = admin.post(f"{ENDPOINTS}add/", **GIVEN).content.decode()
    secret = re.search(r"whsec_[\w+/=]+", made)
    assert secret is not None
    path = page_of(ENDPOINTS, only(acme).pk)
    for page in (ENDPOINTS, path):
        assert secret[0] not in admin.text(page)
    changed = admin.post(path, **GIVEN | {"types": "tool.call.denied", "is_enabled": ""})
    assert changed.status_code == 302
    row = only(acme)
    assert (row.types, row.is_enabled, row.disabled_reason) == (["tool.call.denied"], False, "by_hand")
    rotated = re.search(r"whsec_[\w+/=]+", admin.post(path, rotate="1").content.decode())
    assert rotated is not None
    assert rotated[0] != secret[0]


def test_what_is_wrong_is_said_at_its_field(acme: Tenancy, admin: Person) -> None:
    for changes, said in (
        ({"target": "http://example.com/"}, "not a URL that may be called: plain_http"),
        ({"target": "https://127.0.0.2/"}, "not a URL that may be called: address"),
        ({"kind": "email"}, "one e-mail address"),
        ({"types": "tool.call.completed"}, "is not one of the available choices"),
    ):
        answer = admin.post(f"{ENDPOINTS}add/", **GIVEN | changes)
        assert (answer.status_code, said in answer.content.decode()) == (422, True), changes


@gate("outbox.pages")
def test_the_log_shows_attempts_and_sends_again_by_post(acme: Tenancy, admin: Person) -> None:
    admin.post(f"{ENDPOINTS}add/", **GIVEN)
    hold(acme)
    with tenant_transaction(acme.id):
        row = Delivery.objects.get()
        Delivery.objects.update(status="failed", attempts=10)
    path = page_of(DELIVERIES, row.pk)
    assert path in admin.text(f"{DELIVERIES}?status__exact=failed&type=approval.requested")
    assert f"msg_{row.pk.hex}" in admin.text(path)
    assert admin.get(f"{path}?again=1").status_code == 200
    auditor = person((acme, Role.TENANT_AUDITOR))
    assert "Send it again" not in auditor.text(path)
    assert auditor.post(path, again="1").status_code == 404
    assert admin.post(path, again="1").status_code == 302
    with tenant_transaction(acme.id):
        row.refresh_from_db()
    assert (row.status, row.attempts, row.attempts_before) == ("pending", 10, 10)


@gate("console.roles")
@pytest.mark.parametrize("role", [Role.EXPERT_APPROVER, Role.CLIENT_APPROVER, Role.DEVELOPER, Role.OPERATOR])
def test_only_admins_and_auditors_see_where_messages_go(acme: Tenancy, admin: Person, role: Role) -> None:
    admin.post(f"{ENDPOINTS}add/", **GIVEN)
    path = page_of(ENDPOINTS, only(acme).pk)
    other = person((acme, role))
    assert (other.get(ENDPOINTS).status_code, other.get(DELIVERIES).status_code) == (403, 403)
    assert (other.get(path).status_code, other.post(path, rotate="1").status_code) == (404, 404)
    auditor = person((acme, Role.TENANT_AUDITOR))
    assert "hooks.example.com" in auditor.text(path)
    assert auditor.post(path, test="1").status_code == 404


@gate("console.roles")
def test_another_tenants_endpoint_does_not_exist(acme: Tenancy, globex: Tenancy, admin: Person) -> None:
    admin.post(f"{ENDPOINTS}add/", **GIVEN)
    stranger = person((globex, Role.TENANT_ADMIN))
    path = page_of(ENDPOINTS, only(acme).pk)
    assert stranger.get(path).status_code == 404
    for button in ("rotate", "test", "save"):
        assert stranger.post(path, **GIVEN | {button: "1"}).status_code == 404
