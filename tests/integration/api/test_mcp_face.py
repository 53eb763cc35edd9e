"""The MCP face over a real database: one step a call, the same call again is the same step, and what is refused."""

import json
from collections.abc import Callable, Iterator
from typing import Any
from uuid import UUID

import pytest
from django.conf import settings
from django.db import connections

from tests.factories import Tenancy, approver
from tests.integration.api.mcp_peer import NEW, OLD, TASKS, Answer, Peer
from tests.races.crowd import together
from tests.spec.requirements import gate
from toolsys import conversations, provisioning, services
from toolsys.domain.reasons import reason
from toolsys.models import ApiKey, ApprovalRequest, Invocation, McpClientSession, McpProposal, Run, Tenant
from toolsys.ports import Runtime
from toolsys.problems import Problem
from toolsys.tenancy import tenant_transaction

pytestmark = pytest.mark.slow

ERAS = pytest.mark.parametrize("era", [OLD, NEW])
CANONICAL_FAULT = (
    '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"demo.echo","arguments":{"text":NaN}}}'
)


def peer(tenancy: Tenancy, era: str, **names: str) -> Peer:
    found = Peer.of(tenancy, **names)
    return found.shake() if era == OLD else found


@pytest.fixture(autouse=True)
def _connections(database: None) -> Iterator[None]:
    yield
    connections.close_all()


def rows(tenancy: Tenancy) -> list[Invocation]:
    with tenant_transaction(tenancy.id):
        return list(Invocation.objects.order_by("id"))


def at_once(count: int, asked: Callable[[], Answer]) -> list[Answer]:
    """Ask so many times at the same moment."""
    answers = [each for each in together([asked] * count) if isinstance(each, Answer)]
    assert len(answers) == count
    return answers


def work(tenancy: Tenancy, worker: Runtime, answer: Answer) -> None:
    services.advance_step(tenancy.id, worker, invocation_id=UUID(answer.meta["toolsys/invocation-id"]))


def decide(tenancy: Tenancy, *, approved: bool) -> None:
    """Leave the only request as a decision of people does."""
    with tenant_transaction(tenancy.id):
        request = ApprovalRequest.objects.get()
        request.status = "approved" if approved else "rejected"
        request.votes = [{"user": approver(tenancy.id).pk, "seat": seat} for seat in request.seats]
        request.decided_at = request.created_at
        request.consume_by = request.expires_at
        request.rejection_code = None if approved else "policy.approval.expert_rejected"
        request.save()


@gate("mcp.face.tools")
@ERAS
def test_the_pinned_tools_are_listed_in_one_stable_order(acme: Tenancy, era: str) -> None:
    client = peer(acme, era)
    listed = client.ask("tools/list").result
    names = [tool["name"] for tool in listed["tools"]]
    assert names == sorted(names)
    assert {"demo.echo", "demo.external_write", "system.time"} <= set(names)
    echo = next(tool for tool in listed["tools"] if tool["name"] == "demo.echo")
    assert echo["inputSchema"]["type"] == "object"
    assert echo["annotations"] == {
        "readOnlyHint": True, "destructiveHint": False, "idempotentHint": True, "openWorldHint": False,
    }  # fmt: skip
    assert "outputSchema" not in echo
    assert client.ask("tools/list").result == listed
    assert client.ask("tools/list", {"cursor": "x"}).refusal[1:] == (-32602, "mcp.parameters_invalid")


@gate("mcp.face.call")
@ERAS
def test_a_call_is_one_step_of_one_call_and_its_outcome_is_collected_once(
    acme: Tenancy, worker: Runtime, era: str
) -> None:
    client = peer(acme, era)
    first = client.call("demo.echo", {"text": "hello"})
    assert first.result["isError"] is True, "it has not run yet, and says so"
    assert first.result["structuredContent"] == {
        "status": "in_progress", "action": "demo.echo", "reason_code": "mcp.in_progress",
        "message": reason("mcp.in_progress").message, "retryable": True, "remediation": "retry_later",
    }  # fmt: skip
    work(acme, worker, first)
    again = client.call("demo.echo", {"text": "hello"})
    assert (again.result["isError"], again.said) == (False, ["hello"])
    assert again.result["structuredContent"] == {"text": "hello"}, "it is not from outside"
    assert again.meta["toolsys/invocation-id"] == first.meta["toolsys/invocation-id"]
    assert again.meta["toolsys/is-replay"] is True
    other = client.call("demo.echo", {"text": "hello"})
    assert other.meta["toolsys/invocation-id"] != first.meta["toolsys/invocation-id"], "collected: this one is new"
    assert [row.step_number for row in rows(acme)] == [1, 2]
    assert {row.call_id for row in rows(acme)} == {"call"}


