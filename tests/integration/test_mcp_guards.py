"""What the database itself refuses to a tenant: classifying its servers, and making its people operators."""

from dataclasses import replace
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.db import DatabaseError

from mcpcatalog import selectors, services
from mcpcatalog.drafts import columns_of
from mcpcatalog.models import McpServer, ToolOverride
from mcpcatalog.remote import ServerConfig, Transport
from tests.factories import Tenancy
from tests.spec.requirements import gate
from toolsys import allowances, provisioning
from toolsys.domain.spec import Classification, IdempotencyClass, RiskLevel, SideEffectClass
from toolsys.domain.states import Role
from toolsys.egress import policy_for
from toolsys.models import EgressAllowance, Membership, Tenant, ToolEvent
from toolsys.problems import Problem
from toolsys.tenancy import tenant_transaction

READ = Classification(
    side_effect=SideEffectClass.NETWORK_READ, risk=RiskLevel.LOW, idempotency=IdempotencyClass.READ_ONLY
)


def server(tenancy: Tenancy, **changes: Any) -> ServerConfig:
    return replace(ServerConfig(tenancy.id, "crm", Transport.HTTP, "https://mcp.example/mcp"), **changes)


def register(config: ServerConfig, using: str = "operator") -> McpServer:
    return services.register_server(
        config, policy=policy_for(["https://mcp.example/", "https://other.example/"]), stdio_names=(),
        output_ceiling_bytes=1_048_576, using=using,
    )  # fmt: skip


def update(tenancy: Tenancy, **columns: Any) -> int:
    with tenant_transaction(tenancy.id):
        return McpServer.objects.filter(server_id="crm").update(**columns)


def epoch(tenancy: Tenancy) -> int:
    with tenant_transaction(tenancy.id):
        return Tenant.objects.get(pk=tenancy.id).authz_epoch


@gate("mcp.classified_by_operators")
@pytest.mark.parametrize(
    ("column", "value"),
    [("side_effect", "none"), ("risk", "low"), ("idempotency", "idempotent"), ("is_stateless", True),
     ("key_place", "meta"), ("required_scopes", [])],
)  # fmt: skip
def test_a_tenant_classifies_none_of_its_servers(acme: Tenancy, column: str, value: Any) -> None:
    register(server(acme, required_scopes=frozenset({"mcp.crm.use"})))
    with pytest.raises(DatabaseError, match="classified by operators"):
        update(acme, **{column: value})
    with pytest.raises(DatabaseError, match="classified by operators"), tenant_transaction(acme.id):
        McpServer.objects.create(
            tenant_id=acme.id, **columns_of(server(acme, server_id="mild", classification=READ))
        )  # fmt: skip


@gate("mcp.classified_by_operators")
def test_a_server_that_moves_leaves_its_classification_behind(acme: Tenancy) -> None:
    register(server(acme, classification=READ, is_stateless=True))
    with pytest.raises(DatabaseError, match="classified by operators"):
        update(acme, endpoint="https://other.example/mcp")
    strictest = {
        "side_effect": "external_write", "risk": "high", "idempotency": "non_idempotent", "is_stateless": False,
        "classified_at": None,
    }  # fmt: skip
    assert update(acme, timeout_seconds=60) == 1
    assert update(acme, endpoint="https://other.example/mcp", **strictest) == 1


@gate("mcp.overrides")
def test_a_tenant_writes_no_override_of_operators(acme: Tenancy) -> None:
    values = {"tenant_id": acme.id, "server_id": "crm", "remote_name": "read"}
    with pytest.raises(DatabaseError, match="classified by operators"), tenant_transaction(acme.id):
        ToolOverride.objects.create(**values, is_operators=True, risk="low")
    before = epoch(acme)
    with tenant_transaction(acme.id):
        row = ToolOverride.objects.create(**values, risk="high")
    assert epoch(acme) > before
    with pytest.raises(DatabaseError, match="classified by operators"), tenant_transaction(acme.id):
        ToolOverride.objects.filter(pk=row.pk).update(is_operators=True)


@gate("roles.platform")
def test_roles_of_the_platform_are_given_by_operators_only(acme: Tenancy) -> None:
    user = get_user_model().objects.create_user(username=f"{acme.id}-someone")
    for role in (Role.OPERATOR, Role.PLATFORM_AUDITOR):
        with pytest.raises(DatabaseError, match="given by operators"):
            provisioning.add_member(acme.id, user, role)
    member = provisioning.add_member(acme.id, user, Role.TENANT_ADMIN)
    with pytest.raises(DatabaseError, match="given by operators"), tenant_transaction(acme.id):
        Membership.objects.filter(pk=member.pk).update(role=Role.OPERATOR)
    provisioning.add_operator(acme.id, user)
    with pytest.raises(DatabaseError, match="given by operators"), tenant_transaction(acme.id):
        Membership.objects.filter(user=user, role=Role.OPERATOR).delete()
    assert provisioning.remove_operator(acme.id, user)
    assert not provisioning.remove_operator(acme.id, user)


@gate("egress.allowlist")
def test_a_host_is_reachable_for_one_tenant_from_when_it_is_written_until_it_is_withdrawn(
    acme: Tenancy, globex: Tenancy
) -> None:
    register(server(acme), using="default")

    def is_permitted() -> bool:
        state = selectors.server(acme.id, "crm", {})
        assert state is not None
        return state.config.is_permitted

    allowances.allow(globex.id, "mcp.example", user=None)
    assert not is_permitted()
    before = epoch(acme)
    row = allowances.allow(acme.id, " HTTPS://MCP.example/other?x#y", user=None, note="the CRM")
    assert (row.origin, is_permitted(), epoch(acme) > before) == ("https://mcp.example:443", True, True)
    assert allowances.allow(acme.id, "mcp.example:443", user=None).pk == row.pk
    before = epoch(acme)
    allowances.withdraw(acme.id, row.pk, user=None)
    assert (is_permitted(), epoch(acme) > before) == (False, True)
    with pytest.raises(Problem, match=r"request\.not_found"):
        allowances.withdraw(globex.id, row.pk, user=None)
    with tenant_transaction(acme.id):
        noted = list(ToolEvent.objects.filter(type__startswith="egress.").order_by("id").values_list("type", "payload"))
    origin = {"origin": "https://mcp.example:443", "by": None}
    assert noted == [("egress.allowed", origin), ("egress.withdrawn", origin)]


@gate("egress.allowlist")
@pytest.mark.parametrize(
    "text", ["", "*", "*.example", "ftp://mcp.example", "https://u:p@mcp.example", "a b", "x" * 9000]
)
def test_what_is_no_host_is_not_allowed(acme: Tenancy, text: str) -> None:
    with pytest.raises(Problem, match=r"request\.invalid"):
        allowances.allow(acme.id, text, user=None)
    with tenant_transaction(acme.id):
        assert not EgressAllowance.objects.exists()
