"""Who gets into the console, in which organisation, and how soon they are out again."""

import re

import pytest
from django.http import HttpResponse
from django.test import Client

from tests.factories import Tenancy
from tests.integration.console.people import (
    AGENTS,
    CHOOSE,
    INDEX,
    INVOCATIONS,
    LOGIN,
    PASSWORD,
    Person,
    page_of,
    person,
)
from toolsys.domain.states import Role
from toolsys.models import Agent, Membership
from toolsys.tenancy import tenant_transaction


def remove(who: Person, tenancy: Tenancy) -> None:
    with tenant_transaction(tenancy.id):
        Membership.objects.filter(user=who.user).delete()


def sign_in(who: Person, password: str = PASSWORD, target: str = INDEX) -> str:
    """Return where the login leads, or the page that refuses it."""
    response = who.post(f"{LOGIN}?next={target}", username=who.user.username, password=password)
    return response.headers["Location"] if response.status_code == 302 else response.content.decode()


def test_a_member_signs_in_and_sees_their_organisation_on_every_page(acme: Tenancy) -> None:
    member = person((acme, Role.DEVELOPER), signed_in=False, password=PASSWORD)
    assert member.get(INVOCATIONS).headers["Location"] == f"{LOGIN}?next={INVOCATIONS}"
    assert sign_in(member, target=INVOCATIONS) == INVOCATIONS
    for path in (INDEX, INVOCATIONS):
        assert f">{acme.name}</span>" in member.text(path)


def test_who_belongs_nowhere_is_refused_in_the_words_of_a_wrong_password(acme: Tenancy) -> None:
    nobody = person(signed_in=False, password=PASSWORD, is_staff=True, is_superuser=True)
    member = person((acme, Role.DEVELOPER), signed_in=False, password=PASSWORD)
    words = "Please enter a correct username and password"
    assert words in sign_in(nobody)
    assert words in sign_in(member, "wrong")
    assert nobody.get(INDEX).status_code == 302


def test_a_superuser_has_no_rights_beyond_their_roles(acme: Tenancy) -> None:
    root = person((acme, Role.DEVELOPER), is_staff=True, is_superuser=True)
    assert root.get("/admin/toolsys/agent/").status_code == 403


def test_signing_out_ends_the_access(acme: Tenancy) -> None:
    member = person((acme, Role.DEVELOPER))
    assert member.get(INDEX).status_code == 200
    assert member.post("/admin/logout/").status_code == 200
    assert member.get(INDEX).headers["Location"].startswith(LOGIN)


def test_a_removed_member_loses_access_at_once(acme: Tenancy) -> None:
    member = person((acme, Role.TENANT_ADMIN))
    assert member.get(INVOCATIONS).status_code == 200
    remove(member, acme)
    assert member.get(INVOCATIONS).status_code == 302
    refused = member.post("/admin/toolsys/agent/add/", name="late", enabled_tools="*", profile="default")
    assert refused.status_code == 302
    with tenant_transaction(acme.id):
        assert not Agent.objects.filter(name="late").exists()


def test_a_role_that_was_taken_away_no_longer_counts(acme: Tenancy) -> None:
    member = person((acme, Role.TENANT_ADMIN), (acme, Role.DEVELOPER))
    assert member.get("/admin/toolsys/agent/").status_code == 200
    with tenant_transaction(acme.id):
        Membership.objects.filter(user=member.user, role=Role.TENANT_ADMIN).delete()
    assert member.get("/admin/toolsys/agent/").status_code == 403
    assert member.get(INVOCATIONS).status_code == 200


def test_who_belongs_to_several_chooses_and_switches_by_post_only(acme: Tenancy, globex: Tenancy) -> None:
    both = person((acme, Role.DEVELOPER), (globex, Role.TENANT_ADMIN), signed_in=False, password=PASSWORD)
    assert sign_in(both, target=INVOCATIONS) == INVOCATIONS
    answer = both.browser.get(INVOCATIONS, follow=True)
    assert answer.redirect_chain[-1][0].startswith(CHOOSE)
    page = answer.content.decode()
    assert f"<strong>{acme.name}</strong>" in page
    assert f"<strong>{globex.name}</strong>" in page
    assert both.post(CHOOSE, tenant=acme.id, next=INVOCATIONS).headers["Location"] == INVOCATIONS
    assert f">{acme.name}</span>" in both.text(INDEX)
    both.get(f"{CHOOSE}?tenant={globex.id}")
    assert f">{acme.name}</span>" in both.text(INDEX)
    both.post(CHOOSE, tenant=globex.id)
    assert f">{globex.name}</span>" in both.text(INDEX)


