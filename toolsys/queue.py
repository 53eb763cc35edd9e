"""The queue: bells whose id says everything. PostgreSQL knows what there is to do; a bell only says where to look.

RQ never retries or requeues by itself here. Losing everything in Valkey loses no call: the sweeper rings again.
Source: DESIGN §4 and §13.
"""

import logging
import threading
from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any, Final

import django_rq
from django_rq.queues import DjangoRQ
from redis import Redis, RedisError
from rq import Queue
from rq.exceptions import DequeueTimeout, NoSuchJobError
from rq.job import Job

from toolsys import valkey
from toolsys.tenancy import is_transaction_open

log = logging.getLogger("toolsys.queue")
QUEUE_NAME: Final = "calls"
JOBS: Final = {
    "call": "toolsys.jobs.advance_call",
    "step": "toolsys.jobs.advance_step",
    "refresh": "toolsys.jobs.refresh_provider",
    "inspect": "toolsys.jobs.inspect_source",
}
# RQ's ids hold letters, digits, dashes and underscores; our fields have no capitals, so a capital separates them.
SEPARATOR: Final = "X"
# A dead worker's bells are rung again on everybody's queue by the sweeper; these go by themselves.
OWN_QUEUE_SECONDS: Final = 3_600


class Bell(Job):
    """An RQ job that is its id, `<kind>X<field>X…`: nothing is stored for it, so nothing needs fetching."""

    @classmethod
    def fetch(cls, id: str, connection: Redis | None = None, serializer: Any = None) -> "Bell":  # noqa: A002
        """Raises: NoSuchJobError where the id is not one of ours."""
        kind, *fields = id.split(SEPARATOR)
        if kind not in JOBS:
            raise NoSuchJobError(f"not a bell: {id[:64]!r}")
        bell = cls(id, connection=connection, serializer=serializer)
        bell.func_name, bell.args, bell.kwargs, bell.instance = JOBS[kind], fields, {}, None
        return bell

    @classmethod
    def fetch_many(cls, job_ids: Iterable[str], connection: Redis, serializer: Any = None) -> list[Job | None]:
        """What RQ's own pages list."""
        return [cls.fetch(each, connection, serializer) for each in job_ids if each.split(SEPARATOR)[0] in JOBS]


class BellQueue(DjangoRQ):
    """Pops a bell in one round trip. RQ would move it to a second list and fetch it: PostgreSQL remembers for us."""

    @classmethod
    def dequeue_any(  # type: ignore[override]
        cls, queues: Iterable[Queue], timeout: int | None, connection: Redis, **_options: Any
    ) -> tuple[Job, Queue] | None:
        """Return the next bell, of the first queue that has one, waiting for it up to `timeout` seconds.

        Raises: DequeueTimeout, also for an entry that is no bell: RQ's loop then asks again.
        """
        by_key = {queue.key: queue for queue in queues}
        seconds = timeout or 1
        found = _line(connection, seconds).command("BLPOP", *by_key, seconds)
        if found is None:
            raise DequeueTimeout(seconds)
        key, raw = found
        try:
            return Bell.fetch(raw.decode(), connection), by_key[key.decode()]
        except (NoSuchJobError, ValueError):
            # Somebody else's entry, or an older release's: gone from the queue, and never a reason to stop.
            log.warning("the queue held something that is no bell")
            raise DequeueTimeout(seconds) from None


class _Ears(threading.local):
    line: valkey.Line | None = None


_ears: Final = _Ears()


def _line(connection: Redis, seconds: int) -> valkey.Line:
    """Return this thread's line for questions that wait."""
    if _ears.line is None or _ears.line.pool is not connection.connection_pool:
        _ears.line = valkey.Line(connection.connection_pool, blocks_seconds=seconds)
    return _ears.line


@cache
def call_queue() -> Queue:
    """The queue over one client of this process: making a client costs milliseconds."""
    return django_rq.get_queue(QUEUE_NAME)


def queue_of(worker: str) -> Queue:
    """Return the queue that only this worker pops from: for calls that need a connection of its own."""
    shared = call_queue()
    return BellQueue(f"{QUEUE_NAME}:{worker}", connection=shared.connection, serializer=shared.serializer)  # type: ignore[no-untyped-call]


def hand_back(worker: str) -> None:
    """Put what a worker leaves behind on everybody's queue."""
    own, shared = queue_of(worker), call_queue()
    while shared.connection.lmove(own.key, shared.key, "LEFT", "RIGHT") is not None:
        pass


def enqueue_call(tenant_id: str, invocation_id: Any, claim_epoch: int = 0, *, worker: str = "") -> None:
    """Ring for one invocation, for everybody or for one worker. The id names the epoch too, so that a second ring
    says nothing new.

    Transaction: must be outside; use `transaction.on_commit` inside one.
    """
    ring_if_heard([bell_id("call", tenant_id, invocation_id, claim_epoch)], worker=worker)


def enqueue_step(tenant_id: str, step_id: Any) -> None:
    ring("step", tenant_id, step_id)


def enqueue_refresh(domain: str, tenant_id: str, key: str) -> None:
    """Have a provider look again at one of its sources."""
    ring("refresh", domain, tenant_id, key)


def ring(kind: str, *fields: Any) -> None:
    ring_all([bell_id(kind, *fields)])


def ring_all(bells: Sequence[str], *, worker: str = "") -> None:
    """Put bells on the queue, in one command; on a worker's own they are forgotten with it."""
    assert not is_transaction_open(), "enqueue after the commit, or a worker looks before there is anything to see"
    queue = queue_of(worker) if worker else call_queue()
    if not bells:
        return
    if not worker:
        valkey.command(queue.connection.connection_pool, "RPUSH", queue.key, *bells)
        return
    with queue.connection.pipeline(transaction=False) as pipeline:
        pipeline.rpush(queue.key, *bells)
        pipeline.expire(queue.key, OWN_QUEUE_SECONDS)
        pipeline.execute()


def ring_if_heard(bells: Sequence[str], *, worker: str = "") -> None:
    """Ring for what is committed. It stands whether or not anybody hears: then the sweeper finds it."""
    try:
        ring_all(bells, worker=worker)
    except RedisError as error:
        log.warning("nobody could be rung for (%s); the sweeper will find it", type(error).__name__)


def bell_id(kind: str, *fields: Any) -> str:
    """Return the id that `Bell.fetch` reads."""
    identifier = SEPARATOR.join((kind, *map(str, fields)))
    assert identifier.count(SEPARATOR) == len(fields), "a field with a capital X cannot be told from two"
    return identifier


def depth() -> int:
    return len(call_queue())
