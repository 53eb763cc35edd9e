"""The REST API over a real database: bad input writes nothing, outcomes have six fields, waiting is woken."""

import json
import threading
from collections.abc import Iterator
from typing import Any
from uuid import UUID

import pytest
from django.db import connections
from django.http import HttpResponse
from django.test import Client

from tests.factories import Tenancy
from tests.scripted import Scripted
from tests.spec.requirements import gate
from toolsys import provisioning, services
from toolsys.api import waiting
from toolsys.domain.reasons import reason
from toolsys.domain.results import ToolResult
from toolsys.models import Invocation, RunStep
from toolsys.ports import Runtime
from toolsys.tenancy import tenant_transaction


class Api:
    """A runtime's view of one tenant."""

    def __init__(self, tenancy: Tenancy) -> None:
        self.tenancy = tenancy
        self.key = provisioning.create_api_key(tenancy.id, "api", ["demo.write"])[1]
        self.steps = f"/v1/runs/{tenancy.run.id}/steps"

    def send(self, method: str, path: str, body: Any = None, **headers: str) -> Any:
        data = body if isinstance(body, str | bytes) else json.dumps(body)
        sent = {"authorization": f"Bearer {self.key}", "prefer": "respond-async", **headers}
        kind = sent.pop("content-type", "application/json")
        with_body: dict[str, Any] = {"data": data, "content_type": kind} if body is not None else {}
        return Client(raise_request_exception=False).generic(method, path, headers=sent, **with_body)

    def propose(self, name: str, arguments: Any, step: int = 1, **headers: str) -> Any:
        body = {"step_number": step, "calls": [{"call_id": "a", "name": name, "arguments": arguments}]}
        return self.send("POST", self.steps, body, **headers)

    def rows(self) -> int:
        with tenant_transaction(self.tenancy.id):
            run = self.tenancy.run
            return Invocation.objects.filter(run=run).count() + RunStep.objects.filter(run=run).count()


@pytest.fixture
def api(acme: Tenancy) -> Iterator[Api]:
    yield Api(acme)
    connections.close_all()


def code(response: HttpResponse) -> str:
    body = json.loads(response.content)
    assert response["Content-Type"] == "application/problem+json"
    assert (body["status"], body["title"]) == (response.status_code, reason(body["code"]).message)
    assert body["request_id"] == response["Request-Id"]
    return str(body["code"])


GOOD = {"step_number": 1, "calls": [{"call_id": "a", "name": "demo.echo", "arguments": {}}]}
BAD_BODIES = [
    ('{"step_number": 1', "request.malformed", 400),
    ("\x00", "request.malformed", 400),
    ('{"step_number": 1, "step_number": 2, "calls": []}', "request.malformed", 400),
    ("[" * 100_000, "request.malformed", 400),
    ('{"step_number": NaN, "calls": []}', "request.malformed", 400),
    ("[]", "request.invalid", 422),
    ({**GOOD, "surprise": 1}, "request.invalid", 422),
    ({**GOOD, "calls": []}, "request.invalid", 422),
    ({**GOOD, "calls": [{"call_id": "a", "name": "x.y", "arguments": {}, "extra": 1}]}, "request.invalid", 422),
    ({**GOOD, "calls": [{"call_id": "a b", "name": "x.y", "arguments": {}}]}, "request.invalid", 422),
    ({**GOOD, "step_number": -1}, "request.invalid", 422),
    ({**GOOD, "calls": GOOD["calls"] * 2}, "step.duplicate_call_id", 422),  # type: ignore[operator]
]


@gate("api.problems")
@gate("problem.writes_nothing")
@pytest.mark.parametrize(("body", "expected", "status"), BAD_BODIES)
def test_a_bad_body_is_a_problem_and_writes_nothing(api: Api, body: Any, expected: str, status: int) -> None:
    response = api.send("POST", api.steps, body)
    assert (code(response), response.status_code, api.rows()) == (expected, status, 0)


@gate("api.problems")
def test_wrong_types_and_sizes_are_refused_before_reading(api: Api) -> None:
    assert code(api.send("POST", api.steps, GOOD, **{"content-type": "text/plain"})) == "request.unsupported_media_type"
    assert code(api.send("POST", api.steps, json.dumps(GOOD) + " " * 1_100_000)) == "request.too_large"
    assert code(api.send("PUT", api.steps, GOOD)) == "request.method_not_allowed"
    assert api.rows() == 0


@gate("api.auth")
@pytest.mark.parametrize(
    ("header", "expected"),
    [("", "auth.missing"), ("Basic abc", "auth.missing"), ("Bearer nonsense", "auth.invalid"),
     ("Bearer tsk_00000000_" + "A" * 43, "auth.invalid")],
)  # fmt: skip
def test_without_a_live_key_nothing_is_told(api: Api, header: str, expected: str) -> None:
    response = api.send("GET", f"/v1/runs/{api.tenancy.run.id}", authorization=header)
    assert (code(response), response.status_code) == (expected, 401)
    assert response["WWW-Authenticate"].startswith("Bearer")


