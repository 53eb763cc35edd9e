"""The API's small rules without a database: preferences, pointers, problem bodies, aliases, the document."""

import json
import logging
import threading
from typing import Any

import pytest
import redis
from django.db import OperationalError
from django.http import Http404, HttpRequest
from django.test import RequestFactory
from django.urls import get_resolver, reverse
from rest_framework import exceptions

from toolsys.api import documents, problems, render, schemas, waiting
from toolsys.api.describe import DocumentGenerator
from toolsys.api.waiting import Preference
from toolsys.problems import FieldError, Problem

WRITE_AGAIN = (
    "manage.py spectacular --format openapi-json --file toolsys/api/openapi.json "
    "--generator-class toolsys.api.describe.DocumentGenerator"
)


def sent(path: str = "/v1/runs/x", prefer: str = "") -> HttpRequest:
    request = RequestFactory().get(path, headers={"prefer": prefer})
    request.request_id = "req-1"  # type: ignore[attr-defined]
    return request


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        ("", Preference(10.0)),
        ("wait=5", Preference(5.0, "wait=5")),
        ("wait=0", Preference(0.0, "wait=0")),
        ("wait=999999", Preference(55.0, "wait=55")),
        ("respond-async", Preference(0.0, "respond-async")),
        ("respond-async, wait=3", Preference(3.0, "wait=3")),
        ("return=minimal; wait=3", Preference(3.0, "wait=3")),
        ("wait=-1", Preference(10.0)),
        ("await=5", Preference(10.0)),
    ],
)
def test_what_the_caller_prefers(header: str, expected: Preference) -> None:
    assert waiting.preference(sent(prefer=header), 10.0) == expected


def test_where_no_place_is_left_nobody_waits_and_nothing_is_confirmed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting, "_places", threading.BoundedSemaphore(0))
    waiter: Any = None
    assert waiting.wait(waiter, lambda: "as far", lambda _: False, Preference(30.0, "wait=30")) == (
        "as far", Preference(0.0),
    )  # fmt: skip


def errors_of(kind: type[schemas._Body], value: Any) -> tuple[FieldError, ...]:
    with pytest.raises(Problem) as problem:
        schemas.read(kind, value)
    assert problem.value.reason_code == "request.invalid"
    return problem.value.errors


def test_each_field_at_fault_is_named_once_and_no_value_is_told() -> None:
    call = {"call_id": "a b", "name": "x.y", "arguments": {}, "more": "secret"}
    found = errors_of(schemas.StepRequest, {"step_number": 1, "calls": [call]})
    assert [error.pointer for error in found] == ["/calls/0/call_id", "/calls/0/more"]
    assert not any("secret" in error.message or "a b" in error.message for error in found)


def test_pointers_are_escaped_and_bounded() -> None:
    found = errors_of(schemas.EmptyRequest, {"a/b~c": 1, "x" * 5000: 1} | {str(number): 1 for number in range(100)})
    assert [error.pointer for error in found[:2]] == ["/a~1b~0c", "/" + "x" * 64]
    assert len(found) == schemas.MAXIMUM_ERRORS


@pytest.mark.parametrize("number", [True, "7", 7.5, None, -1, 1_000_001])
def test_a_step_number_is_a_number_and_nothing_like_one(number: Any) -> None:
    calls = [{"call_id": "a", "name": "x.y", "arguments": {}}]
    (error,) = errors_of(schemas.StepRequest, {"step_number": number, "calls": calls})
    assert error.pointer == "/step_number"


@pytest.mark.parametrize("seconds", [True, "5", 0, -1, 8 * 24 * 3600])
def test_a_deadline_is_a_positive_number_of_seconds(seconds: Any) -> None:
    (error,) = errors_of(schemas.RunRequest, {"deadline_seconds": seconds})
    assert error.pointer == "/deadline_seconds"
    assert schemas.read(schemas.RunRequest, {"deadline_seconds": 5}).deadline_seconds == 5


def test_a_problem_body_is_the_tables_row_and_nothing_else() -> None:
    response = problems.render(sent(), "step.conflict", [FieldError("/calls", "why")])
    assert response["Content-Type"] == "application/problem+json"
    assert json.loads(response.content) == {
        "type": "urn:toolsys:problem:step.conflict",
        "title": "This step was submitted before with another body.",
        "status": 409,
        "detail": "This step was submitted before with another body.",
        "instance": "/v1/runs/x",
        "code": "step.conflict",
        "request_id": "req-1",
        "retryable": False,
        "errors": [{"pointer": "/calls", "message": "why"}],
    }


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (exceptions.NotAuthenticated(), "auth.missing"),
        (exceptions.AuthenticationFailed(), "auth.invalid"),
        (exceptions.PermissionDenied(), "auth.forbidden"),
        (exceptions.MethodNotAllowed("PUT"), "request.method_not_allowed"),
        (exceptions.NotAcceptable(), "request.not_acceptable"),
        (exceptions.Throttled(), "request.throttled"),
        (Http404(), "request.not_found"),
    ],
)
def test_each_exception_of_the_framework_has_its_code(error: Exception, code: str) -> None:
    assert json.loads(problems.handle(error, {"request": sent()}).content)["code"] == code


@pytest.mark.parametrize("error", [OperationalError("host db1 refused"), redis.ConnectionError("host v1 refused")])
def test_a_service_that_is_away_is_told_with_when_to_come_back(error: Exception) -> None:
    response = problems.handle(error, {"request": sent()})
    assert (response.status_code, response["Retry-After"]) == (503, "2")
    assert b"refused" not in response.content


def test_an_unexpected_error_leaves_its_trace_in_the_log_only(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.ERROR, "toolsys.api"):
        response = problems.handle(ZeroDivisionError("the secret"), {"request": sent()})
    assert (response.status_code, json.loads(response.content)["code"]) == (500, "server.internal")
    assert b"secret" not in response.content
    (record,) = caplog.records
    assert (record.exc_info is not None, vars(record)["request_id"]) == (True, "req-1")


@pytest.mark.parametrize(("path", "kind"), [("/v1/x", "application/problem+json"), ("/x", "text/html; charset=utf-8")])
def test_what_no_view_caught_is_a_problem_for_runtimes_and_a_page_for_people(path: str, kind: str) -> None:
    response = get_resolver().resolve_error_handler(500)(sent(path))
    assert (response.status_code, response["Content-Type"]) == (500, kind)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("math.evaluate", "math__evaluate"),
        ("mcp.time.get_current_time", "mcp__time__get_current_time"),
        ("x.a__b", "x__a__b_4a4c82fe"),
        ("x." + "a" * 90, "x__" + "a" * 52 + "_06f7861a"),
    ],
)
def test_an_alias_is_a_function_of_the_name_and_fits(name: str, expected: str) -> None:
    found = render.alias(name)
    assert len(found) <= render.MAXIMUM_ALIAS
    assert (found, render.alias(name)) == (expected, found)


def test_no_two_names_share_an_alias() -> None:
    names = ["x.a.b", "x.a__b", "x_.a", "x._a", "x__a.b", "x.a_.b", "x.a._b"]
    assert len({render.alias(name) for name in names}) == len(names)


def test_routes_can_still_be_reversed_past_the_catch_all() -> None:
    assert reverse("docs") == "/v1/docs"


def test_the_committed_document_is_current() -> None:
    written = json.loads(json.dumps(DocumentGenerator().get_schema(None, public=True)))  # type: ignore[no-untyped-call]
    assert json.loads(documents.DOCUMENT.read_text()) == written, WRITE_AGAIN
