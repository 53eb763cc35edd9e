"""The MCP face forgets what is over and old, in batches, and nothing else; and a tenant opens a bounded number."""

import re
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from django.conf import settings
from django.db import connections, transaction
from django.utils import timezone

from tests.factories import Tenancy
from tests.integration.api.mcp_peer import NEW, OLD, Peer
from tests.integration.api.test_mcp_face import peer, work
from tests.spec.requirements import gate
from toolsys import conversations, database, forgetting
from toolsys.composition import composed
from toolsys.models import Invocation, McpClientSession, McpProposal, Run
from toolsys.ports import Runtime
from toolsys.problems import Problem
from toolsys.tenancy import tenant_transaction

DAYS = 90
SOURCE = Path(forgetting.__file__).parent / "sql" / "77_mcp_retention.sql"
ERAS = pytest.mark.parametrize("era", [OLD, NEW])


@pytest.fixture(autouse=True)
def _connections(database: None) -> Iterator[None]:
    yield
    connections.close_all()


def age(tenancy: Tenancy, days: float) -> None:
    """Make everything that the face knows of a tenant so old."""
    then = timezone.now() - timedelta(days=days)
    with tenant_transaction(tenancy.id):
        McpProposal.objects.update(created_at=then)
        McpClientSession.objects.update(last_call_at=then)


def kept(tenancy: Tenancy) -> tuple[int, int]:
    with tenant_transaction(tenancy.id):
        return McpClientSession.objects.count(), McpProposal.objects.count()


def conversed(tenancy: Tenancy, worker: Runtime, era: str = NEW) -> Peer:
    """Make a conversation with one call that has ended."""
    client = peer(tenancy, era)
    work(tenancy, worker, client.call("demo.echo", {"text": "old"}))
    return client


@gate("mcp.face.retention")
@ERAS
def test_what_is_over_and_old_goes_and_the_ledger_stays(
    acme: Tenancy, globex: Tenancy, initech: Tenancy, worker: Runtime, era: str
) -> None:
    client = conversed(acme, worker, era)
    conversed(globex, worker)
    conversed(initech, worker)
    age(acme, 91)
    age(globex, 91)
    age(initech, 89)
    forgetting.forget_conversations(DAYS)
    assert (kept(acme), kept(globex), kept(initech)) == ((0, 0), (0, 0), (1, 1))
    with tenant_transaction(acme.id):
        assert Invocation.objects.count() == 1
    again = client.call("demo.echo", {"text": "old"})
    if era == OLD:
        assert again.refusal == (404, -32000, "mcp.session_unknown"), "its client begins anew, as the protocol says"
    else:
        assert again.result["structuredContent"]["status"] == "in_progress", "a new call of a new conversation"


@gate("mcp.face.retention")
def test_a_call_that_is_still_under_way_is_kept_with_its_conversation(acme: Tenancy, worker: Runtime) -> None:
    client = conversed(acme, worker)
    held = client.call("demo.external_write", {"line": "x"})
    age(acme, 400)
    forgetting.forget_conversations(DAYS)
    assert kept(acme) == (1, 1)
    again = client.call("demo.external_write", {"line": "x"})
    assert again.meta["toolsys/invocation-id"] == held.meta["toolsys/invocation-id"]


@gate("mcp.face.retention")
def test_a_conversation_that_goes_on_keeps_only_its_young_calls(acme: Tenancy, worker: Runtime) -> None:
    client = conversed(acme, worker)
    age(acme, 91)
    young = client.call("demo.echo", {"text": "new"}).meta["toolsys/invocation-id"]
    forgetting.forget_conversations(DAYS)
    assert kept(acme) == (1, 1)
    assert client.call("demo.echo", {"text": "new"}).meta["toolsys/invocation-id"] == young


@gate("mcp.face.retention")
def test_a_pass_is_bounded_and_takes_the_oldest_first(
    acme: Tenancy, worker: Runtime, monkeypatch: pytest.MonkeyPatch
) -> None:
    forgetting.forget_conversations(DAYS)
    monkeypatch.setattr(forgetting, "BATCH", 1)
    monkeypatch.setattr(forgetting, "BATCHES_A_PASS", 2)
    client = peer(acme, NEW)
    for number in range(3):
        work(acme, worker, client.call("demo.echo", {"text": str(number)}))
    with tenant_transaction(acme.id):
        for step, days in ((1, 95), (2, 99), (3, 97)):
            then = timezone.now() - timedelta(days=days)
            McpProposal.objects.filter(step_number=step).update(created_at=then)
    assert forgetting.forget_conversations(DAYS) == 2
    with tenant_transaction(acme.id):
        assert list(McpProposal.objects.values_list("step_number", flat=True)) == [1]


@gate("mcp.face.retention")
def test_what_somebody_asks_for_at_this_moment_is_passed_over(acme: Tenancy, worker: Runtime) -> None:
    """Both rows are locked, as a client's message does it: the pass goes by without waiting."""
    conversed(acme, worker)
    age(acme, 100)
    with transaction.atomic(using="operator"), connections["operator"].cursor() as cursor:
        for table in ("mcp_client_sessions", "mcp_proposals"):
            cursor.execute(f"SELECT 1 FROM {table} WHERE tenant_id = %s FOR UPDATE", [acme.id])
        forgetting.forget_conversations(DAYS)
    assert kept(acme) == (1, 1)
    forgetting.forget_conversations(DAYS)
    assert kept(acme) == (0, 0)


