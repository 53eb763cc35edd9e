"""Hard gate 3 over the real store: what is committed when a tool begins."""

import asyncio
from typing import Any

import pytest

from tests.factories import Tenancy, approve
from tests.spec.requirements import gate
from toolsys import selectors
from toolsys.domain.results import ToolResult
from toolsys.domain.spec import IdempotencyClass
from toolsys.models import Invocation
from toolsys.ports import Runtime
from toolsys.tenancy import tenant_transaction


@gate("gate.3")
def test_the_watermark_of_every_such_builtin_is_committed_before_it_runs(
    acme: Tenancy, worker: Runtime, monkeypatch: pytest.MonkeyPatch
) -> None:
    from toolsys.builtin.demo import DemoExternalWrite

    seen: list[bool] = []

    async def execute(self: DemoExternalWrite, arguments: Any, context: Any) -> ToolResult:
        def committed() -> bool:
            with tenant_transaction(acme.id):
                return Invocation.objects.filter(pk=context.invocation_id, effect_sent_at__isnull=False).exists()

        seen.append(await asyncio.to_thread(committed))
        return ToolResult(ok=True)

    monkeypatch.setattr(DemoExternalWrite, "execute", execute)
    risky = {IdempotencyClass.NON_IDEMPOTENT, IdempotencyClass.CONDITIONALLY_IDEMPOTENT}
    pinned = selectors.read_pin(acme.id, acme.session.id)
    assert [name for name, found in pinned.items() if found["idempotency"] in risky] == ["demo.external_write"]
    (held,) = acme.propose(("demo.external_write", {"line": "x"}))
    approve(acme, held)
    acme.work(worker, held)
    assert seen == [True]
