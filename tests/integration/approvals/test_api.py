"""Approvals, grants and requests for access over the API: keys read and ask, people decide with session and token."""

import json
from dataclasses import dataclass, field
from typing import Any

import pytest
from django.test import Client

from approvals import reauthentication
from tests.factories import Tenancy, events_of
from tests.integration.api.test_api import Api, code
from tests.integration.approvals.desk import ADMIN, EXPERT, PASSWORD, WRITE, Desk, ask_for, hold, person
from tests.spec.requirements import gate
from toolsys import provisioning
from toolsys.domain.states import Role
from toolsys.ports import Runtime
from toolsys.tenancy import tenant_transaction


@dataclass
class Browser:
    """A person at the API with the console's cookies; `token` is what our own pages send along."""

    user: Any
    client: Client = field(default_factory=lambda: Client(enforce_csrf_checks=True, raise_request_exception=False))
    token: str = ""

    def __post_init__(self) -> None:
        self.client.force_login(self.user)
        page = self.client.get("/admin/")
        self.token = str(page.context["csrf_token"]) if page.context else ""

    def send(self, method: str, path: str, body: Any = None, **headers: str) -> Any:
        sent = {"x-csrftoken": self.token, **headers}
        given: dict[str, Any] = {} if body is None else {"data": json.dumps(body), "content_type": "application/json"}
        return self.client.generic(method, path, headers=sent, **given)


@pytest.fixture
def desk(acme: Tenancy) -> Desk:
    return hold(acme)


@pytest.fixture
def expert(acme: Tenancy) -> Browser:
    return Browser(person(acme, EXPERT))


def said(response: Any, status: int = 200) -> Any:
    assert response.status_code == status, response.content
    return json.loads(response.content)


def path_of(desk: Desk, what: str = "") -> str:
    return f"/v1/approvals/{desk.request.id}{what}"


def approve_with(browser: Browser, desk: Desk, **changes: Any) -> Any:
    body = {"decision": "approve", "digest": desk.request.digest, "password": PASSWORD, **changes}
    return browser.send("POST", path_of(desk, "/decision"), {key: each for key, each in body.items() if each != ""})


@gate("approvals.api")
def test_a_held_call_shows_to_keys_and_to_people_and_in_its_run(acme: Tenancy, desk: Desk, expert: Browser) -> None:
    api = Api(acme)
    for who in (api, expert):
        listed = said(who.send("GET", f"/v1/approvals?status=pending&run={acme.run.id}"))
        assert [each["id"] for each in listed["data"]] == [str(desk.request.id)]
        shown = said(who.send("GET", path_of(desk)))
        assert (shown["status"], shown["seats"], shown["seats_left"]) == ("pending", ["expert"], ["expert"])
        assert (shown["name"], shown["arguments"]["line"], shown["digest"]) == (WRITE, "x", desk.request.digest)
    run = said(api.send("GET", f"/v1/runs/{acme.run.id}"))
    assert (run["status"], run["pending_approval_count"]) == ("waiting_for_approval", 1)
    assert "approval.requested" in events_of(acme, desk.held)


@gate("approvals.api")
def test_a_person_approves_and_the_call_runs(acme: Tenancy, desk: Desk, expert: Browser, worker: Runtime) -> None:
    assert said(approve_with(expert, desk))["status"] == "approved"
    acme.work(worker, desk.held)
    assert said(expert.send("GET", path_of(desk)))["status"] == "consumed"
    assert said(Api(acme).send("GET", f"/v1/runs/{acme.run.id}"))["pending_approval_count"] == 0


@gate("approvals.api", "approvals.authorisation")
def test_a_key_decides_nothing_whatever_its_scopes(acme: Tenancy, desk: Desk) -> None:
    api = Api(acme)
    api.key = provisioning.create_api_key(acme.id, "all", ["*", "approvals.decide"], owner=person(acme, EXPERT))[1]
    body = {"decision": "approve", "digest": desk.request.digest}
    assert code(api.send("POST", path_of(desk, "/decision"), body)) == "auth.forbidden"
    for path in ("/v1/grants", f"/v1/grants/{desk.request.id}/confirm", f"/v1/grants/{desk.request.id}/revoke"):
        assert code(api.send("POST", path, {})) == "auth.forbidden"
    assert desk.now.status == "pending"


@gate("approvals.api", "approvals.authorisation")
@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE"])
def test_nothing_is_decided_by_another_method(desk: Desk, expert: Browser, method: str) -> None:
    answer = expert.send(method, path_of(desk, f"/decision?decision=approve&digest={desk.request.digest}"))
    assert (code(answer), desk.now.status) == ("request.method_not_allowed", "pending")