@gate("mcp.face.retention")
def test_who_returns_while_the_conversation_goes_is_told_to_come_again(acme: Tenancy, worker: Runtime) -> None:
    conversed(acme, worker)
    with tenant_transaction(acme.id):
        found = McpClientSession.objects.select_related("run").get()
    age(acme, 100)
    forgetting.forget_conversations(DAYS)
    run = conversations._started(acme.id, found.session_id, composed())
    with pytest.raises(Problem, match=r"server\.unavailable"):
        conversations._moved(found, found.session_id, run, composed())
    with tenant_transaction(acme.id):
        assert Run.objects.get(pk=run.pk).status == "completed", "nothing is left open"


@gate("mcp.face.retention")
@pytest.mark.parametrize("function", ["toolsys_forget_calls", "toolsys_forget_conversations"])
def test_whoever_calls_the_functions_cannot_forget_what_is_younger_than_a_day(
    acme: Tenancy, worker: Runtime, function: str
) -> None:
    conversed(acme, worker)
    age(acme, 0.9)
    for seconds in (-1e9, 0, 1):
        database.call(f"SELECT {function}(%s, %s)", (seconds, 500))
    assert kept(acme) == (1, 1)


@gate("mcp.face.retention")
@pytest.mark.parametrize(
    ("table", "index", "time"),
    [("mcp_proposals c", "mcp_call_by_age", "created_at"),
     ("mcp_client_sessions s", "mcp_conversation_by_age", "last_call_at")],
)  # fmt: skip
def test_the_oldest_are_found_through_an_index(acme: Tenancy, table: str, index: str, time: str) -> None:
    name = table.split()[1]
    question = re.search(
        rf"FROM public.{table}\n.*?ORDER BY {name}\.{time} LIMIT", SOURCE.read_text(), re.DOTALL
    )  # fmt: skip
    assert question is not None
    asked = question.group().replace("p_seconds", "1")
    with transaction.atomic(using="operator"), connections["operator"].cursor() as cursor:
        for other in ("seqscan", "bitmapscan", "sort"):
            cursor.execute(f"SET LOCAL enable_{other} = off")
        cursor.execute(f"EXPLAIN SELECT {name}.id {asked} 500")
        plan = "\n".join(row[0] for row in cursor.fetchall())
    assert index in plan
    assert f"Index Cond: ({time} <" in plan
    assert "Sort" not in plan
    assert "Seq Scan" not in plan


@gate("mcp.face.bounded")
@ERAS
def test_a_tenant_opens_a_bounded_number_and_its_open_ones_go_on(
    acme: Tenancy, globex: Tenancy, era: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    changed = settings.TOOLSYS.model_copy(update={"mcp_open_conversations": 2})
    monkeypatch.setattr(settings, "TOOLSYS", changed)
    first, _ = peer(acme, OLD), peer(acme, NEW).ask("tools/list")
    with tenant_transaction(acme.id):
        before = Run.objects.count()
    assert begun(acme, era) == "request.throttled"
    with tenant_transaction(acme.id):
        assert Run.objects.count() == before, "nothing was written for it"
    assert first.ask("tools/list").status == 200
    assert begun(globex, era) == "", "another tenant's are its own"
    assert first.post(None, "DELETE").status == 204
    assert begun(acme, era) == ""


@gate("mcp.face.bounded")
def test_who_was_silent_for_a_day_takes_no_place_and_returns(acme: Tenancy, monkeypatch: pytest.MonkeyPatch) -> None:
    changed = settings.TOOLSYS.model_copy(update={"mcp_open_conversations": 1})
    monkeypatch.setattr(settings, "TOOLSYS", changed)
    client = peer(acme, NEW)
    client.ask("tools/list")
    age(acme, 1.1)
    assert begun(acme, NEW) == ""
    assert client.ask("tools/list").status == 200, "it is no new one"


@gate("mcp.face.bounded")
def test_the_open_ones_are_counted_through_an_index(acme: Tenancy) -> None:
    with transaction.atomic(using="operator"), connections["operator"].cursor() as cursor:
        cursor.execute("SET LOCAL enable_seqscan = off")
        cursor.execute(
            "EXPLAIN SELECT count(*) FROM (SELECT 1 FROM mcp_client_sessions WHERE tenant_id = %s AND closed_at IS NULL"
            " AND last_call_at > clock_timestamp() - interval '1 day' LIMIT 10000) found", [acme.id],
        )  # fmt: skip
        plan = "\n".join(row[0] for row in cursor.fetchall())
    assert "mcp_conversation_is_open" in plan


def begun(tenancy: Tenancy, era: str) -> str:
    """Begin a conversation with a key of its own; return the reason why not."""
    client = Peer.of(tenancy)
    given = {"protocolVersion": OLD, "capabilities": {}, "clientInfo": {"name": "peer", "version": "1"}}
    message = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": given}
    answer = client.post(message) if era == OLD else client.ask("tools/list")
    return answer.refusal[2] if "error" in answer.body else ""