@gate("mcp.face.attach")
@ERAS
def test_two_of_the_same_call_at_once_are_one(acme: Tenancy, worker: Runtime, era: str) -> None:
    client = peer(acme, era)
    answers = at_once(4, lambda: client.call("demo.echo", {"text": "same"}))
    assert len({answer.meta["toolsys/invocation-id"] for answer in answers}) == 1
    assert len(rows(acme)) == 1


@gate("mcp.face.attach")
@ERAS
def test_other_arguments_another_order_of_keys_and_another_conversation(acme: Tenancy, era: str) -> None:
    client = peer(acme, era)
    one = client.call("math.evaluate", {"expression": "1 + 1"})
    other = client.call("math.evaluate", {"expression": "1 + 2"})
    assert one.meta["toolsys/invocation-id"] != other.meta["toolsys/invocation-id"]
    a = client.call("demo.external_write", {"line": "x", "hold": False})
    b = client.call("demo.external_write", {"hold": False, "line": "x"})
    assert a.meta["toolsys/invocation-id"] == b.meta["toolsys/invocation-id"]
    elsewhere = Peer(acme, client.key, names={**client.names, "toolsys-session": "another"})
    apart = (elsewhere.shake() if era == OLD else elsewhere).call("math.evaluate", {"expression": "1 + 1"})
    assert apart.meta["toolsys/run-id"] != one.meta["toolsys/run-id"]


@gate("mcp.face.attach")
@ERAS
def test_an_answer_that_nobody_reads_to_its_end_is_not_collected(acme: Tenancy, worker: Runtime, era: str) -> None:
    client = peer(acme, era)
    work(acme, worker, client.call("demo.echo", {"text": "lost"}))
    with tenant_transaction(acme.id):
        proposal = McpProposal.objects.get()
    from toolsys.api.mcp_messages import Reply, result

    noted: list[Any] = []
    sent: Any = result(7, Reply({"content": []}, collects=proposal.id), noted.append)
    parts = iter(sent.streaming_content)
    first = next(parts)
    assert noted == [], "who is gone now is not asked for the rest"
    whole = first + next(parts)
    assert (noted, json.loads(whole)["id"], len(whole)) == ([proposal.id], 7, int(sent["Content-Length"]))
    assert first + b"}" == whole


@gate("mcp.face.attach")
def test_a_retry_of_the_same_request_of_a_session_is_the_same_call_even_when_collected(
    acme: Tenancy, worker: Runtime
) -> None:
    client = peer(acme, OLD)
    first = client.call("demo.echo", {"text": "r"}, id="req-1")
    work(acme, worker, first)
    assert client.call("demo.echo", {"text": "r"}, id="req-1").said == ["r"]
    assert client.call("demo.echo", {"text": "r"}, id="req-1").said == ["r"], "its answer was lost on the way"
    assert client.call("demo.echo", {"text": "r"}, id=1).meta["toolsys/step-number"] == 2
    assert client.call("demo.echo", {"text": "other"}, id="req-1").meta["toolsys/step-number"] == 3
    assert len(rows(acme)) == 3


@gate("mcp.face.attach")
@ERAS
def test_an_idempotency_key_names_one_call_for_ever(acme: Tenancy, worker: Runtime, era: str) -> None:
    client = peer(acme, era)
    first = client.call("demo.echo", {"text": "k"}, **{"idempotency-key": "order-1"})
    work(acme, worker, first)
    for _ in range(2):
        again = client.call("demo.echo", {"text": "k"}, **{"idempotency-key": "order-1"})
        assert (again.said, again.meta["toolsys/step-number"]) == (["k"], 1)
    meta = {"toolsys/idempotency-key": "order-2"}
    other = client.ask("tools/call", {"name": "demo.echo", "arguments": {"text": "k"}, "_meta": meta})
    assert other.meta["toolsys/step-number"] == 2
    reused = client.call("demo.echo", {"text": "else"}, **{"idempotency-key": "order-1"})
    assert reused.refusal[1:] == (-32602, "mcp.key_reused")
    bad = client.call("demo.echo", {"text": "k"}, **{"idempotency-key": "a b"})
    assert bad.refusal[1:] == (-32602, "mcp.parameters_invalid")
    assert len(rows(acme)) == 2


