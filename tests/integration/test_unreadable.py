"""What was stored of a call and does not open any more, because it was changed or its key is gone: never acted on.

The call ends, as what is known of it says; a read of it is a problem with a code of its own.
"""

from dataclasses import replace

import pytest
from django.utils import timezone

from tests.effects import EffectServer
from tests.factories import Tenancy, approve, events_of
from tests.integration.api.test_api import Api
from tests.integration.test_recovery import Crash, crashing, pass_lease
from tests.spec.requirements import gate
from toolsys import services
from toolsys.domain.calls import Disposition
from toolsys.domain.states import OutcomeStatus
from toolsys.envelope import Envelope, UnknownKey
from toolsys.models import Invocation, InvocationPayload, Run, RunStep
from toolsys.ports import Runtime
from toolsys.tenancy import tenant_transaction

STRANGER = Envelope([b"k" * 32])


def damage(tenancy: Tenancy, how: str) -> None:
    """Change what is stored of every step of a tenant."""
    with tenant_transaction(tenancy.id):
        for step in RunStep.objects.all():
            assert step.body is not None
            body = bytes(step.body)
            step.body = {"changed": body[:-1] + bytes([body[-1] ^ 1]), "cut": body[:40], "gone": None}[how]
            step.save()


def outcome(tenancy: Tenancy, call: Disposition) -> tuple[str | None, str | None]:
    with tenant_transaction(tenancy.id):
        row = Invocation.objects.get(pk=call.invocation_id)
        return row.outcome_status, row.reason_code


@gate("store.unreadable")
@pytest.mark.parametrize("how", ["changed", "cut", "gone"])
def test_a_call_whose_body_was_changed_ends_unsent(
    writer: tuple[Tenancy, Runtime], effects: EffectServer, how: str
) -> None:
    tenancy, worker = writer
    (held,) = tenancy.propose(("demo.external_write", {"line": "x"}))
    approve(tenancy, held)
    damage(tenancy, how)
    (ended,) = services.advance_step(tenancy.id, worker, invocation_id=held.invocation_id)
    assert ended.is_settled
    assert outcome(tenancy, held) == (OutcomeStatus.FAILED, "tool.unreadable")
    assert effects.lines() == []
    assert "tool.call.failed" in events_of(tenancy, held)
    assert services.advance_step(tenancy.id, worker, invocation_id=held.invocation_id) == []


@gate("store.unreadable")
def test_one_that_was_sent_is_uncertain(writer: tuple[Tenancy, Runtime], effects: EffectServer) -> None:
    tenancy, worker = writer
    (held,) = tenancy.propose(("demo.external_write", {"line": "x"}))
    approve(tenancy, held)
    with pytest.raises(Crash):
        tenancy.work(crashing(worker, "after_watermark"), held)
    pass_lease(tenancy, held)
    damage(tenancy, "changed")
    services.advance_step(tenancy.id, worker, invocation_id=held.invocation_id)
    assert outcome(tenancy, held) == (OutcomeStatus.UNCERTAIN, "tool.outcome_unknown")
    assert effects.lines() == []


@gate("store.unreadable")
def test_a_worker_that_holds_the_claim_is_left_alone(writer: tuple[Tenancy, Runtime]) -> None:
    tenancy, worker = writer
    (held,) = tenancy.propose(("demo.external_write", {"line": "x"}))
    approve(tenancy, held)
    with pytest.raises(Crash):
        tenancy.work(crashing(worker, "after_claim"), held)
    damage(tenancy, "changed")
    services.advance_step(tenancy.id, worker, invocation_id=held.invocation_id)
    assert outcome(tenancy, held) == (None, None)


@gate("store.unreadable")
def test_a_step_that_cannot_go_on_is_rung_for_no_more(acme: Tenancy, worker: Runtime) -> None:
    (first,) = acme.propose(("demo.external_write", {"line": "1"}), ("demo.external_write", {"line": "2"}))
    approve(acme, first)
    damage(acme, "changed")
    with tenant_transaction(acme.id):
        step = RunStep.objects.get()
    services.advance_step(acme.id, worker, step_id=step.pk)
    assert outcome(acme, first) == (OutcomeStatus.FAILED, "tool.unreadable")
    with tenant_transaction(acme.id):
        assert RunStep.objects.get().completed_at is not None
        assert Invocation.objects.count() == 1, "a call that nobody can read does not begin"


@gate("store.unreadable")
def test_a_worker_with_another_key_performs_nothing(
    writer: tuple[Tenancy, Runtime], effects: EffectServer, caplog: pytest.LogCaptureFixture
) -> None:
    tenancy, worker = writer
    (held,) = tenancy.propose(("demo.external_write", {"line": "x"}))
    approve(tenancy, held)
    with pytest.raises(UnknownKey):
        services.advance_step(tenancy.id, replace(worker, sealer=STRANGER), invocation_id=held.invocation_id)
    assert (outcome(tenancy, held), effects.lines()) == ((None, None), [])
    assert "MASTER_ENCRYPTION_KEY lacks the key" in caplog.text, "who operates this is told which"
    tenancy.work(worker, held)
    assert outcome(tenancy, held)[0] == OutcomeStatus.SUCCEEDED, "one with the key goes on"


@gate("store.unreadable")
def test_what_nobody_has_the_key_of_ends_with_its_run(acme: Tenancy, worker: Runtime) -> None:
    (call,) = acme.propose(("demo.echo", {"text": "1"}))
    with tenant_transaction(acme.id):
        Run.objects.filter(pk=acme.run.pk).update(deadline_at=timezone.now())
    services.advance_step(acme.id, replace(worker, sealer=STRANGER), invocation_id=call.invocation_id)
    assert outcome(acme, call) == (OutcomeStatus.FAILED, "tool.run_expired")


@gate("store.unreadable")
@pytest.mark.parametrize(
    ("sealed", "status", "code"),
    [(b"\x01" + b"?" * 200, 503, "server.unavailable"), (b"\x02" + b"?" * 200, 500, "server.unreadable")],
    ids=["key of another process", "damaged"],
)
def test_a_read_says_so(acme: Tenancy, worker: Runtime, sealed: bytes, status: int, code: str) -> None:
    (call,) = acme.propose(("demo.echo", {"text": "1"}))
    acme.work(worker, call)
    with tenant_transaction(acme.id):
        InvocationPayload.objects.filter(kind="result").update(sealed=sealed)
    answer = Api(acme).send("GET", f"/v1/invocations/{call.invocation_id}")
    assert (answer.status_code, answer.json()["code"]) == (status, code)
