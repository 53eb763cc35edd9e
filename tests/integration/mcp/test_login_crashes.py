"""A worker process is killed between a refused login and the next attempt: at the ladder's commits, around the token's
exchange, and in it.

A real worker with its queue, SIGKILL, a real token endpoint and the real database; another worker, with connections
of its own, goes on. What must follow is written by hand from DESIGN §4 and TS "A 401 mid-session runs a bounded
ladder".
"""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from mcpcatalog.models import SessionServer
from mcpcatalog.remote import KeyPlace
from tests.factories import Tenancy
from tests.integration.mcp.conftest import Doors, House
from tests.integration.mcp.dying_worker import STEPS
from tests.integration.mcp.test_affinity import until
from tests.integration.mcp.test_ladder import KEYED, READ, VARIABLE, WRITE, events, keys_of, proposed
from tests.integration.mcp.test_tokens import token
from tests.integration.processes import child_process
from tests.races.moments import pass_lease, row_of
from tests.spec.requirements import gate
from tests.workers import ROOT
from toolsys import queue
from toolsys.domain.calls import Progress
from toolsys.domain.spec import Classification
from toolsys.tenancy import tenant_transaction

pytestmark = pytest.mark.slow

IN_THE_EXCHANGE = "in_the_exchange"
AT_THE_RELEASE = ("before_release", "after_release")
KINDS = {"read": READ, "keyed": KEYED, "once": WRITE}
# A repeatable call is sent once more and by then knows the new token; the other one was sent, and nobody knows more.
AFTERWARDS = {"read": ("succeeded", ["two", "three"]), "keyed": ("succeeded", ["two", "three"]),
              "once": ("uncertain", ["two"])}  # fmt: skip


@contextmanager
def worker(moment: str, port: int) -> Iterator["subprocess.Popen[bytes]"]:
    """Start a worker that dies at this moment, over an empty queue; it listens when the block begins."""
    bells = queue.call_queue()
    bells.connection.delete(bells.key)
    ours = bells.connection.connection_pool.connection_kwargs.get("db", 0)
    child = child_process(
        [sys.executable, "-m", "tests.integration.mcp.dying_worker", moment], cwd=ROOT, start_new_session=True,
        env={**os.environ, "TOOLSYS_EGRESS_PLAIN_HTTP_HOSTS": f"127.0.0.1:{port}"},
    )  # fmt: skip
    try:
        until(
            lambda: any(each["cmd"] == "blpop" and int(each["db"]) == ours for each in bells.connection.client_list()),
            "a worker that listens",
        )
        yield child
    finally:
        if child.poll() is None:
            child.kill()
        child.wait(10)


@gate("gate.15")
@pytest.mark.parametrize(
    ("kind", "moment"),
    # A checkerboard of them in the suite: each kind and each moment; `make crash-edges` plays all.
    [
        pytest.param(kind, moment, marks=[pytest.mark.long] if (row + column) % 2 else [])
        for row, kind in enumerate(KINDS)
        for column, moment in enumerate((*STEPS, IN_THE_EXCHANGE, *(AT_THE_RELEASE if kind != "once" else ())))
    ],
)
def test_a_worker_that_is_killed_while_it_logs_in_anew_leaves_what_the_table_says(
    acme: Tenancy, houses: Callable[[], House], doors: Doors, monkeypatch: pytest.MonkeyPatch, kind: str, moment: str
) -> None:
    classification: Classification = KINDS[kind]
    is_held = moment == IN_THE_EXCHANGE
    monkeypatch.setenv(VARIABLE, json.dumps({"client_id": "ours", "client_secret": "s3cret"}))
    tokens = [token("one"), token("two"), *([(0, 30.0)] if is_held else []), token("three")]
    name, peer = doors.peer(accepted={"Bearer one"}, tokens=tokens)
    config = doors.with_token(
        name, tenant_id=acme.id, credential_ref=f"env:{VARIABLE}", classification=classification,
        key_place=KeyPlace.META, key_name="key",
    )  # fmt: skip
    second = houses()
    acme = second.offer(acme, config)
    peer.accepted = {"Bearer two", "Bearer three"}  # a connection of its own is a token of its own: the first listed
    peer.calls = ["401", "ok"]
    with worker("never" if is_held else moment, doors.port) as child:
        call = proposed(acme, config, n=1)
        queue.ring_all([queue.bell_id("call", acme.id, call.invocation_id, 0)])  # as the sweeper does of what is due
        if is_held:
            until(lambda: len(peer.exchanges) == 3, "the endpoint was asked anew")
            child.kill()
        assert child.wait(30) == -signal.SIGKILL
    assert row_of(acme, call).effect_sent_at is not None
    assert keys_of(peer) == ["two"]
    pass_lease(acme, call)
    acme.finish(second.runtime, call)
    status, keys = AFTERWARDS[kind]
    assert (row_of(acme, call).status, keys_of(peer)) == (status, keys)
    assert len({sent["params"]["_meta"]["key"] for method, _, sent in peer.seen if method == "tools/call"}) == 1
    assert len(events(acme, "mcp.server.reauthenticated")) <= 1
    with tenant_transaction(acme.id):
        spent = SessionServer.objects.filter(session=acme.session, reauthenticated_at__isnull=False).count()
    assert spent == (0 if moment == "refused" else 1), "what was spent is remembered by whoever comes next"
    assert acme.work(second.runtime, call)[0].state is Progress.SETTLED
    assert keys_of(peer) == keys
