"""Each interleaving that the design names a rule for, played in this process; each turns red when its rule goes.

What happens in between is done at a commit point by an injected probe, over the real database.
"""

import threading
import uuid
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import httpcore2
import pytest
from django.contrib.auth import get_user_model
from django.core.management import call_command
from django.db import connections, transaction

from tests.effects import EffectServer
from tests.factories import Tenancy, approve, events_of
from tests.integration.processes import eventually
from tests.races.moments import Died, OwnWorker, at, die, pass_lease, row_of
from tests.races.test_duplicates import deliver
from tests.scripted import Scripted, failing
from tests.spec.requirements import gate
from toolsys import database, queue, resolutions, services
from toolsys.builtin.demo import DemoExternalWrite
from toolsys.domain.calls import Disposition, Progress
from toolsys.domain.results import TextPart, ToolFailureKind, ToolResult
from toolsys.domain.spec import IdempotencyClass, RiskLevel, SideEffectClass
from toolsys.domain.states import OutcomeStatus
from toolsys.kept import Kept
from toolsys.models import Agent, ApiKey, PlatformState, Principal, Resolution, Tenant, WorkerProof
from toolsys.ports import NotAvailable, Runtime
from toolsys.store import SqlStore
from toolsys.tenancy import tenant_transaction

pytestmark = pytest.mark.slow

DONE = ToolResult(ok=True, content=(TextPart(text="x"),), structured={"text": "x"})
BUSY = failing(ToolFailureKind.UPSTREAM_ERROR, "tool.rate_limited")
DEADLINE_SECONDS = 60.0
REPEATABLE = DemoExternalWrite.spec.model_copy(update={
    "side_effect": SideEffectClass.WORKSPACE_WRITE, "risk": RiskLevel.LOW, "idempotency": IdempotencyClass.IDEMPOTENT,
})  # fmt: skip


def approved_write(tenancy: Tenancy, *more: tuple[str, Any]) -> Disposition:
    (held,) = tenancy.propose(("demo.external_write", {"line": "x"}), *more)
    approve(tenancy, held)
    return held


def repeatable_write(tenancy: Tenancy, tool: Scripted) -> Disposition:
    """A write that may be sent again, and that nobody has to approve."""
    submission = tenancy.submission(("demo.external_write", {"line": "x"}))
    (proposed,) = services.propose_step(submission, tool.installed_in(tenancy.runtime))
    return proposed


# -- the epoch is read before the facts


def disable_agent(tenancy: Tenancy) -> None:
    Agent.objects.filter(pk=tenancy.agent.pk).update(is_enabled=False)


def take_tool_from_agent(tenancy: Tenancy) -> None:
    Agent.objects.filter(pk=tenancy.agent.pk).update(enabled_tools=["demo.echo"])


def take_scopes_of_principal(tenancy: Tenancy) -> None:
    Principal.objects.filter(pk=tenancy.session.principal_id).update(scopes=[])


def take_scopes_of_key(tenancy: Tenancy) -> None:
    ApiKey.objects.filter(pk=tenancy.key.pk).update(scopes=[])


def revoke_key(tenancy: Tenancy) -> None:
    ApiKey.objects.filter(pk=tenancy.key.pk).update(revoked_at=database.now())


def expire_key(tenancy: Tenancy) -> None:
    ApiKey.objects.filter(pk=tenancy.key.pk).update(expires_at=database.now())


def switch_tenant_off(tenancy: Tenancy) -> None:
    of_tenant(tenancy, is_enabled=False)


def switch_tool_calling_off(tenancy: Tenancy) -> None:
    of_tenant(tenancy, is_tool_calling_enabled=False)


CHANGES: dict[Callable[[Tenancy], None], str] = {
    disable_agent: "policy.agent.not_enabled", take_tool_from_agent: "policy.agent.not_enabled",
    take_scopes_of_principal: "policy.scope.missing", take_scopes_of_key: "policy.scope.missing",
    revoke_key: "policy.scope.missing", expire_key: "policy.scope.missing", switch_tenant_off: "policy.switch.off",
    switch_tool_calling_off: "policy.feature.disabled",
}  # fmt: skip


