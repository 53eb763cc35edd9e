"""The floor: what the same commits, queue hops and HTTP round trip cost without toolsys.

A bare table, bare psycopg, bare lists: insert, push; a second process pops, claims, settles, publishes; the first is
woken and reads. Run as `python -m tests.bench.floor serve` for the second process.
"""

import os
import sys
import threading
import time
import uuid
from http.client import HTTPConnection
from typing import Any

import psycopg
import redis

from tests.bench.load import Figures, figures

TABLE = """
    CREATE TABLE IF NOT EXISTS bench_floor (
        id uuid PRIMARY KEY, state text NOT NULL, body jsonb, result jsonb, at timestamptz DEFAULT clock_timestamp());
    GRANT SELECT, INSERT, UPDATE ON bench_floor TO toolsys_app
"""
QUEUE, DONE = "floor:queue", "floor:done"


def prepare() -> None:
    with psycopg.connect(os.environ["DATABASE_OWNER_URL"], autocommit=True) as owner:
        owner.execute(TABLE)


def serve() -> None:
    """The worker's side, as many threads as a worker has: pop, claim, settle, wake."""
    threads = [threading.Thread(target=_serve, daemon=True) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _serve() -> None:
    database = psycopg.connect(os.environ["DATABASE_URL"], autocommit=True)
    queue = redis.Redis.from_url(os.environ["REDIS_URL"], socket_timeout=None)
    while True:
        popped = queue.blpop([QUEUE], 0)
        assert isinstance(popped, list | tuple)
        identifier = popped[1].decode()  # type: ignore[union-attr]
        database.execute(
            "UPDATE bench_floor SET state = 'running' WHERE id = %s AND state = 'authorized'", (identifier,)
        )
        database.execute("UPDATE bench_floor SET state = 'done', result = '{\"ok\":true}' WHERE id = %s", (identifier,))
        queue.publish(DONE, identifier)


def measure(port: int, count: int, concurrency: int = 1) -> Figures:
    """Callers beside each other: an empty view over HTTP, the commits and hops of the floor, then the read."""
    queue = redis.Redis.from_url(os.environ["REDIS_URL"], socket_timeout=None)
    waiting: dict[str, threading.Event] = {}
    subscription = queue.pubsub()  # type: ignore[no-untyped-call]

    def wake(message: dict[str, Any]) -> None:
        if (event := waiting.get(message["data"].decode())) is not None:
            event.set()

    subscription.subscribe(**{DONE: wake})
    # Without a time it would turn round and round, and hold the interpreter.
    listener = subscription.run_in_thread(sleep_time=1.0, daemon=True)
    taken: list[float] = []
    started = time.perf_counter()
    share = count // concurrency
    callers = [threading.Thread(target=call, args=(port, share, queue, waiting, taken)) for _ in range(concurrency)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    elapsed = time.perf_counter() - started
    listener.stop()
    listener.join(5)
    return figures(taken, elapsed)


def call(port: int, count: int, queue: "redis.Redis", waiting: dict[str, threading.Event], taken: list[float]) -> None:
    database = psycopg.connect(os.environ["DATABASE_URL"], autocommit=True)
    http = HTTPConnection("127.0.0.1", port)
    for _ in range(count):
        begun = time.perf_counter()
        http.request("GET", "/healthz")
        http.getresponse().read()
        identifier = str(uuid.uuid4())
        event = waiting[identifier] = threading.Event()
        database.execute("INSERT INTO bench_floor (id, state, body) VALUES (%s, 'authorized', '{}')", (identifier,))
        queue.rpush(QUEUE, identifier)
        assert event.wait(10), "the floor's worker did not answer"
        database.execute("SELECT result FROM bench_floor WHERE id = %s", (identifier,)).fetchone()
        del waiting[identifier]
        taken.append(time.perf_counter() - begun)


if __name__ == "__main__" and sys.argv[1:] == ["serve"]:
    serve()
