"""The queue: ids in, JSON only. It rings a bell; PostgreSQL knows what there is to do.

RQ never retries or requeues by itself here. Losing everything in Valkey loses no call: the sweeper rings again.
Source: DESIGN §4 and §13.
"""

from functools import cache
from typing import Any, Final

import django_rq
from rq import Queue

from toolsys.tenancy import is_transaction_open

QUEUE_NAME: Final = "calls"
ADVANCE_CALL: Final = "toolsys.jobs.advance_call"
ADVANCE_STEP: Final = "toolsys.jobs.advance_step"
REFRESH_PROVIDER: Final = "toolsys.jobs.refresh_provider"
JOB_TIMEOUT_SECONDS: Final = 3600
FAILURE_TTL_SECONDS: Final = 3600


@cache
def call_queue() -> Queue:
    """The queue over one client of this process: making a client costs milliseconds."""
    return django_rq.get_queue(QUEUE_NAME)


def enqueue_call(tenant_id: str, invocation_id: Any, claim_epoch: int = 0) -> None:
    """Ring for one invocation. The job's id is invocation and epoch, so a second ring says nothing new.

    Transaction: must be outside; use `transaction.on_commit` inside one.
    """
    enqueue(ADVANCE_CALL, tenant_id, str(invocation_id), job_id=f"{invocation_id}-{claim_epoch}")


def enqueue_step(tenant_id: str, step_id: Any) -> None:
    enqueue(ADVANCE_STEP, tenant_id, str(step_id), job_id=f"step-{step_id}")


def enqueue(path: str, *arguments: str, job_id: str | None = None) -> None:
    """Put one job on the queue in one round trip."""
    assert not is_transaction_open(), "enqueue after the commit, or a worker looks before there is anything to see"
    queue = call_queue()
    job = queue.create_job(
        path, args=arguments, job_id=job_id, timeout=JOB_TIMEOUT_SECONDS, result_ttl=0,
        failure_ttl=FAILURE_TTL_SECONDS,
    )  # fmt: skip
    with queue.connection.pipeline(transaction=False) as pipe:
        job.save(pipeline=pipe, include_meta=False)
        queue.push_job_id(job.id, pipeline=pipe)
        pipe.execute()


def depth() -> int:
    return len(call_queue())