@gate("approvals.api", "approvals.authorisation")
@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({"x-csrftoken": ""}, "auth.csrf"),
        ({"x-csrftoken": "f" * 64}, "auth.csrf"),
        ({"authorization": "Bearer tsk_00000000_nothing"}, "auth.invalid"),
    ],
    ids=["no token", "another token", "a key beside the session"],
)
def test_a_cookie_alone_decides_nothing(desk: Desk, expert: Browser, headers: dict[str, str], expected: str) -> None:
    body = {"decision": "approve", "digest": desk.request.digest, "password": PASSWORD}
    assert code(expert.send("POST", path_of(desk, "/decision"), body, **headers)) == expected
    assert desk.now.status == "pending"


@gate("approvals.api", "approvals.authorisation")
def test_who_is_not_signed_in_or_deactivated_is_nobody(acme: Tenancy, desk: Desk, expert: Browser) -> None:
    stranger: Any = Client(raise_request_exception=False)
    assert code(stranger.get(path_of(desk))) == "auth.missing"
    type(expert.user).objects.filter(pk=expert.user.pk).update(is_active=False)
    assert code(approve_with(expert, desk)) == "auth.missing"


@gate("approvals.api")
def test_another_tenant_sees_and_decides_nothing(desk: Desk, globex: Tenancy) -> None:
    for who in (Api(globex), Browser(person(globex, EXPERT))):
        assert code(who.send("GET", path_of(desk))) == "request.not_found"
        assert said(who.send("GET", "/v1/approvals"))["data"] == []
    assert code(approve_with(Browser(person(globex, EXPERT)), desk)) == "request.not_found"