@gate("api.auth")
def test_a_revoked_key_opens_nothing(api: Api) -> None:
    with tenant_transaction(api.tenancy.id):
        from toolsys.models import ApiKey

        row = ApiKey.objects.get(name="api")
    provisioning.revoke_api_key(api.tenancy.id, row.pk)
    assert code(api.send("GET", f"/v1/runs/{api.tenancy.run.id}")) == "auth.invalid"


@gate("api.other_tenant")
def test_another_tenants_ids_are_not_found(api: Api, globex: Tenancy) -> None:
    (theirs,) = globex.propose(("demo.echo", {"text": "secret"}))
    answers = [
        api.send("GET", f"/v1/runs/{globex.run.id}"),
        api.send("GET", f"/v1/runs/{globex.run.id}/invocations"),
        api.send("POST", f"/v1/runs/{globex.run.id}/steps", GOOD),
        api.send("POST", f"/v1/runs/{globex.run.id}/cancel", {}),
        api.send("GET", f"/v1/invocations/{theirs.invocation_id}"),
        api.send("POST", f"/v1/invocations/{theirs.invocation_id}/cancel", {}),
        api.send("GET", f"/v1/sessions/{globex.session.id}"),
        api.send("POST", f"/v1/sessions/{globex.session.id}/runs", {}),
        api.send("GET", "/v1/nowhere"),
    ]
    assert {code(answer) for answer in answers} == {"request.not_found"}
    assert not any(b"Globex" in answer.content or globex.id.encode() in answer.content for answer in answers)


@gate("pipeline.refused")
@pytest.mark.parametrize(
    ("name", "arguments", "status", "reason_code"),
    [("nope.tool", {}, "denied", "policy.matrix.unknown_tool"),
     ("demo.echo", {"tex": 1}, "failed", "tool.arguments_invalid"),
     ("math.evaluate", '{"expression": 3}', "failed", "tool.arguments_invalid")],
)  # fmt: skip
def test_a_fault_of_one_call_is_an_outcome_with_six_fields(
    api: Api, name: str, arguments: Any, status: str, reason_code: str
) -> None:
    response = api.propose(name, arguments)
    (call,) = response.json()["calls"]
    row = reason(reason_code)
    assert response.status_code == 200
    assert call["outcome"] == {
        "status": status, "action": name, "reason_code": reason_code, "message": row.message,
        "retryable": row.retryable, "remediation": row.remediation,
    }  # fmt: skip
    assert api.rows() == 2


@gate("key.raw_space")
def test_arguments_without_a_canonical_form_are_that_calls_fault(api: Api) -> None:
    raw = (
        '{"step_number": 1, "calls": [{"call_id": "a", "name": "demo.echo", "arguments": {"text": "x", "text": "y"}}]}'
    )
    first, again = (api.send("POST", api.steps, raw) for _ in range(2))
    assert first.json()["calls"][0]["outcome"]["reason_code"] == "tool.arguments_invalid"
    assert again.json()["calls"][0]["invocation_id"] == first.json()["calls"][0]["invocation_id"]
    assert again["Idempotent-Replayed"] == "true"


@gate("steps.conflict")
def test_the_same_step_with_another_body_conflicts_and_with_the_same_replays(api: Api) -> None:
    first = api.propose("demo.echo", {"text": "x"})
    assert first.status_code == 202
    assert first["Location"] == f"{api.steps}/1"
    reordered = '{"calls": [{"arguments": {"text": "x"}, "name": "demo.echo", "call_id": "a"}], "step_number": 1}'
    assert (
        api.send("POST", api.steps, reordered).json()["calls"][0]["invocation_id"]
        == (first.json()["calls"][0]["invocation_id"])
    )
    assert code(api.propose("demo.echo", {"text": "y"})) == "step.conflict"


@gate("api.wait")
def test_a_waiting_request_is_woken_by_the_outcome(api: Api, worker: Runtime) -> None:
    answers: list[Any] = []

    def ask() -> None:
        answers.append(api.propose("demo.echo", {"text": "x"}, prefer="wait=20"))
        connections.close_all()

    asking = threading.Thread(target=ask)
    asking.start()
    for _ in range(400):
        with tenant_transaction(api.tenancy.id):
            row = Invocation.objects.filter(run=api.tenancy.run).first()
        if row is not None:
            break
        threading.Event().wait(0.02)
    assert row is not None
    services.advance_step(api.tenancy.id, worker, invocation_id=row.pk)
    asking.join(10)
    (answer,) = answers
    assert (answer.status_code, answer.json()["status"]) == (200, "completed")
    assert answer.json()["calls"][0]["content"] == [{"type": "text", "text": "x"}]