@pytest.mark.parametrize("target", ["https://evil.example/", "//evil.example/", CHOOSE, "javascript:alert(1)"])
def test_choosing_leads_nowhere_else(acme: Tenancy, globex: Tenancy, target: str) -> None:
    both = person((acme, Role.DEVELOPER), (globex, Role.DEVELOPER))
    assert both.post(CHOOSE, tenant=acme.id, next=target).headers["Location"] == INDEX


def test_nobody_chooses_an_organisation_of_others(acme: Tenancy, globex: Tenancy, initech: Tenancy) -> None:
    both = person((acme, Role.DEVELOPER), (globex, Role.DEVELOPER))
    both.post(CHOOSE, tenant=initech.id)
    assert both.get(INDEX).status_code == 302
    member = person((acme, Role.DEVELOPER))
    member.post(CHOOSE, tenant=globex.id)
    assert f">{acme.name}</span>" in member.text(INDEX)


def test_a_form_left_open_in_another_tab_does_not_follow_a_switch(acme: Tenancy, globex: Tenancy) -> None:
    both = person((acme, Role.TENANT_ADMIN), (globex, Role.TENANT_ADMIN), signed_in=False)
    both.browser = Client(enforce_csrf_checks=True)
    both.browser.force_login(both.user)
    token = form_token(both.get(CHOOSE))
    both.post(CHOOSE, tenant=acme.id, csrfmiddlewaretoken=token)
    left_open = form_token(both.get(f"{AGENTS}add/"))
    form = {"name": "mine", "enabled_tools": "*", "profile": "x", "is_enabled": "on"}
    token = form_token(both.get(CHOOSE))
    both.post(CHOOSE, tenant=globex.id, csrfmiddlewaretoken=token)
    answer = both.post(f"{AGENTS}add/", **form, csrfmiddlewaretoken=left_open)
    assert answer.status_code == 403
    assert "Nothing was changed." in answer.content.decode()
    for tenancy in (acme, globex):
        with tenant_transaction(tenancy.id):
            assert not Agent.objects.filter(name="mine").exists()
    fresh = form_token(both.get(f"{AGENTS}add/"))
    assert both.post(f"{AGENTS}add/", **form, csrfmiddlewaretoken=fresh).status_code == 302


def form_token(page: HttpResponse) -> str:
    found = re.search(r'name="csrfmiddlewaretoken" value="(\w+)"', page.content.decode())
    assert found is not None
    return found.group(1)


def test_losing_one_organisation_does_not_move_an_open_form_to_another(acme: Tenancy, globex: Tenancy) -> None:
    both = person((acme, Role.TENANT_ADMIN), (globex, Role.TENANT_ADMIN))
    both.post(CHOOSE, tenant=acme.id)
    assert both.get("/admin/toolsys/agent/add/").status_code == 200
    remove(both, acme)
    assert both.post("/admin/toolsys/agent/add/", name="moved", enabled_tools="*", profile="x").status_code == 302
    with tenant_transaction(globex.id):
        assert not Agent.objects.filter(name="moved").exists()
    assert f">{globex.name}</span>" in both.text(INDEX)


def test_what_belongs_to_another_tenant_does_not_exist(acme: Tenancy, globex: Tenancy) -> None:
    (foreign,) = globex.propose(("demo.external_write", {"line": "x"}))
    member = person((acme, Role.TENANT_ADMIN), (acme, Role.EXPERT_APPROVER))
    for path in (
        page_of(INVOCATIONS, foreign.invocation_id),
        page_of(INVOCATIONS, "nonsense"),
        page_of("/admin/toolsys/approvalrequest/", foreign.invocation_id),
    ):
        assert member.get(path).status_code == 404
    assert member.get(page_of("/admin/toolsys/run/", globex.run.id)).status_code == 302
    assert "0 invocations" in member.text(f"{INVOCATIONS}?q={foreign.invocation_id}")
