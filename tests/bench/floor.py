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
    """The worker's side: pop, claim, settle, wake."""
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


def measure(port: int, count: int) -> Figures:
    """One caller: an empty view over HTTP, then the two commits and two hops of the floor, then the read."""
    database = psycopg.connect(os.environ["DATABASE_URL"], autocommit=True)
    queue = redis.Redis.from_url(os.environ["REDIS_URL"], socket_timeout=None)
    waiting: dict[str, threading.Event] = {}
    ready = threading.Event()

    def listen() -> None:
        subscription = queue.pubsub()  # type: ignore[no-untyped-call]
        subscription.subscribe(DONE)
        for message in subscription.listen():
            if message["type"] == "subscribe":
                ready.set()
            elif (event := waiting.get(message["data"].decode())) is not None:
                event.set()

    threading.Thread(target=listen, daemon=True).start()
    ready.wait(5)
    http = HTTPConnection("127.0.0.1", port)
    taken = []
    started = time.perf_counter()
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
    return figures(taken, time.perf_counter() - started)


if __name__ == "__main__" and sys.argv[1:] == ["serve"]:
    serve()
