"""Faults that were reported of other systems, by their number: what the database, the queue and approvals must do."""

import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from django.core.exceptions import ImproperlyConfigured
from django.db import IntegrityError, connections

from config import checks
from tests.factories import Tenancy, approve, events_of
from tests.races.moments import Died, at, die, pass_lease, row_of
from tests.races.test_duplicates import deliver
from tests.scripted import Scripted
from tests.spec.requirements import gate
from toolsys import queue, services, steps, sweeper
from toolsys.domain import canonical
from toolsys.domain.calls import Progress
from toolsys.domain.results import TextPart, ToolResult
from toolsys.domain.states import InvocationStatus
from toolsys.models import Invocation
from toolsys.ports import Case, Runtime
from toolsys.problems import Problem
from toolsys.store import SqlStore
from toolsys.tenancy import is_transaction_open, tenant_transaction


@gate("faults.b21")
def test_b21_a_nul_in_arguments_and_result_is_kept_and_executed_once(acme: Tenancy, worker: Runtime) -> None:
    (proposed,) = acme.propose(("demo.echo", {"text": "a\0b"}))
    acme.work(worker, proposed)
    call = acme.call(proposed)
    assert call.status is InvocationStatus.SUCCEEDED
    assert call.payload["content"] == [{"type": "text", "text": "a\0b"}]
    assert events_of(acme, proposed).count("tool.call.started") == 1


