"""Hard gate 3 over the real store and a real destination: what is committed when the first byte arrives there."""

from typing import Any

import pytest
from django.db import connections

from config.management.commands.demo_effects import Handler
from tests.effects import EffectServer
from tests.factories import Tenancy, approve
from tests.spec.requirements import gate
from tests.spec.test_hard_gates import everything_built
from toolsys.domain.spec import IdempotencyClass
from toolsys.models import Invocation
from toolsys.ports import Runtime
from toolsys.tenancy import tenant_transaction


@gate("gate.3")
def test_the_watermark_of_every_such_builtin_is_committed_before_its_first_request_arrives(
    acme: Tenancy, worker: Runtime, monkeypatch: pytest.MonkeyPatch
) -> None:
    risky = {IdempotencyClass.NON_IDEMPOTENT, IdempotencyClass.CONDITIONALLY_IDEMPOTENT}
    named = [tool.spec.name for tool in everything_built() if tool.spec.idempotency in risky]
    assert named == ["demo.external_write"], "a new one is watched here, too"
    marked: list[bool] = []
    append = Handler.do_POST

    def arrived(handler: Any) -> None:
        try:
            with tenant_transaction(acme.id):
                marked.append(Invocation.objects.filter(effect_sent_at__isnull=False, status="running").exists())
        finally:
            connections.close_all()
        append(handler)

    monkeypatch.setattr(Handler, "do_POST", arrived)
    with EffectServer() as effects:
        (held,) = acme.propose(("demo.external_write", {"line": "x"}))
        approve(acme, held)
        (done,) = acme.work(effects.installed_in(worker), held)
        assert (marked, effects.lines(), done.outcome_status) == ([True], ["x"], "succeeded")
