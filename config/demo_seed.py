"""The demonstration's two tenants: people, an agent, a principal, a key, and three MCP servers for the first.

Seeding again changes nothing that exists: data and passwords stay. Passwords are made once, shown once and stored only
as Django hashes. Called by `manage.py prepare` and `manage.py demo`.
"""

import json
import os
import secrets
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Final

from django.conf import settings
from django.contrib.auth import get_user_model
from django.utils import timezone

from config import wiring
from config.datafolder import DOCS_TOKEN
from mcpcatalog import services as mcp
from mcpcatalog.firstparty.docs.contracts import CONTRACTS
from mcpcatalog.models import McpServer
from mcpcatalog.remote import AuthScheme, CatalogMode, ServerConfig, Transport
from toolsys import allowances, provisioning
from toolsys.api.mcp_revisions import STATELESS
from toolsys.domain.spec import Classification, IdempotencyClass, RiskLevel, SideEffectClass
from toolsys.domain.states import Role
from toolsys.egress import policy_for
from toolsys.models import Agent, ApiKey, Tenant
from toolsys.tenancy import OPERATOR_ALIAS, tenant_transaction

ACME: Final = "acme"
GLOBEX: Final = "globex"
AGENT: Final = "assistant"
PRINCIPAL: Final = "demo-user"
SCOPES: Final = ("demo.write",)
MCP_META: Final = "io.modelcontextprotocol/"
TOOLS: Final = ("system.*", "math.*", "demo.*", "mcp.*")
PEOPLE: Final = (
    ("acme-approver", ACME, (Role.EXPERT_APPROVER,)),
    ("acme-admin", ACME, (Role.TENANT_ADMIN,)),
    ("globex-admin", GLOBEX, (Role.TENANT_ADMIN, Role.EXPERT_APPROVER)),
)
READ: Final = Classification(
    side_effect=SideEffectClass.NETWORK_READ, risk=RiskLevel.LOW, idempotency=IdempotencyClass.READ_ONLY
)
OWN_FILES: Final = Classification(
    side_effect=SideEffectClass.WORKSPACE_WRITE, risk=RiskLevel.LOW, idempotency=IdempotencyClass.IDEMPOTENT
)


@dataclass
class Seeded:
    """What `make up` prints. A password is empty where it was made at an earlier start."""

    console_users: list[tuple[str, str]] = field(default_factory=list)
    api_key: str | None = None
    curl: str = ""


@dataclass(frozen=True)
class Actor:
    """One tenant as the demonstration plays it, with a key that is valid for an hour."""

    tenant_id: str
    api_key: str
    approver: Any
    approver_login: str


def seed_demo() -> Seeded:
    """Make what is missing. Runs in one process at a time, before anything serves."""
    for tenant_id, name in ((ACME, "Acme"), (GLOBEX, "Globex")):
        if not Tenant.objects.using(OPERATOR_ALIAS).filter(pk=tenant_id).exists():
            provisioning.create_tenant(tenant_id, name, is_tool_calling_enabled=True)
        _seed_agent(tenant_id)
    _seed_servers()
    seeded = Seeded([_person(login, tenant_id, roles) for login, tenant_id, roles in PEOPLE])
    seeded.api_key = _new_key("make-up")
    seeded.curl = curl_line(seeded.api_key)
    return seeded


def actors() -> tuple[Actor, Actor]:
    """Return both tenants with a fresh key each, for one performance."""
    users = get_user_model().objects
    return (
        Actor(ACME, _new_key("demo", ACME), users.get(username="acme-approver"), "acme-approver"),
        Actor(GLOBEX, _new_key("demo", GLOBEX), users.get(username="globex-admin"), "globex-admin"),
    )


def _seed_agent(tenant_id: str) -> None:
    with tenant_transaction(tenant_id):
        if Agent.objects.filter(name=AGENT).exists():
            return
    provisioning.save_agent(tenant_id, AGENT, TOOLS)
    provisioning.save_principal(tenant_id, PRINCIPAL, SCOPES, "Demo user")