@gate("race.design")
@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
@pytest.mark.parametrize("moment", ["before", "after"])
def test_who_acts_changed_while_the_facts_were_read(
    acme: Tenancy, worker: Runtime, monkeypatch: pytest.MonkeyPatch, moment: str, change: Callable[[Tenancy], None]
) -> None:
    """Facts carry the epoch that they were read under, or an older one: the fence then sends the call back."""
    real, left = database.call, [1]

    def disable() -> None:
        with tenant_transaction(acme.id):
            change(acme)

    def interposed(statement: str, parameters: Any, **options: Any) -> Any:
        is_first = "toolsys_standing" in statement and bool(left)
        if is_first:
            left.clear()
        if is_first and moment == "before":
            disable()
        found = real(statement, parameters, **options)
        if is_first and moment == "after":
            disable()
        return found

    tool = Scripted.write(DONE)
    held = approved_write(acme)
    store = worker.store
    assert isinstance(store, SqlStore)
    fresh = replace(worker, store=replace(store, standings=Kept(8)))
    monkeypatch.setattr(database, "call", interposed)
    (ended,) = acme.work(tool.installed_in(fresh), held)
    assert (ended.outcome_status, ended.reason_code) == (OutcomeStatus.DENIED, CHANGES[change])
    assert (left, tool.sent, row_of(acme, held).effect_sent_at) == ([], [], None)


# -- a switch that is committed between the snapshot and the watermark


def platform(*, on: bool) -> None:
    PlatformState.objects.using("operator").update(is_execution_enabled=on)


def of_tenant(tenancy: Tenancy, **switch: bool) -> None:
    Tenant.objects.using("operator").filter(pk=tenancy.id).update(**switch)


@gate("race.design")
@pytest.mark.parametrize("moment", ["before_claim", "after_claim", "before_watermark"])
@pytest.mark.parametrize("switch", ["platform", "is_enabled", "is_tool_calling_enabled"])
def test_a_switch_between_the_snapshot_and_the_watermark_stops_the_call(
    acme: Tenancy, worker: Runtime, switch: str, moment: str
) -> None:
    tool = Scripted.write(DONE)
    held = approved_write(acme)
    off: Callable[[], None] = (
        (lambda: platform(on=False)) if switch == "platform" else (lambda: of_tenant(acme, **{switch: False}))
    )
    try:
        (ended,) = acme.work(at(tool.installed_in(worker), moment, off), held)
    finally:
        platform(on=True)
    expected = "policy.feature.disabled" if switch == "is_tool_calling_enabled" else "policy.switch.off"
    assert (ended.outcome_status, ended.reason_code) == (OutcomeStatus.DENIED, expected)
    assert (tool.sent, row_of(acme, held).effect_sent_at) == ([], None)


@gate("race.design")
def test_a_switch_whose_commit_is_under_way_is_waited_for(acme: Tenancy, worker: Runtime) -> None:
    """The watermark reads the tenant for share: it stands behind a switch that was written and not yet committed."""
    written, commit, is_over = threading.Event(), threading.Event(), threading.Event()

    def switch() -> None:
        with transaction.atomic(using="operator"):
            of_tenant(acme, is_enabled=False)
            written.set()
            commit.wait(DEADLINE_SECONDS)
        connections.close_all()

    def begin() -> None:
        thread.start()
        assert written.wait(DEADLINE_SECONDS)
        threading.Thread(target=commit_when_waited_for, daemon=True).start()

    def commit_when_waited_for() -> None:
        try:
            eventually(
                lambda: is_waited_for() or is_over.is_set(), "somebody waits for the tenant's row", DEADLINE_SECONDS
            )
        finally:
            commit.set()
            connections.close_all()

    def is_waited_for() -> bool:
        return bool(database.call("SELECT 1 FROM pg_locks WHERE NOT granted AND locktype = 'transactionid'", ()))

    thread = threading.Thread(target=switch, daemon=True)
    tool = Scripted.write(DONE)
    held = approved_write(acme)
    (ended,) = acme.work(at(tool.installed_in(worker), "before_watermark", begin), held)
    is_over.set()
    thread.join(DEADLINE_SECONDS)
    assert (ended.reason_code, tool.sent) == ("policy.switch.off", [])


# -- a frozen process that thaws after people have resolved its call


