"""A web process without the operators' connection has no operators: they are told so, instead of failing at a write."""

from types import SimpleNamespace
from typing import Any, cast

import pytest
from django.conf import settings
from django.http import HttpRequest

from toolsys.console import has_role
from toolsys.domain.states import Role


def asking(*roles: Role) -> HttpRequest:
    return cast(HttpRequest, SimpleNamespace(console=SimpleNamespace(roles=frozenset(roles))))


@pytest.mark.parametrize(("is_connected", "is_operator"), [(True, True), (False, False)])
def test_an_operator_is_one_where_the_process_can_write_as_one(
    is_connected: bool, is_operator: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    known: dict[str, Any] = {"default": {}, "operator": {}} if is_connected else {"default": {}}
    monkeypatch.setattr(settings, "DATABASES", known)
    assert has_role(asking(Role.OPERATOR), Role.OPERATOR) is is_operator
    assert has_role(asking(Role.OPERATOR, Role.TENANT_ADMIN), Role.OPERATOR, Role.TENANT_ADMIN)
    assert not has_role(asking(), Role.OPERATOR)
