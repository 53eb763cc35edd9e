"""The approval inbox, the decision page, and several decisions at once. Registered by `config.admin_site`.

A form carries the digest of what was shown and the state that it was shown in: if either changed since, nothing is
decided and the page says so. Nothing acts on GET.
"""

from typing import Any, Final

from django.contrib import messages
from django.contrib.auth import logout
from django.contrib.auth.views import redirect_to_login
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import reverse

from approvals import cases, evidence, fingerprints, grants, inbox, lapses, pace, reauthentication, selectors, services
from approvals.selectors import DecisionView
from toolsys import arguments, inert
from toolsys.composition import composed
from toolsys.console import ReadOnlyAdmin, chip, has_role, is_still, looking_again, parsed_id, tenant_of
from toolsys.domain.reasons import reason
from toolsys.domain.rejections import Rejection
from toolsys.domain.spec import RiskLevel
from toolsys.domain.states import ApprovalStatus
from toolsys.models import ApprovalRequest
from toolsys.problems import FieldError, Problem

TAB_NAMES: Final = {
    "mine": "Waiting for me", "others": "Waiting for others", "decided": "Decided", "expired": "Expired",
}  # fmt: skip
SAID: Final = {
    "approved": "Approved. The call goes on.", "rejected": "Rejected. Nothing is sent.",
    "pending": "Your vote counts. Another seat is still free.", "voided": "Taken back. The approval is void.",
}  # fmt: skip
CHOICES: Final = ("approve", "reject", "withdraw")
REJECTIONS: Final = [(each.value, each.value.replace("_", " ")) for each in Rejection]
WRONG_PASSWORDS: Final = 5
LOOK_SECONDS: Final = 3


