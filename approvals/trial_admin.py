"""Trying policy out: a draft of rules over past calls, and what would become of a call that is not made.

Both read only; both are POSTs because they carry what a person typed. Views for `policy_admin` to hang on its pages.
"""

import json
from typing import Any, Final

from django.http import Http404, HttpRequest, HttpResponse
from django.template.response import TemplateResponse

from approvals import matchers, replays, rule_history
from approvals.policy_forms import ForeseeForm, ReplayForm
from approvals.replays import Replayed
from approvals.rule_forms import RuleForm
from toolsys import inert, services
from toolsys.composition import composed
from toolsys.console import tenant_of
from toolsys.domain.reasons import reason
from toolsys.domain.states import OPEN_RUNS
from toolsys.domain.trust import TrustLevel
from toolsys.models import ApiKey, Run
from toolsys.problems import Problem, plainly
from toolsys.services import CallDraft, StepSubmission

TRIED_CALLS: Final = 1_000
OFFERED: Final = 50


def replay_view(page: Any, request: HttpRequest) -> HttpResponse:
    """Which verdicts a draft would have changed. GET shows the rules in force as a draft to start from."""
    if not page.has_view_permission(request):
        raise Http404
    start = json.dumps(rule_history.as_draft(), indent=2, ensure_ascii=False)
    form = ReplayForm(request.POST if request.method == "POST" else None, initial={"rules": start})
    found = None
    if request.method == "POST" and form.is_valid():
        given = form.cleaned_data
        found = replays.replay(tenant_of(request), given["rules"], given["last"], composed().runtime.sealer)
    context = {
        **page.admin_site.each_context(request), "title": "Try a draft on past calls", "opts": page.opts, "form": form,
        "tried": _shown(found) if found is not None else None,
    }  # fmt: skip
    status = 422 if form.errors else None
    return TemplateResponse(request, "admin/approvals/replay.html", context, status=status)


def tried(request: HttpRequest, form: RuleForm) -> dict[str, Any] | None:
    """Replay the rules in force with this one as the form has it; None, with errors in the form, if it is no rule."""
    given = form.cleaned_data
    drafts = [each for each in rule_history.as_draft() if each["name"] != given["name"]]
    if given["is_active"]:
        drafts.append({key: given[key] for key in ("name", "verdict", "priority", "seats")} | {"match": form.match()})
    try:
        rules = [matchers.parsed(each) for each in drafts]
    except ValueError as error:
        form.add_error(None, "; ".join(plainly(each["msg"]) for each in getattr(error, "errors", list)()))
        return None
    return _shown(replays.replay(tenant_of(request), rules, TRIED_CALLS, composed().runtime.sealer))


def foresee_view(page: Any, request: HttpRequest) -> HttpResponse:
    """What would happen if: steps 1 to 7 of one call, and not one row for it."""
    if not page.has_view_permission(request):
        raise Http404
    form = ForeseeForm(request.POST if request.method == "POST" else None, runs=_runs(), keys=_keys())
    foreseen, said = None, ""
    if request.method == "POST" and form.is_valid():
        try:
            (foreseen,) = services.foresee_step(_submission(request, form.cleaned_data), composed().runtime)
            said = reason(foreseen.reason_code).message if foreseen.is_refused else ""
        except Problem as problem:
            form.add_error(None, reason(problem.reason_code).message)
    context = {
        **page.admin_site.each_context(request), "title": "What would happen if", "opts": page.opts, "form": form,
        "foreseen": foreseen, "said": said,
    }  # fmt: skip
    status = 422 if form.errors else None
    return TemplateResponse(request, "admin/approvals/foresee.html", context, status=status)


def _submission(request: HttpRequest, given: dict[str, Any]) -> StepSubmission:
    """The step number is one that no runtime uses: nothing is written under it."""
    call = CallDraft("call_1", given["tool"], given["arguments"])
    return StepSubmission(
        tenant_id=tenant_of(request), api_key_id=given["key"], run_id=given["run"], step_number=1_000_000,
        calls=(call,), context_trust=tuple(TrustLevel(label) for label in given["context"]), correlation_id="",
        body_hash="",
    )  # fmt: skip


def _runs() -> list[tuple[str, str]]:
    found = Run.objects.filter(status__in=OPEN_RUNS).select_related("session__agent", "session__principal")
    newest = found.order_by("-id")[:OFFERED]
    return [(str(run.pk), inert.visible(f"{_whose(run)}, {run.created_at:%Y-%m-%d %H:%M:%S}")) for run in newest]


def _whose(run: Run) -> str:
    return f"{run.session.agent} for {run.session.principal}"


def _keys() -> list[tuple[str, str]]:
    found = ApiKey.objects.filter(revoked_at=None).order_by("-id")[:OFFERED]
    return [(str(key.pk), inert.visible(str(key))) for key in found]


def _shown(found: Replayed) -> dict[str, Any]:
    changes = [(_plain(then), _plain(now), count) for (then, now), count in sorted(found.changes.items())]
    return {
        "found": found, "changes": changes, "changed": found.changes.total(),
        "a_day": f"{found.approvals_a_day:+.1f}", "examples": [
            (each.call.id, each.call.action.tool_name, _plain(each.call.verdict), _plain(each.verdict), each.rule)
            for each in found.examples
        ],
    }  # fmt: skip


def _plain(verdict: str) -> str:
    return str(verdict).replace("_", " ")
