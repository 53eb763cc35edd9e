"""`?dry_run=true`: what would become of each call, judged by the pipeline's own steps, and not one row for it."""

import ast
import inspect
from typing import Any

import pytest
from django.apps import apps

from approvals import policy_services
from tests.architecture.rows import tenant_models
from tests.factories import Tenancy
from tests.integration.api.test_api import Api, api, code
from tests.integration.approvals.test_policy import author
from tests.spec.requirements import gate
from toolsys import dryruns, pipeline
from toolsys.domain.trust import TrustLevel
from toolsys.models import Tenant
from toolsys.tenancy import tenant_transaction

__all__ = ["api", "author"]

CALLS: list[tuple[str, str, Any]] = [
    ("goes", "demo.echo", {"text": "hi"}), ("held", "demo.external_write", {"line": "x"}),
    ("blocked", "demo.echo", {"text": "forbidden"}), ("unknown", "demo.nothing", {}),
    ("unfit", "demo.echo", {"text": 5}),
]  # fmt: skip


def asked(api: Api, *calls: tuple[str, str, Any], step: int = 1) -> Any:
    body = {"step_number": step, "calls": [dict(zip(("call_id", "name", "arguments"), call, strict=True))
                                           for call in calls]}  # fmt: skip
    return api.send("POST", f"{api.steps}?dry_run=true", body)


def counted(tenancy: Tenancy) -> dict[str, int]:
    with tenant_transaction(tenancy.id):
        return {model.__name__: model._base_manager.count() for model in tenant_models()}


@gate("policy.dry_run")
def test_each_call_is_foreseen_and_no_row_is_written(api: Api, author: Any) -> None:
    condition = {"pointer": "/text", "operator": "eq", "value": "forbidden"}
    policy_services.save_rule(
        tenant_id=api.tenancy.id, user=author, name="no", verdict="block",
        match={"tools": ["demo.*"], "arguments": [condition]},
    )  # fmt: skip
    before = counted(api.tenancy)
    answered = asked(api, *CALLS)
    assert answered.status_code == 200
    body = answered.json()
    assert (body["status"], body["run_id"], body["step_number"]) == ("dry_run", str(api.tenancy.run.id), 1)
    keys = ("call_id", "outcome_status", "verdict", "reason_code", "rule", "is_held", "seats")
    assert [tuple(call[key] for key in keys) for call in body["calls"]] == [
        ("goes", None, "allow", "policy.matrix.none", "matrix", False, []),
        ("held", None, "require_expert_approval", "policy.matrix.external_write", "matrix", True, ["expert"]),
        ("blocked", "denied", "block", "policy.rule.block", "no@1", False, []),
        ("unknown", "denied", None, "policy.matrix.unknown_tool", None, False, []),
        ("unfit", "failed", None, "tool.arguments_invalid", None, False, []),
    ]  # fmt: skip
    assert len(before) > 15
    assert counted(api.tenancy) == before
    assert len(apps.get_models()) > len(before)


@gate("policy.dry_run")
def test_what_was_foreseen_is_what_happens(api: Api) -> None:
    foreseen = asked(api, *CALLS).json()["calls"]
    for step, call in enumerate(CALLS, start=1):
        (disposition,) = api.tenancy.propose(call[1:], step=step)
        expected = foreseen[step - 1]
        assert (disposition.state == "held") is expected["is_held"]
        assert disposition.outcome_status == expected["outcome_status"] or expected["call_id"] == "blocked"


@gate("policy.dry_run")
def test_a_step_that_exists_may_be_foreseen_again(api: Api) -> None:
    api.tenancy.propose(("demo.external_write", {"line": "y"}), step=1)
    (foreseen,) = asked(api, ("call_0", "demo.external_write", {"line": "y"})).json()["calls"]
    assert foreseen["is_held"]


@gate("policy.dry_run")
def test_a_fault_of_the_request_is_the_same_problem_as_without(api: Api) -> None:
    assert code(api.send("POST", f"{api.steps}?dry_run=maybe", {"step_number": 1, "calls": []})) == "request.invalid"
    assert code(asked(api, CALLS[0], CALLS[0])) == "step.duplicate_call_id"
    Tenant.objects.using("operator").filter(pk=api.tenancy.id).update(is_enabled=False)
    (off,) = asked(api, CALLS[0]).json()["calls"]
    assert (off["outcome_status"], off["reason_code"]) == ("denied", "policy.switch.off")


@gate("policy.dry_run")
def test_a_dry_run_believes_trust_labels_as_a_step_does(acme: Tenancy) -> None:
    from toolsys import services

    labelled = acme.submission(("demo.external_write", {"line": "x"}), context_trust=(TrustLevel.USER,))
    policy_services.set_profile(tenant_id=acme.id, name="default", mildest={})
    (foreseen,) = services.foresee_step(labelled, acme.runtime)
    assert (foreseen.rule, foreseen.seats) == ("matrix", ("expert",))


def called(function: Any) -> list[str]:
    """The steps in the order of their lines, up to the first commit."""
    tree = ast.parse(inspect.getsource(function))
    names = sorted((node.lineno, ast.unparse(node.func)) for node in ast.walk(tree) if isinstance(node, ast.Call))
    return [name for _, name in names if name.startswith("steps.")]


@gate("policy.dry_run")
def test_a_dry_run_takes_the_pipeline_s_steps_in_its_order() -> None:
    of_rows = {"steps.standing_of", "steps.recognize_tool"}  # a dry run never has one
    whole = [name for name in called(pipeline.run) if name not in of_rows]
    assert called(dryruns._foreseen) == whole[: whole.index("steps.weigh_denial") + 1]


@gate("policy.dry_run")
@pytest.mark.parametrize("word", ["commit_", "enqueue", "ring"])
def test_a_dry_run_names_no_commit(word: str) -> None:
    names = {ast.unparse(node.func) for node in ast.walk(ast.parse(inspect.getsource(dryruns)))
             if isinstance(node, ast.Call)}  # fmt: skip
    assert [name for name in names if word in name] == []