@gate("mcp.face.held")
@ERAS
@pytest.mark.parametrize("approved", [True, False], ids=["approved", "rejected"])
def test_a_held_call_is_collected_by_the_same_call_later(
    acme: Tenancy, worker: Runtime, era: str, approved: bool
) -> None:
    client = peer(acme, era)
    held = client.call("demo.external_write", {"line": "x"})
    assert held.result["structuredContent"]["status"] == "waiting_for_approval"
    assert held.meta["toolsys/approval-id"]
    assert held.said[1].startswith("Call the same tool with the same arguments again")
    decide(acme, approved=approved)
    work(acme, worker, held)
    collected = client.call("demo.external_write", {"line": "x"})
    assert collected.meta["toolsys/invocation-id"] == held.meta["toolsys/invocation-id"]
    fields = collected.result["structuredContent"]
    # The effect server of this test run is not there: nothing was sent, which is known.
    expected = ("unavailable", "tool.server_unreachable") if approved else ("denied", "policy.approval.expert_rejected")
    assert (fields["status"], fields["reason_code"]) == expected
    assert len(rows(acme)) == 1
    with tenant_transaction(acme.id):
        assert ApprovalRequest.objects.count() == 1


@gate("mcp.face.held")
def test_a_held_call_is_a_task_for_who_speaks_tasks(acme: Tenancy, worker: Runtime) -> None:
    client = peer(acme, NEW)
    client.capabilities = {"extensions": {TASKS: {}}}
    created = client.call("demo.external_write", {"line": "x"}, prefer="wait=20").result
    assert (created["resultType"], created["status"], "content" in created) == ("task", "working", False)
    got = client.ask("tasks/get", {"taskId": created["taskId"]}).result
    assert (got["resultType"], got["status"], got["taskId"]) == ("complete", "working", created["taskId"])
    decide(acme, approved=False)
    services.advance_step(acme.id, worker, invocation_id=UUID(created["taskId"]))
    done = client.ask("tasks/get", {"taskId": created["taskId"]}).result
    assert (done["status"], done["result"]["isError"]) == ("completed", True)
    assert done["result"]["structuredContent"]["reason_code"] == "policy.approval.expert_rejected"
    assert client.ask("tasks/update", {"taskId": created["taskId"], "inputResponses": {}}).result["resultType"]
    assert client.call("demo.external_write", {"line": "x"}).result["taskId"] != created["taskId"], "collected"


@gate("mcp.face.held")
def test_a_task_is_cancelled_by_its_id_and_belongs_to_its_key(acme: Tenancy, globex: Tenancy, worker: Runtime) -> None:
    client = peer(acme, NEW)
    client.capabilities = {"extensions": {TASKS: {}}}
    task = client.call("demo.external_write", {"line": "x"}).result["taskId"]
    for stranger in (peer(acme, NEW), peer(globex, NEW)):
        stranger.capabilities = client.capabilities
        for method in ("tasks/get", "tasks/cancel", "tasks/update"):
            assert stranger.ask(method, {"taskId": task}).refusal == (400, -32602, "mcp.task_unknown")
    assert client.ask("tasks/get", {"taskId": "nothing"}).refusal == (400, -32602, "mcp.task_unknown")
    assert client.ask("tasks/cancel", {"taskId": task}).result["resultType"] == "complete"
    services.advance_step(acme.id, worker, invocation_id=UUID(task))
    assert client.ask("tasks/get", {"taskId": task}).result["status"] == "cancelled"
    client.capabilities = {}
    refused = client.ask("tasks/get", {"taskId": task})
    assert refused.refusal == (400, -32021, "mcp.capability_missing")
    assert refused.body["error"]["data"]["requiredCapabilities"] == {"extensions": {TASKS: {}}}


