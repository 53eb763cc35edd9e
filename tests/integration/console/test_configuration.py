"""Agents, principals and keys: written by tenant admins through services, each name once, a key shown once."""

import re
from typing import Any

import pytest
from django.test import Client
from django.utils.formats import date_format

from tests.factories import Tenancy
from tests.integration.console.people import AGENTS, KEYS, PRINCIPALS, Person, page_of, person
from tests.spec.requirements import gate
from toolsys import provisioning
from toolsys.domain.states import Role
from toolsys.models import Agent, ApiKey, Principal, Tenant
from toolsys.problems import Problem
from toolsys.tenancy import tenant_transaction

pytestmark = pytest.mark.slow

KEY = re.compile(r"tsk_[0-9a-z]{8}_[A-Za-z0-9_-]{43}")


@pytest.fixture
def admin(acme: Tenancy) -> Person:
    return person((acme, Role.TENANT_ADMIN))


def epoch(tenancy: Tenancy) -> int:
    with tenant_transaction(tenancy.id):
        return Tenant.objects.get(pk=tenancy.id).authz_epoch


def new_key(admin: Person, name: str = "ci", scopes: str = "demo.write") -> Any:
    return admin.post(f"{KEYS}add/", name=name, scopes=scopes, expires_at_0="", expires_at_1="")


def test_an_agent_is_added_and_changed_under_its_name(acme: Tenancy, admin: Person) -> None:
    given = {"enabled_tools": " system.*\r\n\r\nmath.*\nmath.*", "profile": "default"}
    assert admin.post(f"{AGENTS}add/", name="clerk", is_enabled="on", **given).status_code == 302
    with tenant_transaction(acme.id):
        clerk = Agent.objects.get(name="clerk")
    assert (clerk.enabled_tools, clerk.is_enabled) == (["system.*", "math.*"], True)
    before = epoch(acme)
    assert admin.post(page_of(AGENTS, clerk.pk), name="renamed", **given).status_code == 302
    with tenant_transaction(acme.id):
        clerk.refresh_from_db()
        assert not Agent.objects.filter(name="renamed").exists()
    assert (clerk.name, clerk.is_enabled) == ("clerk", False)
    assert epoch(acme) > before


@gate("policy.names")
def test_a_name_that_only_looks_like_a_tool_s_enables_nothing_silently(acme: Tenancy, admin: Person) -> None:
    for written in (
        "demo.ech\N{CYRILLIC SMALL LETTER O}",
        "demo echo",
        "demo/echo",
        "demo.echo\u200b",
        "demo.e\u0301*",
    ):
        answer = admin.post(f"{AGENTS}add/", name="clerk", enabled_tools=f"math.*\n{written}", profile="default")
        assert (answer.status_code, "tool names are of a-z" in answer.content.decode()) == (200, True)
        with pytest.raises(Problem, match=r"request\.invalid") as problem:
            provisioning.save_agent(acme.id, "clerk", ["math.*", written])
        assert [error.pointer for error in problem.value.errors] == ["/enabled_tools/1"]
    with tenant_transaction(acme.id):
        assert not Agent.objects.filter(name="clerk").exists()


@gate("policy.names")
def test_capitals_of_a_glob_enable_what_they_mean(acme: Tenancy, admin: Person) -> None:
    assert admin.post(f"{AGENTS}add/", name="clerk", enabled_tools="Demo.ECHO\nMath.*\nmath.*", profile="default")
    with tenant_transaction(acme.id):
        assert Agent.objects.get(name="clerk").enabled_tools == ["demo.echo", "math.*"]
    assert provisioning.save_agent(acme.id, "clerk", [" Demo.*", "demo.*"]).enabled_tools == ["demo.*"]


def test_a_name_that_is_taken_overwrites_nothing(acme: Tenancy, admin: Person) -> None:
    answer = admin.post(f"{AGENTS}add/", name=acme.agent.name, enabled_tools="none.*", profile="default")
    assert answer.status_code == 200
    assert "already exists" in answer.content.decode()
    answer = admin.post(f"{PRINCIPALS}add/", external_id=acme.principal.external_id, scopes="", display_name="")
    assert answer.status_code == 200
    with tenant_transaction(acme.id):
        assert Agent.objects.get(pk=acme.agent.pk).enabled_tools == ["*"]
        assert Principal.objects.get(pk=acme.principal.pk).scopes == acme.principal.scopes


def test_the_same_name_in_another_tenant_is_free(acme: Tenancy, globex: Tenancy, admin: Person) -> None:
    with tenant_transaction(globex.id):
        Agent.objects.create(tenant_id=globex.id, name="shared", enabled_tools=[])
    assert admin.post(f"{AGENTS}add/", name="shared", enabled_tools="a.*", profile="default").status_code == 302
    with tenant_transaction(globex.id):
        assert Agent.objects.get(name="shared").enabled_tools == []


def test_a_key_is_shown_once_kept_nowhere_and_works(acme: Tenancy, admin: Person) -> None:
    answer = new_key(admin)
    (key,) = set(KEY.findall(answer.content.decode()))
    assert "no-store" in answer.headers["Cache-Control"]
    assert key not in str(answer.cookies)
    for path in (KEYS, "/admin/"):
        assert KEY.search(admin.text(path)) is None
    with tenant_transaction(acme.id):
        row = ApiKey.objects.get(name="ci")
    assert (row.owner, row.scopes) == (admin.user, ["demo.write"])
    header = {"authorization": f"Bearer {key}"}
    assert Client().get(f"/v1/runs/{acme.run.pk}", headers=header).status_code == 200


def test_a_revoked_key_opens_nothing(acme: Tenancy, admin: Person) -> None:
    (key,) = set(KEY.findall(new_key(admin).content.decode()))
    with tenant_transaction(acme.id):
        row = ApiKey.objects.get(name="ci")
    before = epoch(acme)
    assert admin.post(KEYS, action="revoke", _selected_action=str(row.pk)).status_code == 302
    assert epoch(acme) > before
    header = {"authorization": f"Bearer {key}"}
    assert Client().get(f"/v1/runs/{acme.run.pk}", headers=header).status_code == 401
    with tenant_transaction(acme.id):
        row.refresh_from_db()
    assert row.revoked_at is not None
    assert date_format(row.revoked_at, "Y-m-d H:i:s") in admin.text(KEYS)


def test_a_key_is_neither_changed_nor_deleted(acme: Tenancy, admin: Person) -> None:
    path = page_of(KEYS, acme.key.pk)
    assert admin.post(path, name="other", scopes="more").status_code == 403
    assert admin.get(f"{KEYS}{acme.key.pk}/delete/").status_code == 403
    with tenant_transaction(acme.id):
        assert ApiKey.objects.get(pk=acme.key.pk).name == acme.key.name


def test_what_belongs_to_another_tenant_cannot_be_changed(globex: Tenancy, admin: Person) -> None:
    answer = admin.post(page_of(AGENTS, globex.agent.pk), enabled_tools="x.*", profile="x")
    assert answer.status_code == 302
    admin.post(KEYS, action="revoke", _selected_action=str(globex.key.pk))
    with tenant_transaction(globex.id):
        assert Agent.objects.get(pk=globex.agent.pk).enabled_tools == ["*"]
        assert ApiKey.objects.get(pk=globex.key.pk).revoked_at is None
