"""What a runtime may get wrong, and how much of its preference is kept: over a real database."""

import json
import threading
import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from django.db import DataError, InterfaceError, OperationalError, ProgrammingError, connections
from django.test import Client

from tests.factories import Tenancy, approve
from tests.integration.api.test_api import GOOD, Api, code
from tests.spec.requirements import gate
from toolsys import selectors, services, wakeups
from toolsys.domain.calls import Disposition, Progress
from toolsys.models import Run
from toolsys.ports import Runtime
from toolsys.tenancy import tenant_transaction


@pytest.fixture
def api(acme: Tenancy) -> Iterator[Api]:
    yield Api(acme)
    connections.close_all()


def held(api: Api) -> Any:
    response = api.propose("demo.external_write", {"line": "x"})
    assert (response.status_code, response.json()["status"]) == (202, "waiting_for_approval")
    return response


@gate("policy.names")
@pytest.mark.parametrize(
    "written", ["demo.ech\N{CYRILLIC SMALL LETTER O}", "Demo.echo", "demo echo", "demo.echo\u200b", "demo.echo\n", ""],
    ids=["looks like it", "capital", "space", "invisible", "line", "empty"],
)  # fmt: skip
def test_a_manifest_of_what_no_tool_can_be_called_is_refused(api: Api, written: str) -> None:
    runs = f"/v1/sessions/{api.tenancy.session.id}/runs"
    answer = api.send("POST", runs, {"manifest": ["math.*", written]})
    assert (answer.status_code, code(answer)) == (422, "request.invalid")
    assert answer.json()["errors"][0]["pointer"] == "/manifest/1"
    assert api.send("POST", runs, {"manifest": ["math.*", "demo.echo"]}).status_code == 201


@pytest.mark.parametrize("text", ['{"text": "a", "text": "b"}', '{"text":', "[1]", "", '{"text": NaN}', '{"a":' * 5000])
def test_a_string_of_arguments_with_no_one_meaning_runs_nothing(api: Api, text: str) -> None:
    response = api.propose("demo.echo", text)
    (call,) = response.json()["calls"]
    assert (response.status_code, call["outcome"]["reason_code"]) == (200, "tool.arguments_invalid")
    assert api.propose("demo.echo", text)["Idempotent-Replayed"] == "true"
    assert api.rows() == 2


def test_one_models_bad_arguments_leave_the_calls_beside_it_alone(api: Api, worker: Runtime) -> None:
    calls = [
        {"call_id": "bad", "name": "demo.echo", "arguments": '{"text": '},
        {"call_id": "good", "name": "demo.echo", "arguments": '{"text": "x"}'},
    ]
    bad, good = api.send("POST", api.steps, {"step_number": 1, "calls": calls}).json()["calls"]
    assert (bad["outcome"]["reason_code"], good["status"]) == ("tool.arguments_invalid", "authorized")
    services.advance_step(api.tenancy.id, worker, invocation_id=good["invocation_id"])
    done = api.send("GET", f"{api.steps}/1").json()
    assert [call["status"] for call in done["calls"]] == ["failed", "succeeded"]


@pytest.mark.parametrize("number", [True, "1", 1.5])
def test_a_step_number_that_only_looks_like_one_writes_nothing(api: Api, number: Any) -> None:
    assert code(api.send("POST", api.steps, {**GOOD, "step_number": number})) == "request.invalid"
    assert api.rows() == 0


@pytest.mark.parametrize(
    ("body", "expected"), [("garbage", "request.malformed"), ({"x": 1}, "request.invalid"), ("[]", "request.invalid")]
)
@pytest.mark.parametrize("verb", ["cancel", "end"])
def test_ending_a_run_takes_no_body_but_an_empty_one(api: Api, verb: str, body: Any, expected: str) -> None:
    path = f"/v1/runs/{api.tenancy.run.id}/{verb}"
    assert code(api.send("POST", path, body)) == expected
    with tenant_transaction(api.tenancy.id):
        assert Run.objects.get(pk=api.tenancy.run.id).status == "running"
    assert api.send("POST", path).status_code == 200
    assert code(api.send("POST", path, {})) == "run.not_open"


def test_an_expired_run_takes_no_step(api: Api) -> None:
    with tenant_transaction(api.tenancy.id):
        Run.objects.filter(pk=api.tenancy.run.id).update(deadline_at="2020-01-01T00:00:00Z")
    assert code(api.send("POST", api.steps, GOOD)) == "run.expired"
    assert api.rows() == 0


def test_an_ended_run_and_an_unknown_one_take_no_step(api: Api) -> None:
    assert code(api.send("POST", f"/v1/runs/{uuid.uuid4()}/steps", GOOD)) == "request.not_found"
    api.send("POST", f"/v1/runs/{api.tenancy.run.id}/end")
    assert code(api.send("POST", api.steps, GOOD)) == "run.not_open"
    assert api.rows() == 0


@pytest.mark.parametrize(
    "path", ["", "nowhere", "a%0Ab", "runs/not-a-uuid", "runs/{run}/steps/99999999999999", "runs/{run}/steps/7"]
)
def test_what_is_not_there_is_a_problem_too(api: Api, path: str) -> None:
    assert code(api.send("GET", "/v1/" + path.format(run=api.tenancy.run.id))) == "request.not_found"


