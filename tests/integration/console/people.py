"""People of tenants in front of the console, each with a browser of their own."""

import uuid
from dataclasses import dataclass, field
from typing import Any

from django.contrib.auth import get_user_model
from django.http import HttpResponse
from django.test import Client

from tests.factories import Tenancy
from toolsys import provisioning
from toolsys.domain.states import Role

INDEX, LOGIN, CHOOSE = "/admin/", "/admin/login/", "/admin/organisation/"
INVOCATIONS, RUNS, INBOX = "/admin/toolsys/invocation/", "/admin/toolsys/run/", "/admin/toolsys/approvalrequest/"
AGENTS, PRINCIPALS, KEYS = "/admin/toolsys/agent/", "/admin/toolsys/principal/", "/admin/toolsys/apikey/"
PASSWORD = "correct horse battery staple"


@dataclass
class Person:
    """A user, signed in where `signed_in` was asked for."""

    user: Any
    browser: Client = field(default_factory=Client)

    def get(self, path: str) -> HttpResponse:
        response: Any = self.browser.get(path)
        return response  # type: ignore[no-any-return]

    def post(self, path: str, **values: Any) -> HttpResponse:
        response: Any = self.browser.post(path, values)
        return response  # type: ignore[no-any-return]

    def text(self, path: str) -> str:
        response = self.get(path)
        assert response.status_code == 200, f"{path}: {response.status_code}"
        return response.content.decode()


def person(*memberships: tuple[Tenancy, Role], signed_in: bool = True, **attributes: Any) -> Person:
    user = get_user_model().objects.create_user(
        **{"username": f"user-{uuid.uuid4().hex[:10]}", "password": PASSWORD, **attributes}
    )
    for tenancy, role in memberships:
        give(tenancy, user, role)
    found = Person(user)
    if signed_in:
        found.browser.force_login(user)
    return found


def give(tenancy: Tenancy, user: Any, role: Role) -> None:
    """Tenant admins give the roles of their tenant, operators those of the platform."""
    is_of_platform = role in {Role.OPERATOR, Role.PLATFORM_AUDITOR}
    add = provisioning.add_operator if is_of_platform else provisioning.add_member
    add(tenancy.id, user, role)


def page_of(kind: str, identifier: Any) -> str:
    return f"{kind}{identifier}/change/"
