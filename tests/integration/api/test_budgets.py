"""A run's budget of calls: set when it begins, counted where a call begins, told to whoever asks."""

import json
from typing import Any

import pytest

from tests.factories import Tenancy
from tests.integration.api.test_api import Api
from tests.spec.requirements import gate


@pytest.fixture
def api(acme: Tenancy) -> Api:
    return Api(acme)


def run_with(api: Api, budgets: Any) -> Any:
    answer = api.send("POST", f"/v1/sessions/{api.tenancy.session.id}/runs", {"budgets": budgets})
    return answer.status_code, json.loads(answer.content)


def step(api: Api, run_id: str, number: int, *calls: tuple[str, Any]) -> list[Any]:
    """Propose a step and return (outcome's status, reason) of each call; None where it goes on."""
    body = {"step_number": number, "calls": [
        {"call_id": f"c{index}", "name": name, "arguments": arguments} for index, (name, arguments) in enumerate(calls)
    ]}  # fmt: skip
    answer = json.loads(api.send("POST", f"/v1/runs/{run_id}/steps", body).content)
    outcomes = [call.get("outcome") for call in answer["calls"]]
    return [(each["status"], each["reason_code"]) if each else None for each in outcomes]


ECHO: tuple[str, Any] = ("demo.echo", {"text": "x"})
WRITE: tuple[str, Any] = ("demo.external_write", {"line": "x"})
NO_SUCH: tuple[str, Any] = ("demo.nothing", {})
SPENT = ("denied", "tool.budget_spent")


@gate("run.budget")
def test_a_run_begins_as_many_calls_as_its_budget_allows(api: Api) -> None:
    """A held call has begun; a refused one costs nothing, and the same step again is a replay."""
    status, run = run_with(api, {"calls": 2})
    assert (status, run["calls_left"]) == (201, 2)
    assert step(api, run["id"], 1, NO_SUCH) == [("denied", "policy.matrix.unknown_tool")]
    assert step(api, run["id"], 2, WRITE) == [None]
    assert step(api, run["id"], 2, WRITE) == [None]
    assert step(api, run["id"], 3, ECHO) == [None]
    assert step(api, run["id"], 4, ECHO) == [SPENT]
    assert json.loads(api.send("GET", f"/v1/runs/{run['id']}").content)["calls_left"] == 0


@gate("run.budget")
def test_a_group_that_does_not_fit_runs_in_order_and_ends_where_the_budget_does(api: Api) -> None:
    """TS "The admission check": the batch fits the remaining tool budget."""
    _, run = run_with(api, {"calls": 1})
    assert step(api, run["id"], 1, ECHO, ECHO)[0] is None
    read = json.loads(api.send("GET", f"/v1/runs/{run['id']}/steps/1").content)
    assert len([call for call in read["calls"] if call.get("invocation_id")]) == 1, "the second waits for the first"


@gate("run.budget")
def test_a_run_without_a_budget_is_not_counted(api: Api) -> None:
    for budgets in ({}, {"calls": None}):
        status, run = run_with(api, budgets)
        assert (status, run["calls_left"]) == (201, None)
    assert step(api, run["id"], 1, ECHO) == [None]


@gate("run.budget")
@pytest.mark.parametrize(
    ("budgets", "pointer"),
    [({"tokens": 5}, "/budgets/tokens"), ({"calls": 0}, "/budgets/calls"), ({"calls": "2"}, "/budgets/calls"),
     ({"calls": 1.5}, "/budgets/calls"), ([], "/budgets")],
    ids=["unknown", "none", "text", "half", "list"],
)  # fmt: skip
def test_a_budget_that_nobody_would_keep_is_refused(api: Api, budgets: Any, pointer: str) -> None:
    status, body = run_with(api, budgets)
    assert (status, body["code"], body["errors"][0]["pointer"]) == (422, "request.invalid", pointer)