@gate("faults.b37")
def test_b37_a_worker_is_told_only_of_what_is_committed(acme: Tenancy, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[tuple[bool, bool]] = []

    def enqueue(tenant_id: str, invocation_id: uuid.UUID, *_: Any, **__: Any) -> None:
        with tenant_transaction(tenant_id):
            is_there = Invocation.objects.filter(pk=invocation_id).exists()
        told.append((is_transaction_open(), is_there))

    monkeypatch.setattr(queue, "enqueue_call", enqueue)
    acme.propose(("demo.echo", {"text": "x"}))
    assert told == [(False, True)]


@gate("faults.b37")
def test_b37_a_worker_that_sees_no_row_goes_away_quietly(acme: Tenancy, globex: Tenancy, worker: Runtime) -> None:
    (proposed,) = acme.propose(("demo.echo", {"text": "x"}))
    assert services.advance_step(acme.id, worker, invocation_id=uuid.uuid4()) == []
    assert services.advance_step(globex.id, worker, invocation_id=proposed.invocation_id) == []
    assert acme.call(proposed).status is InvocationStatus.AUTHORIZED


@gate("faults.b37", "problem.writes_nothing")
def test_b37_what_was_refused_whole_leaves_nothing_to_execute(acme: Tenancy, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[uuid.UUID] = []
    monkeypatch.setattr(queue, "enqueue_call", lambda _tenant, identifier, *_: told.append(identifier))
    with pytest.raises(Problem):
        acme.propose(calls=(services.CallDraft("same", "demo.echo", {}), services.CallDraft("same", "demo.echo", {})))
    with tenant_transaction(acme.id):
        assert Invocation.objects.filter(run=acme.run).count() == 0
    assert told == []


@gate("faults.b47", "canonical.sent")
def test_b47_what_was_approved_is_what_is_sent(acme: Tenancy, worker: Runtime, monkeypatch: pytest.MonkeyPatch) -> None:
    """The tool gets exactly the document whose hash the approval is bound to, byte for byte."""
    from toolsys.builtin.demo import DemoExternalWrite

    sent: list[Any] = []
    original = DemoExternalWrite.execute

    async def execute(self: DemoExternalWrite, arguments: Any, context: Any) -> Any:
        sent.append((canonical.dump(arguments), context.idempotency_key))
        return await original(self, arguments, context)

    monkeypatch.setattr(DemoExternalWrite, "execute", execute)
    (held,) = acme.propose(("demo.external_write", {"line": "cafe\u0301"}))
    assert held.state is Progress.HELD
    approve(acme, held)
    acme.work(worker, held)
    with tenant_transaction(acme.id):
        row = Invocation.objects.get(pk=held.invocation_id)
    ((data, key),) = sent
    assert data == '{"hold":false,"line":"café"}'.encode()
    assert canonical.sha256_hex(data) == row.normalized_arguments_hash
    assert (key, len(key)) == (row.idempotency_key, 64)


STEPS = ("normalize", "check_repetition", "evaluate_policy", "request_approval")
COMMITS = ("commit_intent", "commit_claim")


@gate("faults.b47", "canonical.sent")
@pytest.mark.parametrize("step", [*STEPS, *COMMITS])
def test_b47_what_is_changed_in_a_later_step_is_not_sent(
    acme: Tenancy, worker: Runtime, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    """In each of steps 5 to 9, by whoever has the call in hand; the tool of step 10 is told of no case."""
    owner: Any = steps if step in STEPS else SqlStore
    original = getattr(owner, step)

    def rewriting(*given: Any) -> Any:
        found = original(*given)
        (case,) = [each for each in given if isinstance(each, Case)]
        assert case.arguments is not None
        case.arguments["line"] = "to somebody else"
        return found

    tool = Scripted.write(ToolResult(ok=True, content=(TextPart(text="x"),), structured={"line": "x"}))
    (held,) = acme.propose(("demo.external_write", {"line": "x"}))
    approve(acme, held)
    monkeypatch.setattr(owner, step, rewriting)
    (ended,) = acme.work(tool.installed_in(worker), held)
    assert (ended.outcome_status, [arguments["line"] for arguments, _ in tool.sent]) == ("succeeded", ["x"])


def write_another(tenancy: Tenancy, **identity: str) -> None:
    """Write a row like that of a call, but for its identity."""
    tenancy.propose(("demo.echo", {"text": "x"}))
    with tenant_transaction(tenancy.id):
        row = Invocation.objects.get(run=tenancy.run)
        row.pk = uuid.uuid4()
        for name, value in identity.items():
            setattr(row, name, value)
        row.save(force_insert=True)


@gate("faults.b39")
@pytest.mark.parametrize("call_id", ["", " ", "a b", "a\n", "caf\u00e9", "x" * 256])
def test_b39_no_row_has_an_identity_that_cannot_be_seen(acme: Tenancy, call_id: str) -> None:
    """Whoever writes it, and not only the door that the serializer keeps."""
    with pytest.raises(IntegrityError, match="call_id_is_plain"):
        write_another(acme, call_id=call_id, idempotency_key="0" * 64)


@gate("faults.b39")
@pytest.mark.parametrize("key", ["", "0" * 63, "0" * 65, "g" * 64])
def test_b39_no_row_has_a_key_that_is_no_hash(acme: Tenancy, key: str) -> None:
    with pytest.raises(IntegrityError, match="idempotency_key_is_a_hash"):
        write_another(acme, call_id="another", idempotency_key=key)


@gate("faults.b47")
def test_b47_an_approval_of_other_arguments_is_worth_nothing(acme: Tenancy, worker: Runtime) -> None:
    (first,) = acme.propose(("demo.external_write", {"line": "1"}))
    (second,) = acme.propose(("demo.external_write", {"line": "2"}))
    with tenant_transaction(acme.id):
        from toolsys.models import ApprovalRequest

        foreign = ApprovalRequest.objects.get(invocation_id=first.invocation_id).digest
    approve(acme, second, digest=foreign)
    (denied,) = acme.work(worker, second)
    assert denied.reason_code == "policy.approval.voided"
    assert "tool.call.started" not in events_of(acme, second)


@gate("faults.b35")
@pytest.mark.parametrize("died_at", ["before_claim", "after_claim"])
def test_b35_what_a_killed_worker_had_popped_is_found_in_the_database(
    acme: Tenancy, worker: Runtime, died_at: str
) -> None:
    """The bell is gone with its worker, and the whole queue with it; RQ's registries are neither filled nor asked."""
    shared = queue.call_queue()
    (call,) = acme.propose(("demo.echo", {"text": "x"}))
    shared.connection.flushdb()
    with pytest.raises(Died):
        acme.work(at(worker, died_at, die), call)
    if died_at == "after_claim":
        pass_lease(acme, call)
    with tenant_transaction(acme.id):
        Invocation.objects.filter(pk=call.invocation_id).update(dispatch_after="2020-01-01T00:00:00Z")
    (due,) = [each for each in sweeper.sweep(0.0) if str(each.id) == str(call.invocation_id)]
    assert due.bell() in shared.job_ids
    deliver(worker, due.bell())
    row = row_of(acme, call)
    assert (row.status, row.claim_epoch) == ("succeeded", 1 if died_at == "before_claim" else 2)
    kept = [key for key in shared.connection.scan_iter() if b":wip:" in key or b"failed" in key or b"rq:job:" in key]
    assert kept == []


@contextmanager
def alias_of(user: str, monkeypatch: pytest.MonkeyPatch, **changes: Any) -> Iterator[None]:
    """The application's alias is this user's, without a pool."""
    connections.databases["unbound"] = {**connections.databases["default"], "USER": user, "OPTIONS": {}, **changes}
    monkeypatch.setattr(checks, "DEFAULT_DB_ALIAS", "unbound")
    try:
        yield
    finally:
        connections["unbound"].close()
        del connections["unbound"], connections.databases["unbound"]
        monkeypatch.undo()


@gate("faults.b52", "rls.roles")
@pytest.mark.parametrize(("user", "said"), [("postgres", "is a superuser"), ("toolsys_owner", "owns tables")])
def test_b52_nothing_serves_under_a_role_that_row_level_security_does_not_bind(
    database: None, monkeypatch: pytest.MonkeyPatch, user: str, said: str
) -> None:
    with alias_of(user, monkeypatch), pytest.raises(ImproperlyConfigured, match=said):
        checks.require_safe_database()
    checks.require_safe_database()


@gate("rls.roles")
@pytest.mark.parametrize(("group", "said"), [("toolsys_owner", "owns tables"), ("postgres", "is a superuser")])
def test_nothing_serves_under_a_role_that_may_become_such_a_one(
    database: None, monkeypatch: pytest.MonkeyPatch, group: str, said: str
) -> None:
    """SET ROLE is one statement away."""
    stranger = f"stranger_{os.getpid()}"
    with alias_of("postgres", monkeypatch), connections["unbound"].cursor() as cursor:
        cursor.execute(f"CREATE ROLE {stranger} LOGIN IN ROLE {group}, toolsys_app")
    try:
        with alias_of(stranger, monkeypatch), pytest.raises(ImproperlyConfigured, match=said):
            checks.require_safe_database()
    finally:
        with alias_of("postgres", monkeypatch), connections["unbound"].cursor() as cursor:
            cursor.execute(f"DROP ROLE {stranger}")


@gate("rls.roles")
def test_nothing_serves_before_its_role_could_be_asked_for(database: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """The database would come back later, and the role be any."""
    monkeypatch.setattr(checks, "ASK_SECONDS", 0.0)
    with (
        alias_of("toolsys_app", monkeypatch, HOST="/nonexistent"),
        pytest.raises(ImproperlyConfigured, match="could not be asked"),
    ):
        checks.require_safe_database()
