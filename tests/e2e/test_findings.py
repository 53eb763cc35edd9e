"""An operator finds out about an uncertain call and records it: refused, then accepted, in every window."""

import pytest
from django.db import connections

from tests.e2e.chromium import Look
from tests.e2e.test_servers import WINDOWS, sent
from tests.e2e.visitor import Arrive, Visitor, member
from tests.factories import Tenancy
from tests.integration.console.furnished import make_uncertain
from tests.spec.requirements import gate
from toolsys.domain.states import Role
from toolsys.ports import Runtime

pytestmark = pytest.mark.slow

QUEUE = "/admin/toolsys/invocation/uncertain/"


def sound(visitor: Visitor, name: str) -> None:
    assert visitor.overflow() == [], name
    assert visitor.axe() == [], name
    visitor.shot(f"finding {name}")


@gate("console.windows")
@pytest.mark.parametrize("look", WINDOWS)
def test_a_finding_is_refused_without_its_proof_and_then_recorded(
    acme: Tenancy, visit: Arrive, worker: Runtime, look: Look
) -> None:
    make_uncertain(acme, worker)
    connections.close_all()
    operator = visit(member((acme, Role.OPERATOR)), look, QUEUE)
    sound(operator, "queue")
    with operator.page.expect_navigation():
        operator.page.get_by_role("link", name="Record a finding").click()
    sound(operator, "form")
    operator.page.get_by_label("it did not happen").check()
    operator.page.get_by_label("Evidence").fill("The ledger of the bank has no line for it.")
    sent(operator, "Record the finding")
    assert "deadlines do not suffice" in operator.text()
    sound(operator, "refused")
    operator.page.get_by_label("its process is gone").check()
    sent(operator, "Record the finding")
    assert "Recorded for demo.external_write" in operator.text()
    sound(operator, "recorded")