@gate("race.design")
def test_a_worker_that_thaws_after_the_resolution_sends_nothing(acme: Tenancy, worker: Runtime) -> None:
    """It had passed the watermark. Its own clock, suspended time included, tells it that its lease is over."""
    late, other = Scripted.write(DONE), Scripted.write(DONE)
    held = approved_write(acme)
    person = get_user_model().objects.using("operator").create(username=f"op-{uuid.uuid4().hex[:8]}")
    with OwnWorker(worker, lease_seconds=30.0, is_beating=False) as frozen:

        def while_frozen() -> None:
            frozen.clock.ahead += 100.0
            pass_lease(acme, held)
            (concluded,) = acme.work(other.installed_in(worker), held)
            assert concluded.outcome_status is OutcomeStatus.UNCERTAIN
            resolutions.resolve(
                tenant_id=acme.id, invocation_id=held.invocation_id, resolution=Resolution.NOT_HAPPENED,
                evidence="the log of the other side", worker_proof=WorkerProof.HOST_FENCED, user=person,
            )  # fmt: skip

        acme.work(at(late.installed_in(frozen.runtime), "after_watermark", while_frozen), held)
    assert (late.sent, other.sent, row_of(acme, held).status) == ([], [], "uncertain")
    again = approved_write(acme)
    (ended,) = acme.work(other.installed_in(worker), again)
    assert (ended.outcome_status, len(other.sent)) == (OutcomeStatus.SUCCEEDED, 1)
    assert again.invocation_id != held.invocation_id


@gate("race.design")
def test_a_worker_that_thaws_before_the_watermark_finds_that_it_lost_its_claim(acme: Tenancy, worker: Runtime) -> None:
    late, other = Scripted.write(DONE), Scripted.write(DONE)
    held = approved_write(acme)
    with OwnWorker(worker, lease_seconds=30.0, is_beating=False) as frozen:

        def while_frozen() -> None:
            pass_lease(acme, held)
            acme.work(other.installed_in(worker), held)

        acme.work(at(late.installed_in(frozen.runtime), "before_watermark", while_frozen), held)
    assert (len(late.sent), len(other.sent)) == (0, 1)
    assert (row_of(acme, held).status, row_of(acme, held).claim_epoch) == ("succeeded", 2)


# -- call k has ended, and there is no k+1


@gate("race.design")
def test_a_worker_that_dies_between_two_calls_of_a_step_leaves_the_second_one_findable(
    acme: Tenancy, worker: Runtime
) -> None:
    write, read = Scripted.write(DONE), Scripted.echo(DONE)
    runtime = read.installed_in(write.installed_in(worker))
    held = approved_write(acme, ("demo.echo", {"text": "x"}))
    with pytest.raises(Died):
        acme.work(at(runtime, "after_result", die), held)
    assert [event for event in events_of(acme, held) if event == "tool.call.completed"] == ["tool.call.completed"]
    due = database.call("SELECT * FROM toolsys_sweep(%s, %s)", (500, 0.0))
    bells = [queue.bell_id("step", row[1], row[2]) for row in due if row[0] == "step" and row[1] == acme.id]
    assert len(bells) == 1, "nothing but the step itself says that a call is missing"
    deliver(runtime, bells[0])
    assert (len(write.sent), len(read.sent)) == (1, 1)
    due = database.call("SELECT * FROM toolsys_sweep(%s, %s)", (500, 0.0))
    assert [row for row in due if row[1] == acme.id] == []


# -- a database that was restored or promoted: watermarks may be missing


def raise_database_epoch() -> None:
    from django.db.models import F

    PlatformState.objects.using("operator").update(database_epoch=F("database_epoch") + 1)


@gate("race.design")
@pytest.mark.parametrize("died_at", [None, "before_claim", "after_claim", "before_watermark"])
def test_an_open_write_of_an_older_database_epoch_counts_as_sent(
    acme: Tenancy, worker: Runtime, died_at: str | None
) -> None:
    """Claimed or not: the database may have forgotten what was sent."""
    tool = Scripted.write(DONE)
    runtime = tool.installed_in(worker)
    held = approved_write(acme)
    if died_at is not None:
        with pytest.raises(Died):
            acme.work(at(runtime, died_at, die), held)
        pass_lease(acme, held)
    raise_database_epoch()
    (ended,) = acme.work(runtime, held)
    assert (ended.outcome_status, tool.sent) == (OutcomeStatus.UNCERTAIN, [])


@gate("race.design")
@pytest.mark.parametrize("moment", ["before_claim", "after_claim", "before_watermark"])
def test_a_recovery_fence_behind_a_worker_s_facts_is_seen_at_the_watermark(
    acme: Tenancy, worker: Runtime, moment: str
) -> None:
    """It read its facts from a database that had forgotten a watermark, before anybody had said so."""
    tool = Scripted.write(DONE)
    held = approved_write(acme)
    (ended,) = acme.work(at(tool.installed_in(worker), moment, lambda: call_command("recovery_fence")), held)
    assert (ended.outcome_status, tool.sent) == (OutcomeStatus.UNCERTAIN, [])
    assert row_of(acme, held).effect_sent_at is None


