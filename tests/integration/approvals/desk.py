"""A desk with one held call in front of it, and people who may or may not decide it."""

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.contrib.auth import get_user_model
from django.db import connections, transaction

from approvals import policy_services, services
from tests.factories import Tenancy
from toolsys import provisioning
from toolsys.domain.calls import Disposition
from toolsys.domain.states import Role
from toolsys.models import ApiKey, ApprovalRequest
from toolsys.problems import Problem
from toolsys.tenancy import tenant_transaction

WRITE = "demo.external_write"
EXPERT, CLIENT, ADMIN = Role.EXPERT_APPROVER, Role.CLIENT_APPROVER, Role.TENANT_ADMIN
PASSWORD = "correct horse battery staple"


def person(tenancy: Tenancy, *roles: Role, name: str = "", email: str = "") -> Any:
    user = get_user_model().objects.create_user(
        username=name or f"user-{uuid.uuid4().hex[:10]}", email=email, password=PASSWORD
    )
    for role in roles:
        provisioning.add_member(tenancy.id, user, role)
    return user


@dataclass
class Desk:
    tenancy: Tenancy
    held: Disposition
    request: ApprovalRequest

    def decide(self, user: Any, **changes: Any) -> ApprovalRequest:
        given = {
            "tenant_id": self.tenancy.id, "request_id": self.request.id, "user": user, "is_approval": True, "note": "",
            "digest": self.request.digest, "is_reauthenticated": True, "sealer": self.tenancy.runtime.sealer,
        }  # fmt: skip
        return services.decide(**{**given, **changes})

    def reject(self, user: Any, **changes: Any) -> ApprovalRequest:
        return self.decide(user, **{"is_approval": False, "note": "no", **changes})

    def withdraw(self, user: Any) -> ApprovalRequest:
        return services.withdraw(tenant_id=self.tenancy.id, request_id=self.request.id, user=user)

    def refusal(self, user: Any, **changes: Any) -> str:
        """Return the code that refuses the decision. Raises: AssertionError, where nothing does."""
        try:
            self.decide(user, **changes)
        except Problem as problem:
            return problem.reason_code
        raise AssertionError("it was decided")

    @property
    def now(self) -> ApprovalRequest:
        with tenant_transaction(self.tenancy.id):
            return ApprovalRequest.objects.get(pk=self.request.pk)


def desk_of(tenancy: Tenancy, held: Disposition) -> Desk:
    with tenant_transaction(tenancy.id):
        return Desk(tenancy, held, ApprovalRequest.objects.get(invocation_id=held.invocation_id))


def hold(tenancy: Tenancy, line: str = "x", **changes: Any) -> Desk:
    (held,) = tenancy.propose((WRITE, {"line": line}), **changes)
    return desk_of(tenancy, held)


def ask_for(tenancy: Tenancy, *seats: str, name: str = "two_pairs", verdict: str = "", by: Any = None) -> Any:
    """Write the rule that asks for these seats; return who wrote it."""
    author = by or person(tenancy, ADMIN)
    verdict = verdict or f"require_{max(seats, key=lambda seat: seat == 'expert')}_approval"
    policy_services.save_rule(
        tenant_id=tenancy.id, user=author, name=name, verdict=verdict, match={"tools": [WRITE]}, seats=seats, priority=9
    )
    return author


def own_key(tenancy: Tenancy, owner: Any) -> None:
    with tenant_transaction(tenancy.id):
        ApiKey.objects.filter(pk=tenancy.key.pk).update(owner=owner)


def seats_of(desk: Desk) -> Sequence[str]:
    return [vote["seat"] for vote in desk.now.votes]


def as_owner(tenancy: Tenancy, statement: str, *parameters: Any) -> None:
    """Do what only somebody with the database in their hands can do, in one tenant."""
    with transaction.atomic(using="owner"), connections["owner"].cursor() as cursor:
        cursor.execute("SELECT set_config('toolsys.tenant_id', %s, true)", [tenancy.id])
        cursor.execute(statement, parameters)