@gate("mcp.face.outcomes")
@ERAS
@pytest.mark.parametrize(
    ("name", "arguments", "status", "code"),
    [("nope.tool", {}, "denied", "policy.matrix.unknown_tool"),
     ("demo.echo", {"tex": 1}, "failed", "tool.arguments_invalid")],
)  # fmt: skip
def test_the_fault_of_a_call_is_its_outcome_in_six_fields(
    acme: Tenancy, era: str, name: str, arguments: Any, status: str, code: str
) -> None:
    refused = peer(acme, era).call(name, arguments)
    assert refused.result["isError"] is True
    assert refused.result["structuredContent"] == {
        "status": status, "action": name, "reason_code": code, "message": reason(code).message,
        "retryable": reason(code).retryable, "remediation": reason(code).remediation.value,
    }  # fmt: skip
    assert json.loads(refused.said[0]) == refused.result["structuredContent"]
    assert len(rows(acme)) == 1


@gate("mcp.face.outcomes")
def test_arguments_with_no_one_meaning_are_the_calls_fault(acme: Tenancy) -> None:
    refused = peer(acme, OLD).post(CANONICAL_FAULT)
    assert refused.result["structuredContent"]["reason_code"] == "tool.arguments_invalid"


@gate("mcp.face.outcomes")
@ERAS
def test_an_unknown_outcome_says_so_and_invites_no_retry(acme: Tenancy, worker: Runtime, era: str) -> None:
    client = peer(acme, era)
    held = client.call("demo.external_write", {"line": "x"})
    with tenant_transaction(acme.id):
        ApprovalRequest.objects.update(status="voided")
        Invocation.objects.update(
            status="uncertain", outcome_status="uncertain", reason_code="tool.outcome_unknown",
            completed_at="2026-11-30T00:00:00Z",
        )  # fmt: skip
    unknown = client.call("demo.external_write", {"line": "x"})
    assert unknown.meta["toolsys/invocation-id"] == held.meta["toolsys/invocation-id"]
    assert unknown.status == 200
    assert unknown.result["structuredContent"] == {
        "status": "uncertain", "action": "demo.external_write", "reason_code": "tool.outcome_unknown",
        "message": "The outcome of this call is unknown. Do not repeat it.", "retryable": False, "remediation": "none",
    }  # fmt: skip
    repeated = client.call("demo.external_write", {"line": "x"})
    assert repeated.result["structuredContent"]["reason_code"] == "tool.repeat_uncertain"


@gate("mcp.face.tenants")
def test_anothers_session_is_not_found_and_a_key_opens_only_its_own(acme: Tenancy, globex: Tenancy) -> None:
    client = peer(acme, OLD)
    held = client.call("demo.external_write", {"line": "secret"})
    for stranger in (Peer.of(globex), Peer.of(acme)):
        stranger.session = client.session
        for answer in (
            stranger.ask("tools/list"), stranger.call("demo.external_write", {"line": "secret"}),
            stranger.post(None, "DELETE"), stranger.notify("notifications/cancelled", {"requestId": 1}),
        ):  # fmt: skip
            assert answer.refusal[1:] == (-32000, "mcp.session_unknown")
            assert answer.status == 404
    other = peer(globex, NEW).call("demo.external_write", {"line": "secret"})
    assert other.meta["toolsys/invocation-id"] != held.meta["toolsys/invocation-id"]
    assert len(rows(acme)) == 1


@gate("mcp.face.tenants")
@ERAS
def test_a_revoked_key_is_told_nothing_from_then_on(acme: Tenancy, worker: Runtime, era: str) -> None:
    client = peer(acme, era)
    begun = client.call("demo.echo", {"text": "x"})
    with tenant_transaction(acme.id):
        key = ApiKey.objects.get(pk=McpClientSession.objects.get().api_key_id)
    provisioning.revoke_api_key(acme.id, key.pk)
    refused = client.call("demo.echo", {"text": "x"})
    assert refused.refusal == (401, -32000, "auth.invalid")
    assert refused.headers["WWW-Authenticate"].startswith("Bearer")
    work(acme, worker, begun)
    assert rows(acme)[0].reason_code == "policy.scope.missing", "what it had proposed is not performed"