@gate("race.design")
@pytest.mark.parametrize("dies_at", ["after_intent", "after_claim", "before_result"])
def test_who_dies_while_concluding_a_call_of_an_older_epoch_leaves_it_counted_as_sent(
    acme: Tenancy, worker: Runtime, dies_at: str
) -> None:
    """Neither consuming an approval nor a claim makes a row younger than what it was written in."""
    tool = Scripted.write(DONE)
    runtime = tool.installed_in(worker)
    held = approved_write(acme)
    raise_database_epoch()
    with pytest.raises(Died):
        acme.work(at(runtime, dies_at, die), held)
    pass_lease(acme, held)
    (ended,) = acme.work(runtime, held)
    assert (ended.outcome_status, tool.sent) == (OutcomeStatus.UNCERTAIN, [])


# -- the watermark of an earlier attempt


@gate("race.design")
@pytest.mark.parametrize("first", ["failed", "died"])
@pytest.mark.parametrize("then", ["unprepared", "cancelled", "switched_off"])
def test_an_attempt_that_ends_without_a_result_after_an_earlier_one_was_sent_is_uncertain(
    acme: Tenancy, worker: Runtime, first: str, then: str
) -> None:
    """Whatever the class of the write: the first attempt may have been felt."""
    absence = NotAvailable("tool.server_unauthorized") if then == "unprepared" else None
    tool = Scripted(REPEATABLE, BUSY if first == "failed" else DONE, prepared=[None, absence])
    runtime = tool.installed_in(worker)
    call = repeatable_write(acme, tool)
    if first == "died":
        with pytest.raises(Died):
            acme.work(at(runtime, "before_result", die), call)
        pass_lease(acme, call)
    else:
        assert acme.work(runtime, call)[0].state is Progress.IN_FLIGHT
    assert row_of(acme, call).effect_sent_at is not None
    if then == "cancelled":
        services.cancel_call(tenant_id=acme.id, invocation_id=call.invocation_id)
    if then == "switched_off":
        of_tenant(acme, is_enabled=False)
    ended = acme.work_later(runtime, call)
    assert (ended.outcome_status, ended.reason_code) == (OutcomeStatus.UNCERTAIN, "tool.outcome_unknown")
    assert len(tool.sent) == 1


@gate("race.design")
def test_a_repeatable_write_is_sent_again_under_its_first_watermark_and_key(acme: Tenancy, worker: Runtime) -> None:
    tool = Scripted(REPEATABLE, BUSY, DONE)
    runtime = tool.installed_in(worker)
    call = repeatable_write(acme, tool)
    acme.work(runtime, call)
    first = row_of(acme, call).effect_sent_at
    ended = acme.work_later(runtime, call)
    assert (ended.outcome_status, row_of(acme, call).effect_sent_at) == (OutcomeStatus.SUCCEEDED, first)
    assert len({context.idempotency_key for _, context in tool.sent}) == 1


# -- a `prepare` that takes longer than a lease


class Cold(Scripted):
    """Its preparation ends when the test says so, off the event loop."""

    def __init__(self, lasts: Callable[[], None]) -> None:
        super().__init__(DemoExternalWrite.spec, DONE)
        self._lasts = lasts

    async def prepare(self, context: Any) -> None:
        import asyncio

        await asyncio.to_thread(self._lasts)


@gate("race.design")
def test_a_lease_is_kept_through_a_preparation_that_outlasts_it(acme: Tenancy, worker: Runtime) -> None:
    other = Scripted.write(DONE)
    held = approved_write(acme)

    def until_the_first_lease_is_over() -> None:
        first = row_of(acme, held).lease_expires_at
        eventually(lambda: database.call("SELECT clock_timestamp() > %s", (first,))[0][0], "a lease's time", 60.0)
        (second,) = acme.work(other.installed_in(worker), held)
        assert second.state is Progress.IN_FLIGHT
        connections.close_all()

    tool = Cold(until_the_first_lease_is_over)
    with OwnWorker(worker, lease_seconds=4.0, is_beating=True) as own:
        (ended,) = acme.work(tool.installed_in(own.runtime), held)
    assert (ended.outcome_status, len(tool.sent), other.sent) == (OutcomeStatus.SUCCEEDED, 1, [])
    assert row_of(acme, held).claim_epoch == 1


