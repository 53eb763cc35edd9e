"""Every door to a server's row refuses the same configuration for the same reason: model, services, page, import."""

import html
import json
from typing import Any

import pytest
from django.core.exceptions import ValidationError

from config import wiring
from mcpcatalog import administration, drafts, services
from mcpcatalog.imports import Importer
from mcpcatalog.models import McpServer
from mcpcatalog.rules import rules
from mcpcatalog.validators import InvalidConfiguration
from tests.factories import Tenancy
from tests.integration.console.people import person
from tests.spec.requirements import gate
from toolsys import allowances
from toolsys.domain.states import Role
from toolsys.tenancy import tenant_transaction

GOOD = {"server_id": "crm", "transport": "http", "endpoint": "https://mcp.example/mcp", "auth_scheme": "none"}
TOKENS = {"auth_scheme": "oauth2_client", "credential_ref": "store:x"}
# What is wrong, and the column and reason that every door names. The last value: no page or file can say it.
BAD: list[tuple[dict[str, Any], tuple[str, str], bool]] = [
    ({"credential_ref": "store:x"}, ("credential_ref", "not_expected"), False),
    ({"auth_scheme": "bearer"}, ("credential_ref", "required"), True),
    ({"auth_scheme": "bearer", "credential_ref": "sk-secret"}, ("credential_ref", "grammar"), False),
    ({"auth_scheme": "header", "credential_ref": "store:x"}, ("auth_name", "grammar"), False),
    ({"auth_scheme": "header", "credential_ref": "store:x", "auth_name": "AUTHORIZATION"},
     ("auth_name", "authorization"), False),
    ({"auth_scheme": "header", "credential_ref": "store:x", "auth_name": "Host"}, ("auth_name", "reserved"), False),
    ({"auth_scheme": "env", "credential_ref": "store:x", "auth_name": "KEY"}, ("auth_scheme", "transport"), False),
    (TOKENS, ("token_endpoint", "required"), False),
    ({**TOKENS, "token_endpoint": "https://evil.example/"}, ("token_endpoint", "egress_not_allowed"), False),
    ({"endpoint": "https://evil.example/"}, ("endpoint", "egress_not_allowed"), True),
    ({"endpoint": "http://mcp.example/mcp"}, ("endpoint", "egress_not_allowed"), True),
    ({"endpoint": "https://u:p@mcp.example/"}, ("endpoint", "egress_userinfo"), True),
    ({"endpoint": "https://mcp.example/sk-live-4f9a2b7c8d3e"}, ("endpoint", "inline_secret"), True),
    # A file's key becomes a credential, a form's is refused.
    ({"endpoint": "https://mcp.example/?api_key=1"}, ("endpoint", "inline_secret"), False),
    ({"endpoint": "https://mcp.example/" + "x" * 2_100}, ("endpoint", "length"), False),
    ({"server_id": "Bad-Name"}, ("server_id", "grammar"), False),
    ({"timeout_seconds": 3_601}, ("timeout_seconds", "range"), False),
    ({"maximum_output_bytes": 2**40}, ("maximum_output_bytes", "range"), True),
    ({"mode": "fixed"}, ("fixed_tools", "required"), False),
    ({"required_scopes": ["session.write"]}, ("required_scopes", "foreign"), False),
    ({"side_effect": "external_write", "idempotency": "read_only"}, ("idempotency", "contradiction"), False),
    ({"auth_scheme": "mtls"}, ("auth_scheme", "kind"), False),
    ({"endpoint": "https://mcp.example/\0"}, ("endpoint", "kind"), False),
    ({"timeout_seconds": True}, ("timeout_seconds", "kind"), False),
]  # fmt: skip
AMBIENT = {"egress_not_allowed", "egress_userinfo"}
IDS = [f"{number}-{code[0]}-{code[1]}" for number, (_, code, _) in enumerate(BAD)]


@pytest.fixture
def reachable(acme: Tenancy) -> Tenancy:
    allowances.allow(acme.id, "mcp.example", user=None)
    return acme


def row(tenancy: Tenancy, columns: dict[str, Any]) -> McpServer:
    return McpServer(tenant_id=tenancy.id, **columns)


def named(raised: "pytest.ExceptionInfo[InvalidConfiguration]") -> set[tuple[str, str]]:
    return {(problem.field, problem.code) for problem in raised.value.problems}


@gate("mcp.one_validator")
@pytest.mark.parametrize(("changes", "expected", "_by_page"), BAD, ids=IDS)
def test_model_and_services_refuse_it(
    reachable: Tenancy, changes: dict[str, Any], expected: tuple[str, str], _by_page: bool
) -> None:
    columns = {**GOOD, **changes}
    with pytest.raises(ValidationError) as invalid, tenant_transaction(reachable.id):
        row(reachable, columns).clean()
    errors = invalid.value.error_dict
    assert expected in {(field, error.code) for field, found in errors.items() for error in found}
    with pytest.raises(InvalidConfiguration) as refused:
        administration.add_server(
            reachable.id, columns, user=None, rules=rules(), sealer=reachable.runtime.sealer
        )  # fmt: skip
    assert expected in named(refused)
    if expected[1] not in {*AMBIENT, "range"}:
        with pytest.raises(InvalidConfiguration) as refused, tenant_transaction(reachable.id):
            row(reachable, columns).save()
        assert expected in named(refused)
    config, _ = drafts.parsed(reachable.id, columns)
    if config is not None:
        with pytest.raises(InvalidConfiguration) as refused:
            services.register_server(
                config, policy=wiring.egress_policy(["https://mcp.example/"]), stdio_names=(),
                output_ceiling_bytes=1_048_576,
            )  # fmt: skip
        assert expected in named(refused)
    with tenant_transaction(reachable.id):
        assert not McpServer.objects.exists()


@gate("mcp.one_validator")
@pytest.mark.parametrize(
    ("changes", "expected"), [(changes, expected) for changes, expected, by_page in BAD if by_page],
    ids=[name for name, (_, _, by_page) in zip(IDS, BAD, strict=True) if by_page],
)  # fmt: skip
def test_page_and_import_refuse_it_in_the_same_words(
    reachable: Tenancy, changes: dict[str, Any], expected: tuple[str, str]
) -> None:
    columns = {**GOOD, **changes}
    found = rules().problems_of(reachable.id, columns, is_operator=False)
    (said,) = [problem.message for problem in found if (problem.field, problem.code) == expected]
    admin = person((reachable, Role.TENANT_ADMIN))
    given = {"mode": "discovered", "timeout_seconds": "30", "maximum_output_bytes": "65536", **columns}
    answer = admin.post("/admin/mcpcatalog/mcpserver/add/", **given)
    assert said in html.unescape(answer.content.decode())
    if expected[0] == "endpoint":
        file = json.dumps({"mcpServers": {"crm": {"url": columns["endpoint"]}}}).encode()
        (planned,) = Importer(reachable.id, None, rules(), reachable.runtime.sealer).write(file)
        assert (planned.state, said in planned.says) == ("refused", True)
    with tenant_transaction(reachable.id):
        assert not McpServer.objects.exists()


@gate("mcp.one_validator")
def test_a_setting_that_does_not_exist_is_named(reachable: Tenancy) -> None:
    with pytest.raises(InvalidConfiguration) as refused:
        administration.add_server(
            reachable.id, {**GOOD, "command": "sh", "endpoint": ""}, user=None, rules=rules(),
            sealer=reachable.runtime.sealer,
        )  # fmt: skip
    assert named(refused) == {("command", "unknown"), ("endpoint", "required")}
