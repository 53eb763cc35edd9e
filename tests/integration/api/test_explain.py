"""`GET /v1/invocations/{id}/explain`: the fourteen steps for a runtime, without people's names and inner details."""

from approvals import policy_services
from tests.factories import Tenancy
from tests.integration.api.test_api import Api, api, code
from tests.integration.approvals.test_policy import author
from tests.integration.console.conftest import hold
from tests.integration.console.people import PASSWORD, person
from tests.spec.requirements import gate
from toolsys import explanations
from toolsys.domain.states import Role
from toolsys.ports import Runtime
from toolsys.tenancy import tenant_transaction

__all__ = ["api", "author"]


@gate("console.explain")
def test_a_runtime_reads_what_each_step_saw_and_decided(api: Api, author: object) -> None:
    policy_services.save_rule(tenant_id=api.tenancy.id, user=author, name="no", verdict="block", match={})
    (denied,) = api.tenancy.propose(("demo.echo", {"text": "x"}))
    body = api.send("GET", f"/v1/invocations/{denied.invocation_id}/explain").json()
    assert (body["status"], body["reason_code"], body["name"]) == ("denied", "policy.rule.block", "demo.echo")
    assert [step["number"] for step in body["steps"]] == list(range(1, 15))
    (deciding,) = (step for step in body["steps"] if step["is_deciding"])
    assert (deciding["number"], "block by no@1" in deciding["decided"]) == (6, True)


@gate("console.explain")
def test_it_names_no_person_and_no_inner_detail(api: Api, worker: Runtime) -> None:
    held = hold(api.tenancy)
    approver = person((api.tenancy, Role.EXPERT_APPROVER))
    approver.post(held.page, decision="approve", digest=held.request.digest, password=PASSWORD)
    api.tenancy.work(worker, held.disposition)
    said = api.send("GET", f"/v1/invocations/{held.request.invocation_id}/explain").content.decode()
    assert approver.user.username not in said
    with tenant_transaction(api.tenancy.id):
        for_people = explanations.explain(held.request.invocation_id)
    assert for_people is not None
    assert approver.user.username in for_people.steps[6].decided
    (unfit,) = api.tenancy.propose(("demo.echo", {"text": 5}))
    told = api.send("GET", f"/v1/invocations/{unfit.invocation_id}/explain").json()
    assert told["steps"][3]["decided"] == "refused: tool.arguments_invalid"


def test_a_foreign_or_unknown_call_is_not_found(api: Api, globex: Tenancy) -> None:
    (foreign,) = globex.propose(("demo.echo", {"text": "x"}))
    for identifier in (foreign.invocation_id, api.tenancy.run.id):
        assert code(api.send("GET", f"/v1/invocations/{identifier}/explain")) == "request.not_found"
