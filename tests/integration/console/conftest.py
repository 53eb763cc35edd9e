"""Held calls, and who may look at them."""

from dataclasses import dataclass

import pytest

from tests.factories import Tenancy
from tests.integration.console.people import INBOX, Person, page_of, person
from toolsys import queue
from toolsys.domain.calls import Disposition
from toolsys.domain.states import Role
from toolsys.models import ApprovalRequest
from toolsys.tenancy import tenant_transaction


@dataclass
class HeldCall:
    tenancy: Tenancy
    disposition: Disposition
    request: ApprovalRequest

    @property
    def page(self) -> str:
        return page_of(INBOX, self.request.pk)

    @property
    def ring(self) -> str:
        """The job that a decision puts on the queue."""
        return queue.bell_id("call", self.tenancy.id, self.request.invocation_id, 0)

    def now(self) -> ApprovalRequest:
        with tenant_transaction(self.tenancy.id):
            return ApprovalRequest.objects.get(pk=self.request.pk)

    def change(self, **values: object) -> None:
        with tenant_transaction(self.tenancy.id):
            ApprovalRequest.objects.filter(pk=self.request.pk).update(**values)


def hold(tenancy: Tenancy, line: str = "pay the invoice") -> HeldCall:
    (disposition,) = tenancy.propose(("demo.external_write", {"line": line}))
    with tenant_transaction(tenancy.id):
        request = ApprovalRequest.objects.get(invocation_id=disposition.invocation_id)
    return HeldCall(tenancy, disposition, request)


@pytest.fixture
def held(acme: Tenancy) -> HeldCall:
    return hold(acme)


@pytest.fixture
def approver(acme: Tenancy) -> Person:
    return person((acme, Role.EXPERT_APPROVER))