@gate("mcp.face.tenants")
@ERAS
def test_what_is_switched_off_is_denied_here_as_everywhere(acme: Tenancy, era: str) -> None:
    client = peer(acme, era)
    client.ask("tools/list")
    Tenant.objects.using("operator").filter(pk=acme.id).update(is_tool_calling_enabled=False)
    assert client.call("demo.echo", {}).result["structuredContent"]["reason_code"] == "policy.feature.disabled"
    Tenant.objects.using("operator").filter(pk=acme.id).update(is_enabled=False)
    assert client.call("demo.echo", {"text": "y"}).result["structuredContent"]["reason_code"] == "policy.switch.off"


@gate("mcp.face.cancel")
def test_a_cancelled_request_ends_its_call_and_only_the_one_that_asked_last_may(acme: Tenancy, worker: Runtime) -> None:
    client = peer(acme, OLD)
    held = client.call("demo.external_write", {"line": "x"}, id=41)
    client.call("demo.external_write", {"line": "x"}, id=42)
    assert client.notify("notifications/cancelled", {"requestId": 41}).status == 202
    assert client.notify("notifications/cancelled", {"requestId": "42"}).status == 202
    assert client.notify("notifications/cancelled", {"requestId": None}).status == 202
    assert rows(acme)[0].cancel_requested_at is None
    assert client.notify("notifications/cancelled", {"requestId": 42}).status == 202
    work(acme, worker, held)
    ended = client.call("demo.external_write", {"line": "x"})
    assert ended.result["structuredContent"]["reason_code"] == "tool.cancelled"


@gate("mcp.face.sessions")
def test_an_ended_session_is_gone_with_what_it_had_not_sent(acme: Tenancy, worker: Runtime) -> None:
    client = peer(acme, OLD)
    held = client.call("demo.external_write", {"line": "x"})
    assert client.post(None, "DELETE").status == 204
    assert client.ask("tools/list").refusal == (404, -32000, "mcp.session_unknown")
    assert client.post(None, "DELETE").refusal == (404, -32000, "mcp.session_unknown")
    work(acme, worker, held)
    assert rows(acme)[0].reason_code == "tool.run_cancelled"


@gate("mcp.face.sessions")
@ERAS
def test_who_was_silent_begins_another_run_and_still_collects_what_was_held(
    acme: Tenancy, worker: Runtime, era: str
) -> None:
    client = peer(acme, era)
    held = client.call("demo.external_write", {"line": "x"})
    with tenant_transaction(acme.id):
        McpClientSession.objects.update(last_call_at="2020-01-01T00:00:00Z")
    again = client.call("demo.external_write", {"line": "x"})
    assert again.meta["toolsys/invocation-id"] == held.meta["toolsys/invocation-id"]
    other = client.call("demo.echo", {"text": "new task"})
    assert other.meta["toolsys/run-id"] != held.meta["toolsys/run-id"]
    with tenant_transaction(acme.id):
        sessions = set(Run.objects.filter(pk__in=[row.run_id for row in rows(acme)]).values_list("session", flat=True))
    assert len(sessions) == (1 if era == OLD else 2), "a handshake pins once, the others with each run"


@gate("mcp.face.sessions")
@ERAS
def test_a_run_that_a_breaker_failed_takes_nothing_until_its_client_was_silent(acme: Tenancy, era: str) -> None:
    client = peer(acme, era)
    for _ in range(3):
        client.call("nope.tool", {})
    refused = client.call("demo.echo", {"text": "x"})
    assert refused.refusal == (200 if era == OLD else 409, -32000, "run.not_open")
    with tenant_transaction(acme.id):
        assert McpProposal.objects.filter(step_number__gt=3).count() == 0, "its place was given back"
        McpClientSession.objects.update(last_call_at="2020-01-01T00:00:00Z")
    assert client.call("demo.echo", {"text": "x"}).result["structuredContent"]["status"] == "in_progress"


@gate("mcp.face.sessions")
def test_two_first_requests_at_once_are_one_conversation(acme: Tenancy) -> None:
    client = peer(acme, NEW)
    answers = at_once(3, lambda: client.ask("tools/list"))
    assert [answer.status for answer in answers] == [200] * 3
    with tenant_transaction(acme.id):
        current = McpClientSession.objects.get()
        still_open = set(Run.objects.filter(status="running").exclude(pk=acme.run.pk).values_list("pk", flat=True))
    assert still_open == {current.run_id}, "who came second left nothing open"