class ApprovalRequestAdmin(ReadOnlyAdmin):
    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        if not self.has_view_permission(request):
            raise Http404
        if request.method == "POST":
            return self._several(request)
        tab = request.GET.get("tab", selectors.MINE)
        tab = tab if tab in selectors.TABS else selectors.MINE
        standing = selectors.standing_of(request.user)
        counts, page = selectors.counts(standing), inbox.page(standing, tab, request.GET.get("after", ""))
        context = {
            "title": "Approvals", "tab": tab, "page": page,
            "tabs": [(name, TAB_NAMES[name], counts[name]) for name in selectors.TABS],
            "rows": [(row, row.request, chip(row.request.status)) for row in page.rows],
            "paces": pace.of_people() if tab == "decided" else [],
            "lapses": lapses.of_rules() if tab == "expired" else None,
        }  # fmt: skip
        return self._answer(request, "admin/approvals/inbox.html", context)

    def change_view(
        self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        if not self.has_view_permission(request):
            raise Http404
        view = selectors.decision_view(request.user, parsed_id(object_id), composed().runtime.sealer)
        if view is None:
            raise Http404
        if request.method == "POST":
            return self._decide(request, view)
        return self._page(request, view)

    def _decide(self, request: HttpRequest, view: DecisionView) -> HttpResponse:
        is_reauthenticated = _is_reauthenticated(request)
        if is_reauthenticated is None:
            return redirect_to_login(request.path, reverse("admin:login"))
        try:
            if request.POST.get("seen", view.state) != view.state:
                raise Problem("approval.changed")
            decided = _vote(request, view.request, is_reauthenticated=is_reauthenticated)
        except Problem as problem:
            again = selectors.decision_view(request.user, view.request.pk, composed().runtime.sealer)
            return self._page(request, again or view, problem)
        is_withdrawal = request.POST.get("decision") == "withdraw" and decided.status == "pending"
        messages.success(request, "Your vote is taken back." if is_withdrawal else SAID[decided.status])
        return HttpResponseRedirect(request.path)

    def _page(self, request: HttpRequest, view: DecisionView, problem: Problem | None = None) -> HttpResponse:
        call = view.request.invocation
        said = reason(problem.reason_code) if problem else None
        context = {
            "title": "Decide" if view.may_reject else "Approval", "view": view, "call": call, "problem": said,
            "case": cases.case_of(view.request, view.decision, composed().runtime.sealer), "rejections": REJECTIONS,
            "note": request.POST.get("note", ""), "rejection": request.POST.get("rejection", ""),
            "errors": {error.pointer[1:]: error.message for error in problem.errors} if problem else {},
            "status_chip": chip("expired" if view.is_expired else view.request.status),
            "call_chip": chip(call.outcome_status or call.status),
            "outcome": reason(call.reason_code).message if call.reason_code else "",
            "raw": inert.pretty(call.arguments), "may_propose": has_role(request, *grants.MAKERS),
            "is_still": is_still(request),
        }  # fmt: skip
        answer = self._answer(request, "admin/approvals/decision.html", context, said.http_status if said else None)
        return looking_again(answer, request, LOOK_SECONDS) if view.is_going_on and not problem else answer

    def _several(self, request: HttpRequest) -> HttpResponse:
        """Show what was ticked in full; a second POST, with the digests of this page, decides each by itself."""
        is_reauthenticated = _is_reauthenticated(request)
        if is_reauthenticated is None:
            return redirect_to_login(request.path, reverse("admin:login"))
        ticked = [parsed_id(each) for each in request.POST.getlist("request")[: services.BULK_REJECTIONS + 1]]
        shown, note = inbox.chosen(ticked), request.POST.get("note", "")
        if not shown:
            messages.warning(request, "Tick what you want to decide together.")
            return HttpResponseRedirect(request.path)
        pending = [row for row in shown if row.status == ApprovalStatus.PENDING]
        altered = evidence.altered_among(pending, composed().runtime.sealer)
        marks = fingerprints.of_calls([row.invocation for row in shown], composed().runtime.sealer)
        lines = {row.pk: fingerprints.marked(arguments.rows(row.invocation.arguments), marks.get(row.invocation_id, {}))
                for row in shown}  # fmt: skip
        context = {
            "title": f"Decide {len(shown)} together", "rejections": REJECTIONS, "note": note,
            "rows": [(row, lines[row.pk], altered.get(row.pk, [])) for row in shown],
            "may_approve": not altered
            and len(shown) <= services.BULK_APPROVALS
            and len({row.invocation.tool_name for row in shown}) == 1
            and all(row.invocation.risk != RiskLevel.HIGH for row in shown),
            "limits": (services.BULK_APPROVALS, services.BULK_REJECTIONS),
        }  # fmt: skip
        if request.POST.get("decision") not in {"approve", "reject"}:
            return self._answer(request, "admin/approvals/several.html", context)
        try:
            found = services.decide_many(
                tenant_id=tenant_of(request), user=request.user, note=note,
                shown=[(row.pk, request.POST.get(f"digest-{row.pk}", "")) for row in shown],
                is_approval=request.POST["decision"] == "approve", sealer=composed().runtime.sealer,
                rejection=_rejection(request), is_reauthenticated=is_reauthenticated,
            )  # fmt: skip
        except Problem as problem:
            said = reason(problem.reason_code)
            context |= {"problem": said, "errors": {error.pointer[1:]: error.message for error in problem.errors}}
            return self._answer(request, "admin/approvals/several.html", context, said.http_status)
        names = {row.pk: row.invocation.tool_name for row in shown}
        context["decided"] = [
            (each.request_id, names[each.request_id], chip(each.status) if each.status else "",
             reason(each.reason_code).message if each.reason_code else "")
            for each in found
        ]  # fmt: skip
        return self._answer(request, "admin/approvals/several.html", context)

    def _answer(
        self, request: HttpRequest, template: str, context: dict[str, Any], status: int | None = None
    ) -> HttpResponse:
        shared = {**self.admin_site.each_context(request), "opts": self.opts, **context}
        return TemplateResponse(request, template, shared, status=status)


def _vote(request: HttpRequest, shown: ApprovalRequest, *, is_reauthenticated: bool) -> ApprovalRequest:
    """One service call. Raises: Problem."""
    choice, note = request.POST.get("decision", ""), request.POST.get("note", "")
    if choice not in CHOICES:
        raise Problem("request.invalid", [FieldError("/decision", "approve, reject or withdraw")])
    who: dict[str, Any] = {"tenant_id": shown.tenant_id, "request_id": shown.pk, "user": request.user, "note": note}
    if choice == "withdraw":
        return services.withdraw(**who)
    return services.decide(
        **who, is_approval=choice == "approve", digest=request.POST.get("digest", ""),
        sealer=composed().runtime.sealer,
        rejection=_rejection(request) if choice == "reject" else None, is_reauthenticated=is_reauthenticated,
    )  # fmt: skip


def _rejection(request: HttpRequest) -> Rejection | None:
    """What the agent is to be told beside the rejection; nothing, where nothing of the list was chosen."""
    sent = request.POST.get("rejection", "")
    is_rejection = request.POST.get("decision") == "reject"
    return Rejection(sent) if is_rejection and sent in set(Rejection) else None


def _is_reauthenticated(request: HttpRequest) -> bool | None:
    """Check the password that was sent, if any; None: it was wrong too often, and the session has ended.

    Whoever holds somebody's session must not be able to try passwords in it for as long as they like.
    """
    password = request.POST.get("password", "")
    if not password:
        return False
    try:
        if reauthentication.is_confirmed(request.user, password[:4_096]):
            request.session.pop("wrong_passwords", None)
            return True
    except Problem:
        request.session["wrong_passwords"] = WRONG_PASSWORDS
    wrong = request.session.get("wrong_passwords", 0) + 1
    request.session["wrong_passwords"] = wrong
    if wrong >= WRONG_PASSWORDS:
        logout(request)
        return None
    return False


PAGES = {ApprovalRequest: ApprovalRequestAdmin}
