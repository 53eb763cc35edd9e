"""`manage.py policy`: the steps of a call that ran, was held or was turned away; a draft over recorded calls."""

import json
import uuid
from functools import partial
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from approvals import policy_services, replays
from tests.factories import Tenancy, approve
from tests.integration.approvals.test_policy import author
from tests.integration.approvals.test_switch_races import Between, probed
from tests.scripted import Scripted
from tests.spec.requirements import gate
from toolsys import explanations
from toolsys.domain.calls import Disposition
from toolsys.domain.results import ToolResult
from toolsys.explanations import Explanation
from toolsys.models import Tenant
from toolsys.ports import Runtime
from toolsys.tenancy import tenant_transaction

__all__ = ["author"]

WRITE = ("demo.external_write", {"line": "pay 9 to bob"})


def explained(tenancy: Tenancy, disposition: Disposition) -> Explanation:
    with tenant_transaction(tenancy.id):
        found = explanations.explain(disposition.invocation_id)
    assert found is not None
    return found


def decided(found: Explanation) -> list[tuple[int, str]]:
    return [(step.number, step.decided) for step in found.steps if step.is_deciding]


def reached(found: Explanation) -> int:
    return sum(step.decided != explanations.NOT_REACHED for step in found.steps)


def policy(*arguments: str) -> str:
    out = StringIO()
    call_command("policy", *arguments, stdout=out)
    return out.getvalue()


@gate("policy.explain")
def test_a_call_that_ran_passed_fourteen_steps(acme: Tenancy, worker: Runtime) -> None:
    (held,) = acme.propose(WRITE)
    waiting = explained(acme, held)
    assert (reached(waiting), [number for number, _ in decided(waiting)]) == (7, [7])
    approve(acme, held)
    acme.work(Scripted.write(ToolResult(ok=True, content=[])).installed_in(worker), held)
    found = explained(acme, held)
    assert [step.number for step in found.steps] == list(range(1, 15))
    assert (reached(found), [number for number, _ in decided(found)]) == (14, [13])
    assert "consumed" in found.steps[6].decided
    assert "watermark at" in found.steps[9].decided
    assert found.steps[5].decided.startswith("require_expert_approval by matrix (policy.matrix.external_write), epoch")
    assert found.steps[0].times == 2


@gate("policy.explain")
@pytest.mark.parametrize(
    ("call", "step", "reason"),
    [
        (("demo.nothing", {}), 1, "policy.matrix.unknown_tool"),
        (("demo.external_write", {"line": 5}), 4, "tool.arguments_invalid"),
        (WRITE, 6, "policy.rule.block"),
    ],
)
def test_a_call_that_was_turned_away_says_at_which_step(
    acme: Tenancy, author: Any, call: tuple[str, Any], step: int, reason: str
) -> None:
    policy_services.save_rule(tenant_id=acme.id, user=author, name="no", verdict="block", match={"tools": ["demo.*"]})
    (denied,) = acme.propose(call)
    found = explained(acme, denied)
    ((number, said),) = decided(found)
    assert (number, reached(found)) == (step, step)
    assert said.startswith(f"refused: {reason}")


@gate("policy.explain")
def test_a_call_that_a_later_rule_ended_says_both_verdicts(acme: Tenancy, author: Any, worker: Runtime) -> None:
    (held,) = acme.propose(WRITE)
    approve(acme, held)
    policy_services.save_rule(tenant_id=acme.id, user=author, name="no", verdict="block", match={"tools": ["demo.*"]})
    acme.work(worker, held)
    found = explained(acme, held)
    assert [number for number, _ in decided(found)] == [6]
    text = policy("explain", str(held.invocation_id))
    assert len(text.splitlines()) == 15
    assert text.count("* 6 evaluate policy") == 1
    assert "policy.rule.block" in text.splitlines()[0]


@gate("policy.explain")
def test_a_call_that_was_claimed_and_judged_again_says_where_it_ended(
    acme: Tenancy, author: Any, worker: Runtime
) -> None:
    (held,) = acme.propose(WRITE)
    approve(acme, held)
    rule = partial(
        policy_services.save_rule,
        tenant_id=acme.id,
        user=author,
        name="no",
        verdict="block",
        match={"tools": ["demo.*"]},
    )
    acme.work(probed(worker, Between("after_claim", rule)), held)
    found = explained(acme, held)
    ((number, said),) = decided(found)
    assert (number, reached(found)) == (6, 6)
    assert said.startswith("refused: policy.rule.block")


