"""A run that nobody ends is expired: its status says so once nothing of it is open; refusals do not wait for that."""

from collections.abc import Iterator
from datetime import timedelta

import pytest
from django.db import connections, transaction
from django.utils import timezone

from tests.factories import Tenancy
from tests.spec.requirements import gate
from toolsys import forgetting, services
from toolsys.models import Run
from toolsys.ports import Runtime
from toolsys.problems import Problem
from toolsys.tenancy import tenant_transaction


@pytest.fixture(autouse=True)
def _connections(database: None) -> Iterator[None]:
    yield
    connections.close_all()


def pass_deadline(tenancy: Tenancy) -> None:
    with tenant_transaction(tenancy.id):
        Run.objects.update(deadline_at=timezone.now() - timedelta(seconds=1))


def run_of(tenancy: Tenancy) -> Run:
    with tenant_transaction(tenancy.id):
        return Run.objects.get(pk=tenancy.run.id)


@gate("run.expiry")
def test_a_run_past_its_deadline_with_nothing_open_is_expired(acme: Tenancy, globex: Tenancy, worker: Runtime) -> None:
    (queued,) = acme.propose(("demo.echo", {"text": "last"}))
    acme.finish(worker, queued)
    pass_deadline(acme)
    forgetting.expire_runs()
    run = run_of(acme)
    assert (run.status, run.ended_at) == ("expired", run.deadline_at)
    assert run_of(globex).status == "running", "its deadline is yet to come"


@gate("run.expiry")
def test_a_run_with_an_open_call_waits_for_it(acme: Tenancy, worker: Runtime) -> None:
    (queued,) = acme.propose(("demo.echo", {"text": "late"}))
    pass_deadline(acme)
    forgetting.expire_runs()
    assert run_of(acme).status == "running"
    acme.finish(worker, queued)
    assert acme.call(queued).reason_code == "tool.run_expired"
    forgetting.expire_runs()
    assert run_of(acme).status == "expired"


@gate("run.expiry")
@pytest.mark.parametrize("cancel", [True, False])
def test_what_has_ended_otherwise_stays_so(acme: Tenancy, worker: Runtime, cancel: bool) -> None:
    services.end_run(tenant_id=acme.id, run_id=acme.run.id, cancel=cancel, runtime=worker)
    ended = run_of(acme).status
    pass_deadline(acme)
    forgetting.expire_runs()
    assert run_of(acme).status == ended != "expired"


@gate("run.expiry")
def test_a_step_is_refused_as_expired_before_and_after_its_status_says_so(acme: Tenancy) -> None:
    pass_deadline(acme)
    for _ in range(2):
        with pytest.raises(Problem, match=r"run\.expired"):
            acme.propose(("demo.echo", {"text": "late"}))
        forgetting.expire_runs()


@gate("run.expiry")
def test_runs_are_found_by_their_deadline_through_an_index(acme: Tenancy) -> None:
    question = "SELECT id FROM runs WHERE deadline_at <= now() AND ended_at IS NULL ORDER BY deadline_at LIMIT 9"
    with transaction.atomic(using="operator"), connections["operator"].cursor() as cursor:
        for other in ("seqscan", "bitmapscan", "sort"):
            cursor.execute(f"SET LOCAL enable_{other} = off")
        cursor.execute(f"EXPLAIN {question}")
        plan = "\n".join(row[0] for row in cursor.fetchall())
    assert "run_by_deadline" in plan