@gate("race.design")
@gate("egress.departure")
@pytest.mark.parametrize("is_stalled", [True, False])
def test_a_connection_that_took_longer_than_the_lease_sends_nothing(
    acme: Tenancy, worker: Runtime, monkeypatch: pytest.MonkeyPatch, is_stalled: bool
) -> None:
    """The watermark is committed and the fence was passed; then the network, or this machine, stands still."""
    connect = httpcore2.AnyIOBackend.connect_tcp
    with EffectServer() as effects, OwnWorker(worker, lease_seconds=30.0, is_beating=False) as own:

        async def slow(*arguments: Any, **named: Any) -> httpcore2.AsyncNetworkStream:
            own.clock.ahead += 31.0 if is_stalled else 0.0
            return await connect(*arguments, **named)

        monkeypatch.setattr(httpcore2.AnyIOBackend, "connect_tcp", slow)
        held = approved_write(acme)
        acme.work(effects.installed_in(own.runtime), held)
        assert row_of(acme, held).effect_sent_at is not None
        assert len(effects.lines()) == (0 if is_stalled else 1)


@gate("race.design")
def test_a_preparation_during_which_the_lease_passed_sends_nothing(acme: Tenancy, worker: Runtime) -> None:
    """Nobody has taken the call over yet, and still: a claim whose lease is over has no say."""
    held = approved_write(acme)

    def lease_passes() -> None:
        pass_lease(acme, held)
        connections.close_all()

    tool, other = Cold(lease_passes), Scripted.write(DONE)
    with OwnWorker(worker, lease_seconds=30.0, is_beating=False) as own:
        (silent,) = acme.work(tool.installed_in(own.runtime), held)
    assert (silent.state, tool.sent, row_of(acme, held).effect_sent_at) == (Progress.IN_FLIGHT, [], None)
    (ended,) = acme.work(other.installed_in(worker), held)
    assert (ended.outcome_status, len(other.sent)) == (OutcomeStatus.SUCCEEDED, 1)


# -- a retry that was given back, and is cancelled before it begins


@gate("race.design")
@pytest.mark.parametrize("moment", ["waiting", "before_claim", "before_watermark"])
def test_a_retry_that_is_cancelled_is_not_tried(acme: Tenancy, worker: Runtime, moment: str) -> None:
    tool = Scripted(REPEATABLE, BUSY)
    runtime = tool.installed_in(worker)
    call = repeatable_write(acme, tool)
    acme.work(runtime, call)

    def cancel() -> None:
        services.cancel_call(tenant_id=acme.id, invocation_id=call.invocation_id)

    if moment == "waiting":
        cancel()
        (ended,) = acme.work(runtime, call)
    else:
        ended = acme.work_later(at(runtime, moment, cancel), call)
    assert (ended.outcome_status, len(tool.sent)) == (OutcomeStatus.UNCERTAIN, 1)


@gate("race.design")
def test_a_read_whose_retry_is_cancelled_simply_ends(acme: Tenancy, worker: Runtime) -> None:
    tool = Scripted.echo(BUSY)
    (call,) = acme.propose(("demo.echo", {"text": "x"}))
    acme.work(tool.installed_in(worker), call)
    services.cancel_call(tenant_id=acme.id, invocation_id=call.invocation_id)
    (ended,) = acme.work(tool.installed_in(worker), call)
    assert (ended.outcome_status, ended.reason_code) == (OutcomeStatus.FAILED, "tool.cancelled")
    assert len(tool.sent) == 1


# -- a worker that is told to stop between claim and watermark


@gate("race.design")
@pytest.mark.parametrize("moment", ["before_claim", "after_claim"])
def test_a_drain_between_claim_and_watermark_gives_the_call_back(acme: Tenancy, worker: Runtime, moment: str) -> None:
    tool, other = Scripted.write(DONE), Scripted.write(DONE)
    held = approved_write(acme)
    with OwnWorker(worker, lease_seconds=30.0, is_beating=False) as own:
        (given,) = acme.work(at(tool.installed_in(own.runtime), moment, own.execution.drain), held)
    row = row_of(acme, held)
    assert (given.state, row.status, row.claimed_by, row.attempt_number) == (
        Progress.RELEASED, "authorized", None, 1,
    )  # fmt: skip
    assert (tool.sent, row.effect_sent_at) == ([], None)
    (ended,) = acme.work(other.installed_in(worker), held)
    assert (ended.outcome_status, len(other.sent), row_of(acme, held).claim_epoch) == (OutcomeStatus.SUCCEEDED, 1, 2)