@gate("policy.explain")
def test_an_unknown_call_is_not_explained_and_a_foreign_one_is_not_there(acme: Tenancy, globex: Tenancy) -> None:
    with pytest.raises(CommandError, match="there is no call"):
        policy("explain", str(uuid.uuid4()))
    (held,) = acme.propose(WRITE)
    with tenant_transaction(globex.id):
        assert explanations.explain(held.invocation_id) is None


@gate("policy.replay")
@pytest.mark.parametrize("page", [1, 2, 500])
def test_a_draft_is_replayed_over_what_was_recorded(
    acme: Tenancy, globex: Tenancy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, page: int
) -> None:
    monkeypatch.setattr(replays, "PAGE", page)
    for line in ("pay 9 to bob", "pay 12 to eve", "hello"):
        acme.propose(("demo.external_write", {"line": line}))
    acme.propose(("demo.echo", {"text": "pay"}))
    acme.propose(("demo.nothing", {}))
    globex.propose(WRITE)
    Tenant.objects.using("operator").filter(pk=acme.id).update(is_tool_calling_enabled=False)
    acme.propose(("demo.echo", {"text": "pay"}))
    condition = {"pointer": "/line", "operator": "matches", "value": "pay [0-9]+ to .*"}
    draft = [{"name": "pay", "verdict": "block", "match": {"arguments": [condition]}},
             {"name": "echo", "verdict": "require_client_approval", "match": {"tools": ["demo.echo"]}}]  # fmt: skip
    file = tmp_path / "draft.json"
    file.write_text(json.dumps(draft))
    said = policy("replay", str(file), "--tenant", acme.id, "--last", "100")
    assert "4 calls judged over 1.0 days, 2 left out" in said
    assert "3 verdicts change" in said
    assert "     1 allow -> require_client_approval" in said
    assert "     2 require_expert_approval -> block" in said
    assert "approvals: 3 then, 2 with the draft, -1.0 a day" in said
    assert "pay 9" not in said
    newest = policy("replay", str(file), "--tenant", acme.id, "--last", "3")
    assert "1 calls judged" in newest


@gate("policy.replay")
@pytest.mark.parametrize(
    ("text", "arguments"), [("{", ()), ('[{"name": "x"}]', ()), ("[]", ("--last", "0")), ("[]", ("--tenant", "none"))]
)
def test_a_draft_that_cannot_be_read_is_refused(
    acme: Tenancy, tmp_path: Path, text: str, arguments: tuple[str, ...]
) -> None:
    file = tmp_path / "draft.json"
    file.write_text(text)
    with pytest.raises(CommandError):
        policy("replay", str(file), "--tenant", acme.id, *arguments)


@gate("policy.rules")
def test_a_file_of_rules_is_applied_once(acme: Tenancy, author: Any, tmp_path: Path) -> None:
    file = tmp_path / "rules.json"
    rules: list[dict[str, Any]] = [
        {"name": "no", "verdict": "block", "match": {"tools": ["demo.*"]}},
        {"name": "see", "verdict": "observe"},
    ]
    file.write_text(json.dumps({"rules": rules}))
    arguments = ("apply", str(file), "--tenant", acme.id, "--by", author.username)
    assert policy(*arguments).splitlines() == ["no@1 block", "see@1 observe", "2 rules written, 0 as they were"]
    assert acme.propose(WRITE)[0].reason_code == "policy.rule.block"
    rules[0]["priority"] = 4
    file.write_text(json.dumps(rules))
    assert policy(*arguments).splitlines() == ["no@2 block", "1 rules written, 1 as they were"]
    with pytest.raises(CommandError, match="no active user"):
        policy("apply", str(file), "--tenant", acme.id, "--by", "nobody")


@gate("policy.switches")
def test_switches_are_thrown_from_a_terminal(acme: Tenancy, author: Any) -> None:
    by = ("--tenant", acme.id, "--by", author.username, "--note", "drill")
    for kind, target in (("tool", "demo.external_write"), ("key", str(acme.key.id)), ("tenant", "")):
        assert f"{kind} is off" in policy("switch", kind, "off", "--target", target, *by)
        assert acme.propose(("demo.external_write", {"line": kind}))[0].reason_code == "policy.switch.off"
        assert f"{kind} is on" in policy("switch", kind, "on", "--target", target, *by)
    assert acme.propose(WRITE)[0].state == "held"
    for wrong in (("tool", "off"), ("key", "off", "--target", "x"), ("server", "off", "--target", "x" * 201)):
        with pytest.raises(CommandError):
            policy("switch", *wrong, *by)
    with pytest.raises(CommandError, match=r"request\.not_found"):
        policy("switch", "tenant", "off", "--tenant", "none", "--by", author.username)
