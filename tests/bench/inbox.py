"""How long the inbox takes with 5,000 open requests: the page as a person gets it, session and all, in this process.

Run by hand (`make bench-inbox`): prints the median and the slowest of the tabs, and how many queries each asked.
"""

import statistics
import sys
import time
import uuid
from datetime import timedelta
from typing import Any

from tests import servers  # noqa: F401 - starts the suite's own PostgreSQL before Django's settings are read

OPEN = 5_000
ROUNDS = 15
RISKS = ("low", "medium", "high")
TARGET_MILLISECONDS = 300.0


def main() -> int:
    import django

    django.setup()
    from django.db import connections
    from django.test.utils import CaptureQueriesContext, setup_test_environment

    from tests.factories import make_tenancy
    from tests.integration.console.people import INBOX, person
    from toolsys.domain.states import Role

    setup_test_environment()
    tenancy = make_tenancy("bench")
    _fill(tenancy)
    approver = person((tenancy, Role.EXPERT_APPROVER))
    worst = 0.0
    for tab in ("mine", "others", "decided", "expired"):
        path = f"{INBOX}?tab={tab}"
        approver.text(path)
        took = []
        for _ in range(ROUNDS):
            began = time.perf_counter()
            approver.text(path)
            took.append((time.perf_counter() - began) * 1000)
        with CaptureQueriesContext(connections["default"]) as queries:
            approver.text(path)
        worst = max(worst, statistics.median(took))
        print(f"{tab:8} median {statistics.median(took):6.1f} ms, slowest {max(took):6.1f} ms, {len(queries)} queries")
    print(f"{OPEN} open requests; target {TARGET_MILLISECONDS:.0f} ms")
    connections.close_all()
    return int(worst > TARGET_MILLISECONDS)


def _fill(tenancy: Any) -> None:
    """Copy one held call 5,000 times: the pipeline would take minutes for what only has to be there."""
    from tests.integration.console.conftest import hold
    from toolsys.models import ApprovalRequest, Invocation
    from toolsys.tenancy import tenant_transaction

    held = hold(tenancy)
    with tenant_transaction(tenancy.id):
        call = Invocation.objects.get(pk=held.request.invocation_id)
        calls, requests = [], []
        for number in range(OPEN - 1):
            values = {field.attname: getattr(call, field.attname) for field in call._meta.local_fields}
            values |= {"id": uuid.uuid4(), "idempotency_key": f"{number:064x}", "call_id": f"bench-{number}"}
            values["risk"] = RISKS[number % len(RISKS)]
            calls.append(Invocation(**values))
            asked = {field.attname: getattr(held.request, field.attname) for field in held.request._meta.local_fields}
            requests.append(ApprovalRequest(**asked | {
                "id": uuid.uuid4(), "invocation_id": values["id"],
                "expires_at": held.request.expires_at + timedelta(seconds=number / 10),
            }))  # fmt: skip
        Invocation.objects.bulk_create(calls, batch_size=500)
        ApprovalRequest.objects.bulk_create(requests, batch_size=500)


if __name__ == "__main__":
    sys.exit(main())