def test_methods_that_nothing_answers_are_refused(api: Api) -> None:
    for method in ("PUT", "PATCH", "DELETE", "OPTIONS"):
        assert code(api.send(method, f"/v1/runs/{api.tenancy.run.id}")) == "request.method_not_allowed"


@pytest.mark.parametrize("query", ["cursor=zz", "limit=101", "limit=%D9%A3", "limit=x"])
def test_a_page_that_cannot_be_is_refused(api: Api, query: str) -> None:
    path = f"/v1/runs/{api.tenancy.run.id}/invocations?{query}"
    assert code(api.send("GET", path)) == "request.invalid"


def test_a_held_call_answers_at_once_and_says_what_it_waits_for(api: Api) -> None:
    response = api.propose("demo.external_write", {"line": "x"}, prefer="wait=30")
    (call,) = response.json()["calls"]
    assert (response.status_code, response["Preference-Applied"]) == (202, "wait=30")
    assert (call["status"], call["outcome"], call["approval_id"] is None) == ("waiting_for_approval", None, False)


def test_a_call_that_has_not_begun_is_told_in_its_place(api: Api) -> None:
    calls = [
        {"call_id": "a", "name": "demo.external_write", "arguments": {"line": "x"}},
        {"call_id": "b", "name": "demo.echo", "arguments": {}},
    ]
    found = api.send("POST", api.steps, {"step_number": 1, "calls": calls}).json()["calls"]
    assert [(call["call_id"], call["status"]) for call in found] == [
        ("a", "waiting_for_approval"),
        ("b", "not_started"),
    ]
    assert found == api.send("GET", f"{api.steps}/1").json()["calls"]


def test_reading_does_not_wait_unless_asked(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    response = held(api)

    def until(*arguments: Any) -> None:
        raise AssertionError("nobody asked to wait")

    monkeypatch.setattr(wakeups.Waiter, "until", until)
    path = f"/v1/invocations/{response.json()['calls'][0]['invocation_id']}"
    for address in (path, response["Location"]):
        answer = api.send("GET", address, prefer="")
        assert (answer.status_code, "Preference-Applied" in answer) == (202, False)
        assert answer["Location"] == address


@pytest.mark.parametrize("address", ["/v1/invocations/{id}", "/v1/runs/{run}/steps/1"])
def test_a_reader_may_wait_for_people(api: Api, worker: Runtime, address: str) -> None:
    known = Disposition(uuid.UUID(held(api).json()["calls"][0]["invocation_id"]), Progress.HELD)
    answers: list[Any] = []

    def ask() -> None:
        path = address.format(id=known.invocation_id, run=api.tenancy.run.id)
        answers.append(api.send("GET", path, prefer="wait=20"))
        connections.close_all()

    asking = threading.Thread(target=ask)
    asking.start()
    key, nap = wakeups.step_key(api.tenancy.run.id, 1), threading.Event()
    for _ in range(500):
        if key in wakeups.HUB._waiters or answers:
            break
        nap.wait(0.01)
    approve(api.tenancy, known, digest="0" * 64)
    services.advance_step(api.tenancy.id, worker, invocation_id=known.invocation_id)
    asking.join(25)
    (answer,) = answers
    assert (answer.status_code, answer["Preference-Applied"]) == (200, "wait=20")
    assert b"policy.approval.voided" in answer.content


@pytest.mark.parametrize("path", ["/v1/openapi.json", "/v1/docs", "/v1/docs?script="])
def test_the_document_and_its_page_need_no_key_and_fit_the_policy(database: None, path: str) -> None:
    response = Client().get(path, headers={"accept": "text/html"})
    body = b"".join(response) if response.streaming else response.content
    assert response.status_code == 200
    assert "unsafe-inline" not in response["Content-Security-Policy"]
    assert not any(inline in body for inline in (b"<style", b"<script>", b" style="))


def test_the_document_is_openapi_3_1_by_its_own_schema(database: None) -> None:
    from drf_spectacular.validation import validate_schema

    document = Client().get("/v1/openapi.json").json()
    assert document["openapi"].startswith("3.1")
    validate_schema(document)  # type: ignore[no-untyped-call]
    shown = json.dumps(document)
    assert all(f"#/components/schemas/{name}" in shown for name in ("Problem", "Step", "StepRequest", "Call"))


@gate("api.problems")
def test_a_host_that_is_not_ours_gets_a_problem_body() -> None:
    answer = Client(raise_request_exception=False).get("/v1/runs/x", headers={"host": "evil.example"})
    assert (answer.status_code, answer.json()["code"]) == (400, "request.malformed")
    assert b"evil" not in answer.content


@gate("api.problems")
@pytest.mark.parametrize(
    ("error", "expected"),
    [(OperationalError, "server.unavailable"), (InterfaceError, "server.unavailable"), (DataError, "server.internal"),
     (ProgrammingError, "server.internal")],
)  # fmt: skip
def test_only_what_another_try_may_mend_invites_one(
    acme: Tenancy, monkeypatch: pytest.MonkeyPatch, error: type[Exception], expected: str
) -> None:
    def fail(*_arguments: object, **_options: object) -> None:
        raise error("column secret")

    api = Api(acme)
    monkeypatch.setattr(selectors, "run", fail)
    answer = api.send("GET", f"/v1/runs/{acme.run.id}")
    assert code(answer) == expected
    assert b"secret" not in answer.content
