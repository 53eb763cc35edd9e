"""`manage.py operator`: gives the role, takes it away, and refuses who is unknown."""

from io import StringIO
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from tests.factories import Tenancy
from tests.integration.console.people import person
from tests.spec.requirements import gate
from toolsys.models import Membership
from toolsys.tenancy import tenant_transaction


def roles(tenancy: Tenancy, user: Any) -> list[str]:
    with tenant_transaction(tenancy.id):
        return list(Membership.objects.filter(user=user).values_list("role", flat=True))


@gate("roles.platform")
def test_the_role_is_given_and_taken_away(acme: Tenancy) -> None:
    user = person(signed_in=False).user
    call_command("operator", user.username, tenant=acme.id, stdout=StringIO())
    call_command("operator", user.username, tenant=acme.id, stdout=StringIO())
    assert roles(acme, user) == ["operator"]
    call_command("operator", user.username, tenant=acme.id, end=True, stdout=StringIO())
    assert roles(acme, user) == []
    for name, tenant_id, end in (
        ("nobody", acme.id, False),
        (user.username, "none", False),
        (user.username, acme.id, True),
    ):
        with pytest.raises(CommandError):
            call_command("operator", name, tenant=tenant_id, end=end, stdout=StringIO())