@gate("api.wait_cap")
def test_where_no_place_to_wait_is_left_the_answer_is_202_at_once(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    places = threading.BoundedSemaphore(1)
    monkeypatch.setattr(waiting, "_places", places)
    assert places.acquire(blocking=False)
    refused = api.propose("demo.echo", {"text": "x"}, prefer="wait=60")
    assert (refused.status_code, "Preference-Applied" in refused.headers) == (202, False)
    places.release()
    waited = api.send("GET", refused.headers["Location"], prefer="wait=1")
    assert (waited.status_code, waited.headers["Preference-Applied"]) == (202, "wait=1")
    assert places.acquire(blocking=False), "who has waited leaves the place"


@gate("api.wait")
def test_without_waiting_the_answer_is_202_with_where_to_ask(api: Api, worker: Runtime) -> None:
    response = api.propose("demo.echo", {"text": "x"})
    assert (response.status_code, response.json()["status"]) == (202, "in_progress")
    invocation_id = response.json()["calls"][0]["invocation_id"]
    services.advance_step(api.tenancy.id, worker, invocation_id=invocation_id)
    assert api.send("GET", f"/v1/invocations/{invocation_id}").json()["outcome"]["status"] == "succeeded"
    assert api.send("GET", response["Location"]).json()["status"] == "completed"


def test_a_run_lists_its_invocations_in_pages(api: Api) -> None:
    for step in range(5):
        api.propose("nope.tool", {"number": step}, step=step)
    path = f"/v1/runs/{api.tenancy.run.id}/invocations"
    seen, cursor = [], ""
    for _ in range(3):
        page = api.send("GET", f"{path}?limit=2{cursor}").json()
        seen += [call["step_number"] for call in page["data"]]
        cursor = f"&cursor={page['next_cursor']}"
    assert (seen, page["has_more"]) == ([0, 1, 2, 3, 4], False)
    assert code(api.send("GET", f"{path}?limit=0")) == "request.invalid"


def test_sessions_render_tools_for_each_kind_of_runtime(api: Api) -> None:
    body = {"agent": "assistant", "principal": "user-1"}
    opened = {form: api.send("POST", f"/v1/sessions?format={form}", body) for form in ("native", "openai", "mcp")}
    assert {answer.status_code for answer in opened.values()} == {201}
    assert len({answer.json()["tool_schema_sha256"] for answer in opened.values()}) == 1
    assert opened["openai"].json()["names"]["demo__echo"] == "demo.echo"
    assert "inputSchema" in opened["mcp"].json()["tools"][0]
    assert code(api.send("POST", "/v1/sessions", {"agent": "nobody", "principal": "x"})) == "request.invalid"


def test_a_request_id_is_echoed_only_when_it_is_sane(api: Api) -> None:
    path = f"/v1/runs/{api.tenancy.run.id}"
    assert api.send("GET", path, **{"request-id": "abc-1"})["Request-Id"] == "abc-1"
    assert api.send("GET", path, **{"request-id": "<script>"})["Request-Id"] != "<script>"


def test_the_openapi_document_is_valid_and_describes_every_answer(api: Api) -> None:
    import jsonschema

    from toolsys.api.answers import ANSWERS

    document = Client().get("/v1/openapi.json").json()
    assert document["openapi"].startswith("3.1")
    assert "/v1/runs/{run_id}/steps" in document["paths"]
    step = api.propose("nope.tool", {}).json()
    jsonschema.validate(step, ANSWERS["Step"])
    jsonschema.validate(api.send("GET", f"/v1/runs/{api.tenancy.run.id}").json(), ANSWERS["Run"])
    invocation = api.send("GET", f"/v1/invocations/{step['calls'][0]['invocation_id']}").json()
    jsonschema.validate(invocation, ANSWERS["Call"])


@gate("gate.8")
def test_simultaneous_submissions_of_one_step_are_one_invocation_executed_once(api: Api, worker: Runtime) -> None:
    barrier, answers = threading.Barrier(6), []

    def ask() -> None:
        barrier.wait(10)
        answers.append(api.propose("demo.echo", {"text": "x"}))
        connections.close_all()

    threads = [threading.Thread(target=ask) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert {answer.status_code for answer in answers} == {202}
    assert len({answer.json()["calls"][0]["invocation_id"] for answer in answers}) == 1
    assert api.rows() == 2
    tool = Scripted.echo(ToolResult(ok=True))
    (one,) = {answer.json()["calls"][0]["invocation_id"] for answer in answers}
    for _ in answers:
        services.advance_step(api.tenancy.id, tool.installed_in(worker), invocation_id=UUID(one))
    assert len(tool.sent) == 1
