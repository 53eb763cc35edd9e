"""Every page in every window: nothing too wide, nothing that axe objects to, no script or policy error. `make pages`.

Leaves a picture of each under `.data/screenshots` for people to look at.
"""

from collections.abc import Iterator

import pytest

from approvals import grants, notify, policy_services
from approvals.outbox_models import EndpointKind
from approvals.ruleset import SwitchKind
from config import wiring
from tests.e2e.chromium import LOOKS, Look
from tests.e2e.visitor import Arrive, member
from tests.factories import Tenancy
from tests.integration.console.conftest import hold
from tests.integration.console.people import AGENTS, INBOX, INDEX, INVOCATIONS, KEYS, RUNS, page_of
from tests.integration.console.test_grant_pages import ACCESS, GRANTS
from tests.integration.console.test_outbox_pages import DELIVERIES, ENDPOINTS
from tests.integration.console.test_policy_pages import FORESEE, PERMISSIONS, PROFILES, REPLAY, RULES, SWITCHES
from tests.spec.requirements import gate
from toolsys.composition import composed
from toolsys.domain.spec import SideEffectClass
from toolsys.domain.states import PolicyVerdict, Role
from toolsys.ports import Runtime

pytestmark = pytest.mark.long
LONG_LINE = "pay \u202eevil\u200b " + "an invoice of considerable length, " * 20 + "x" * 300
CONDITION = {"pointer": "/line", "operator": "contains", "value": "invoice" * 20}


def pages(acme: Tenancy, worker: Runtime, user: object) -> Iterator[tuple[str, str]]:
    """Make something to see on every page; yield (name, path)."""
    policy_services.set_profile(
        tenant_id=acme.id, name="default", mildest={SideEffectClass.EXTERNAL_WRITE: PolicyVerdict.OBSERVE}
    )
    match = {"tools": ["demo.external_*"], "arguments": [CONDITION], "hours": {"is_outside": True, "days": [1]}}
    for verdict in ("block", "require_expert_approval"):
        rule = policy_services.save_rule(
            tenant_id=acme.id, user=user, name="no-invoices-of-considerable-length", verdict=verdict, note="because",
            match=match | ({"agents": ["assistant"]} if verdict == "block" else {}), priority=5,
        )  # fmt: skip
    policy_services.throw_switch(
        tenant_id=acme.id, kind=SwitchKind.TOOL, target="mcp.bank.transfer", is_off=True, user=user, note="it leaks"
    )
    policy_services.permit_tools(tenant_id=acme.id, tools="*", is_enabled=True)
    held = hold(acme, LONG_LINE)
    endpoint, _ = notify.create_endpoint(
        tenant_id=acme.id, user=user, name="ours", kind=EndpointKind.WEBHOOK,
        target="https://hooks.example.com/" + "x" * 90, types=["approval.requested"],
        sealer=composed().runtime.sealer, policy_for=wiring.webhook_policy,
    )  # fmt: skip
    sent = notify.send_test(tenant_id=acme.id, endpoint_id=endpoint.pk)
    grant = grants.propose_grant(
        tenant_id=acme.id, user=user, request_id=held.request.pk, maximum_uses=3, expires_seconds=3_600, note="monthly",
        conditions=[{"pointer": "/line", "operator": "prefix", "value": "pay"}],
    )  # fmt: skip
    (done,) = acme.propose(("demo.echo", {"text": LONG_LINE}))
    acme.work(worker, done)
    call = page_of(INVOCATIONS, done.invocation_id)
    yield from (("start", INDEX), ("invocations", INVOCATIONS), ("runs", RUNS), ("agents", AGENTS), ("keys", KEYS))
    yield from (("inbox", INBOX), ("inbox others", f"{INBOX}?tab=others"), ("decision", held.page))
    yield from (("invocation", call), ("explanation", call.replace("/change/", "/explain/")))
    yield from (("rules", RULES), ("rule", page_of(RULES, rule.rule_id)), ("new rule", f"{RULES}add/"))
    yield from (("replay", REPLAY), ("foresee", FORESEE), ("permissions", PERMISSIONS), ("switches", SWITCHES))
    yield from (("profiles", PROFILES), ("endpoints", ENDPOINTS), ("endpoint", page_of(ENDPOINTS, endpoint.pk)))
    yield from (("deliveries", DELIVERIES), ("delivery", page_of(DELIVERIES, sent.pk)), ("access", ACCESS))
    yield from (("grants", GRANTS), ("grant", page_of(GRANTS, grant.pk)))
    yield ("grant new", f"{GRANTS}add/?request={held.request.pk}")


@gate("console.windows")
@pytest.mark.parametrize("look", LOOKS, ids=lambda look: look.name)
def test_every_page_fits_and_is_accessible(acme: Tenancy, worker: Runtime, visit: Arrive, look: Look) -> None:
    user = member((acme, Role.TENANT_ADMIN), (acme, Role.EXPERT_APPROVER))
    visitor = visit(user, look)
    found: dict[str, list[str]] = {}
    for name, path in pages(acme, worker, user):
        assert visitor.open(path) == 200, path
        visitor.shot(name)
        found[name] = [*visitor.overflow(), *(visitor.axe() if look.has_scripts else [])]
    faults = [f"{name}: {fault}" for name, listed in found.items() for fault in listed]
    assert faults == [], "\n".join(faults)