def _seed_servers() -> None:
    numbers = settings.TOOLSYS
    _register(ServerConfig(
        tenant_id=ACME, server_id="time", transport=Transport.STDIO, endpoint="time", is_stateless=True,
        classification=READ,        command=wiring.stdio_commands().get("time"),
    ))  # fmt: skip
    if numbers.demo_mcp_url:
        _register(ServerConfig(
            tenant_id=ACME, server_id="excel", transport=Transport.HTTP, endpoint=numbers.demo_mcp_url,
            is_stateless=True, classification=OWN_FILES,
        ))  # fmt: skip
    if numbers.demo_docs_url:
        _register(ServerConfig(
            tenant_id=ACME, server_id="docs", transport=Transport.HTTP, endpoint=numbers.demo_docs_url,
            auth_scheme=AuthScheme.BEARER, credential_ref=f"env:{DOCS_TOKEN}", mode=CatalogMode.FIXED,
            fixed_tools=CONTRACTS, is_stateless=True, classification=READ,
        ))  # fmt: skip


def _register(config: ServerConfig) -> None:
    with tenant_transaction(config.tenant_id, OPERATOR_ALIAS):
        known = McpServer.objects.using(OPERATOR_ALIAS).filter(tenant_id=config.tenant_id, server_id=config.server_id)
        if known.exists():
            # Ports of the demonstration's own server may differ from start to start.
            if known.exclude(endpoint=config.endpoint).update(endpoint=config.endpoint):
                allowances.allow(config.tenant_id, config.endpoint, user=None, using=OPERATOR_ALIAS)
            return
    is_http = config.transport is Transport.HTTP
    mcp.register_server(
        config,
        policy=wiring.egress_of(config) if is_http else policy_for([]),
        stdio_names=wiring.stdio_commands(),
        output_ceiling_bytes=settings.TOOLSYS.global_output_ceiling_bytes,
        using=OPERATOR_ALIAS,
    )


def _person(login: str, tenant_id: str, roles: tuple[Role, ...]) -> tuple[str, str]:
    user, is_new = get_user_model().objects.get_or_create(username=login)
    password = secrets.token_urlsafe(12) if is_new else ""
    if is_new:
        user.set_password(password)
        user.save(update_fields=["password"])
    for role in roles:
        provisioning.add_member(tenant_id, user, role)
    return login, password


def _new_key(purpose: str, tenant_id: str = ACME) -> str:
    """Make a key, and let those of earlier starts that have expired be: they open nothing."""
    lifetime = timedelta(days=30) if purpose == "make-up" else timedelta(hours=1)
    with tenant_transaction(tenant_id):
        number = ApiKey.objects.filter(name__startswith=f"{purpose} ").count() + 1
    name = f"{purpose} {number} of {timezone.now():%Y-%m-%d %H:%M:%S.%f}"
    return provisioning.create_api_key(tenant_id, name, SCOPES, expires_at=timezone.now() + lifetime)[1]


def curl_line(key: str) -> str:
    """Return a pasteable line that is a governed call by itself: stateless MCP needs no session before it."""
    name = "math.evaluate"
    meta = {f"{MCP_META}protocolVersion": STATELESS, f"{MCP_META}clientCapabilities": {}}
    body = {
        "jsonrpc": "2.0", "id": 1, "method": "tools/call",
        "params": {"name": name, "arguments": {"expression": "6 * 7"}, "_meta": meta},
    }  # fmt: skip
    headers = (
        f"Authorization: Bearer {key}", f"Toolsys-Agent: {AGENT}", f"Toolsys-Principal: {PRINCIPAL}",
        f"MCP-Protocol-Version: {STATELESS}", "Mcp-Method: tools/call", f"Mcp-Name: {name}",
        "Content-Type: application/json",
    )  # fmt: skip
    url = f"http://127.0.0.1:{os.environ.get('PORT', '8000')}/mcp"
    return " ".join(("curl -sS", *(f"-H '{header}'" for header in headers), f"-d '{json.dumps(body)}'", f"'{url}'"))