@gate("mcp.face.sessions")
def test_the_agent_is_the_only_one_or_is_named(acme: Tenancy) -> None:
    client = peer(acme, NEW)
    assert client.ask("tools/list").status == 200
    provisioning.save_agent(acme.id, "second", ["system.*"])
    named = peer(acme, NEW, **{"toolsys-agent": "second"})
    assert [tool["name"] for tool in named.ask("tools/list").result["tools"]] == ["system.time"]
    unnamed = peer(acme, NEW)
    assert unnamed.ask("tools/list").refusal == (400, -32602, "request.invalid")
    assert peer(acme, NEW, **{"toolsys-agent": "nobody"}).ask("tools/list").refusal == (400, -32602, "request.invalid")
    long = peer(acme, NEW, **{"toolsys-agent": "a" * 129}).ask("tools/list")
    assert long.refusal == (400, -32602, "mcp.parameters_invalid")
    own = peer(acme, NEW, **{"toolsys-agent": "assistant", "toolsys-principal": ""})
    shown = [tool["name"] for tool in own.ask("tools/list").result["tools"]]
    assert "demo.external_write" not in shown, "a key that names nobody acts for itself, without scopes"


@gate("mcp.face.crash")
@ERAS
def test_who_dies_between_number_and_step_is_followed_by_the_same_call(
    acme: Tenancy, worker: Runtime, era: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = peer(acme, era)
    client.ask("tools/list")
    with monkeypatch.context() as died:
        died.setattr(services, "propose_step", lambda *_: (_ for _ in ()).throw(RuntimeError("killed")))
        assert client.call("demo.echo", {"text": "x"}).refusal[1:] == (-32603, "server.internal")
    assert rows(acme) == []
    after = client.call("demo.echo", {"text": "x"})
    assert after.meta["toolsys/step-number"] == 1, "the number that the dead one took"
    work(acme, worker, after)
    assert client.call("demo.echo", {"text": "x"}).said == ["x"]
    assert len(rows(acme)) == 1


@gate("mcp.face.crash")
def test_a_conversation_has_a_last_number(acme: Tenancy) -> None:
    client = peer(acme, NEW)
    client.ask("tools/list")
    with tenant_transaction(acme.id):
        McpClientSession.objects.update(next_step=conversations.MAXIMUM_STEP + 1)
    assert client.call("demo.echo", {}).refusal == (429, -32000, "request.throttled")
    with tenant_transaction(acme.id):
        assert McpProposal.objects.count() == 0


def test_the_stateless_revision_says_what_it_serves(acme: Tenancy) -> None:
    found = peer(acme, NEW).ask("server/discover").result
    assert found["supportedVersions"] == [NEW]
    assert found["capabilities"] == {"tools": {}, "extensions": {TASKS: {}}}
    assert (found["ttlMs"], found["cacheScope"], found["resultType"]) == (0, "private", "complete")
    with tenant_transaction(acme.id):
        assert McpClientSession.objects.count() == 0, "asking opens nothing"


def test_a_settings_origin_is_answered(acme: Tenancy, monkeypatch: pytest.MonkeyPatch) -> None:
    client = peer(acme, NEW)
    assert client.ask("tools/list", origin="http://testserver").status == 200
    assert client.ask("tools/list", origin="https://evil.example").refusal == (403, -32000, "mcp.origin_refused")
    changed = settings.TOOLSYS.model_copy(update={"mcp_origins": ("https://app.example",)})
    monkeypatch.setattr(settings, "TOOLSYS", changed)
    assert client.ask("tools/list", origin="https://app.example").status == 200
    assert client.ask("tools/list", origin="null").refusal[2] == "mcp.origin_refused"


def test_a_race_for_a_conversation_that_closed_meanwhile_is_told(acme: Tenancy) -> None:
    party = conversations.Party(acme.id, acme.key.id, principal="user-1")
    from toolsys.composition import composed

    opened = conversations.begin(party, OLD, composed())
    conversations.end(party, opened.id, composed())
    with pytest.raises(Problem, match=r"mcp\.session_unknown"):
        conversations.number(opened, "f", "1", None, composed())
