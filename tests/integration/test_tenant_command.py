"""`manage.py tenant`: makes an organisation, gives and takes roles, rolls tool calling out and back."""

import re
import uuid
from io import StringIO

import pytest
from django.contrib.auth import get_user_model
from django.core.management import CommandError, call_command

from tests.factories import Tenancy
from tests.integration.test_operator_command import roles
from tests.spec.requirements import gate
from toolsys.models import Tenant
from toolsys.tenancy import OPERATOR_ALIAS


def said(*words: str) -> str:
    out = StringIO()
    call_command("tenant", *words, stdout=out)
    return out.getvalue()


def state(tenant_id: str) -> Tenant:
    return Tenant.objects.using(OPERATOR_ALIAS).get(pk=tenant_id)


@gate("roles.tenant")
def test_an_organisation_is_made_once_and_without_tool_calling(database: None) -> None:
    name = f"hooli-{uuid.uuid4().hex[:8]}"
    said("create", name, "--name", "Hooli")
    assert (state(name).name, state(name).is_tool_calling_enabled) == ("Hooli", False)
    for words in (("create", name, "--name", "Again"), ("create", "No Such Id", "--name", "x")):
        with pytest.raises(CommandError):
            said(*words)
    assert state(name).name == "Hooli"


@gate("roles.tenant")
def test_a_person_is_made_with_a_password_that_is_said_once_and_loses_the_role_again(acme: Tenancy) -> None:
    name = f"user-{uuid.uuid4().hex[:8]}"
    (password,) = re.findall(r"with the password (\S+)", said("member", acme.id, name, "tenant_admin"))
    user = get_user_model().objects.get(username=name)
    assert user.check_password(password)
    assert "password" not in said("member", acme.id, name, "expert_approver")
    assert sorted(roles(acme, user)) == ["expert_approver", "tenant_admin"]
    said("member", acme.id, name, "tenant_admin", "--end")
    assert roles(acme, user) == ["expert_approver"]
    for words in ((acme.id, name, "tenant_admin", "--end"), ("none", name, "developer"), (acme.id, name, "operator")):
        with pytest.raises(CommandError):
            said("member", *words)
    assert roles(acme, user) == ["expert_approver"]


@gate("roles.tenant")
def test_tool_calling_is_rolled_back_at_once_and_out_again(acme: Tenancy) -> None:
    before = state(acme.id).authz_epoch
    said("tool-calling", acme.id, "off")
    assert (state(acme.id).is_tool_calling_enabled, state(acme.id).authz_epoch > before) == (False, True)
    assert acme.propose(("demo.echo", {"text": "x"}))[0].reason_code == "policy.feature.disabled"
    said("tool-calling", acme.id, "on")
    assert not acme.propose(("demo.echo", {"text": "x"}))[0].is_settled