@gate("approvals.api")
def test_high_risk_takes_the_password_and_guesses_are_bounded(
    desk: Desk, expert: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert code(approve_with(expert, desk, password="")) == "approval.password_needed"
    monkeypatch.setattr(reauthentication, "WRONG_LIMIT", 2)
    for expected in ("approval.password_needed", "approval.password_needed", "request.throttled"):
        assert code(approve_with(expert, desk, password="guess")) == expected
    assert code(approve_with(expert, desk)) == "request.throttled"
    assert desk.now.status == "pending"


@gate("approvals.votes")
def test_the_agent_reads_why_it_was_rejected_as_a_code(
    acme: Tenancy, desk: Desk, expert: Browser, worker: Runtime
) -> None:
    rejected = {"decision": "reject", "note": "not this one", "reject_code": "wrong_target"}
    assert said(approve_with(expert, desk, **rejected))["rejection_code"] == "policy.rejected.wrong_target"
    acme.work(worker, desk.held)
    outcome = said(Api(acme).send("GET", f"/v1/invocations/{desk.held.invocation_id}"))["outcome"]
    assert outcome == {
        "status": "denied", "action": WRITE, "reason_code": "policy.rejected.wrong_target",
        "message": "Not performed. This is the wrong target for the action.", "retryable": False,
        "remediation": "modify_arguments",
    }  # fmt: skip


@gate("approvals.votes")
def test_seats_fill_one_by_one_and_a_vote_can_be_taken_back(acme: Tenancy) -> None:
    ask_for(acme, "expert", "client")
    desk, expert = hold(acme), Browser(person(acme, EXPERT))
    client = Browser(person(acme, Role.CLIENT_APPROVER))
    assert said(approve_with(expert, desk))["seats_left"] == ["client"]
    withdrawn = said(expert.send("POST", path_of(desk, "/decision"), {"decision": "withdraw"}))
    assert withdrawn["seats_left"] == ["expert", "client"]
    assert said(approve_with(client, desk, seat="client"))["status"] == "pending"
    assert said(approve_with(expert, desk))["status"] == "approved"


@gate("approvals.api")
@pytest.mark.parametrize(
    "changes",
    [{"decision": "maybe"}, {"seat": "king"}, {"reject_code": "no"}, {"digest": "0" * 65}, {"surprise": 1}],
    ids=["decision", "seat", "reject code", "digest", "unknown"],
)
def test_a_body_that_does_not_fit_decides_nothing(desk: Desk, expert: Browser, changes: dict[str, Any]) -> None:
    assert code(approve_with(expert, desk, **changes)) == "request.invalid"
    assert desk.now.status == "pending"


@gate("approvals.api")
def test_lists_come_in_pages_and_ask_for_what_exists(acme: Tenancy) -> None:
    desks = [hold(acme, str(number)) for number in range(3)]
    api = Api(acme)
    first = said(api.send("GET", "/v1/approvals?limit=2"))
    assert ([each["id"] for each in first["data"]], first["has_more"]) == (
        [str(desk.request.id) for desk in reversed(desks[1:])], True,
    )  # fmt: skip
    rest = said(api.send("GET", f"/v1/approvals?limit=2&cursor={first['next_cursor']}"))
    assert ([each["id"] for each in rest["data"]], rest["has_more"]) == ([str(desks[0].request.id)], False)
    for query in ("status=lost", "run=x", "limit=0", "cursor=x"):
        assert code(api.send("GET", f"/v1/approvals?{query}")) == "request.invalid"


@gate("grants.use")
def test_a_grant_is_proposed_confirmed_listed_and_revoked(acme: Tenancy, desk: Desk, expert: Browser) -> None:
    admin = Browser(person(acme, ADMIN))
    body = {
        "request_id": str(desk.request.id), "conditions": [{"pointer": "/line", "operator": "eq", "value": "x"}],
        "maximum_uses": 1, "expires_seconds": 600, "note": "nightly",
    }  # fmt: skip
    made = said(admin.send("POST", "/v1/grants", body), 201)
    assert (made["status"], made["uses"]) == ("proposed", 0)
    confirm, revoke = (f"/v1/grants/{made['id']}/{what}" for what in ("confirm", "revoke"))
    assert code(admin.send("POST", confirm, {})) == "approval.own_call"
    assert said(expert.send("POST", confirm, {"password": PASSWORD}))["status"] == "active"
    acme.propose((WRITE, {"line": "x"}))
    listed = said(Api(acme).send("GET", "/v1/grants"))["data"]
    assert [(each["status"], each["uses"]) for each in listed] == [("spent", 1)]
    assert said(admin.send("POST", revoke))["status"] == "revoked"
    assert code(admin.send("POST", revoke)) == "grant.ended"


def refused_call(acme: Tenancy, name: str = "math.evaluate") -> Any:
    with tenant_transaction(acme.id):
        type(acme.run).objects.filter(pk=acme.run.pk).update(manifest=["none.*"])
    return acme.propose((name, {"expression": "1"} if name == "math.evaluate" else {}))[0]


@gate("approvals.access")
def test_an_agent_that_was_refused_asks_once_and_an_admin_answers(acme: Tenancy, globex: Tenancy) -> None:
    api, denied = Api(acme), refused_call(acme)
    path = f"/v1/invocations/{denied.invocation_id}/access"
    asked = said(api.send("POST", path, {"note": "<b>for the report</b>"}), 201)
    assert (asked["status"], asked["reason_code"], asked["name"]) == (
        "open", "policy.manifest.not_listed", "math.evaluate",
    )  # fmt: skip
    assert said(api.send("POST", path, {"note": "again"}))["id"] == asked["id"]
    again = refused_call(acme)
    assert said(api.send("POST", f"/v1/invocations/{again.invocation_id}/access", {}))["id"] == asked["id"]
    answer = f"/v1/access-requests/{asked['id']}/answer"
    assert code(api.send("POST", answer, {"is_granted": True})) == "auth.forbidden"
    assert code(Browser(person(acme, EXPERT)).send("POST", answer, {"is_granted": True})) == "auth.forbidden"
    assert code(Browser(person(globex, ADMIN)).send("POST", answer, {"is_granted": True})) == "request.not_found"
    admin = Browser(person(acme, ADMIN))
    assert said(admin.send("POST", answer, {"is_granted": True, "answer": "done"}))["status"] == "granted"
    assert code(admin.send("POST", answer, {"is_granted": False})) == "access.decided"
    listed = said(api.send("GET", f"/v1/access-requests?run={acme.run.id}"))["data"]
    assert [(each["status"], each["answer"]) for each in listed] == [("granted", "done")]


@gate("approvals.access")
def test_only_what_was_refused_for_want_of_access_can_be_asked_for(acme: Tenancy, globex: Tenancy, desk: Desk) -> None:
    api = Api(acme)
    held = f"/v1/invocations/{desk.held.invocation_id}/access"
    assert code(api.send("POST", held, {})) == "access.not_refused"
    (run,) = acme.propose(("demo.echo", {"text": "x"}))
    assert code(api.send("POST", f"/v1/invocations/{run.invocation_id}/access", {})) == "access.not_refused"
    denied = refused_call(acme)
    path = f"/v1/invocations/{denied.invocation_id}/access"
    assert code(Api(globex).send("POST", path, {})) == "request.not_found"
    assert code(api.send("POST", path, {"note": "x" * 501})) == "request.invalid"
    assert said(Browser(person(acme, Role.DEVELOPER)).send("POST", path, {}), 201)["status"] == "open"
    assert code(Browser(person(acme, Role.TENANT_AUDITOR)).send("POST", path, {})) == "auth.forbidden"


@gate("approvals.access")
def test_a_run_asks_for_five_things_at_most(acme: Tenancy) -> None:
    names = ["math.evaluate", "system.time", "demo.echo", "demo.slow", "demo.flaky", "nobody.offers_this"]
    api, answers = Api(acme), []
    for name in names:
        denied = refused_call(acme, name)
        answers.append(api.send("POST", f"/v1/invocations/{denied.invocation_id}/access", {}).status_code)
    assert answers == [201] * 5 + [429]


def test_people_need_no_session_for_what_keys_do(acme: Tenancy) -> None:
    """The other views know keys only: a cookie is no key."""
    browser = Browser(person(acme, ADMIN))
    assert code(browser.send("GET", f"/v1/runs/{acme.run.id}")) == "auth.missing"
