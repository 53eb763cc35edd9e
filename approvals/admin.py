"""The approval inbox and the decision page. Registered on the console's site by `config.admin_site`.

The form carries the digest of what was shown: if the request changed since, nothing is decided and the page says so.
"""

from typing import Any, Final

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse

from approvals import reauthentication, selectors, services
from approvals.selectors import DecisionView
from toolsys import inert
from toolsys.console import ReadOnlyAdmin, chip, parsed_id
from toolsys.domain.reasons import reason
from toolsys.models import ApprovalRequest
from toolsys.problems import FieldError, Problem

TAB_NAMES: Final = {
    "mine": "Waiting for me", "others": "Waiting for others", "decided": "Decided", "expired": "Expired",
}  # fmt: skip
SAID: Final = {"approve": "Approved. The call goes on.", "reject": "Rejected. Nothing is sent."}


class ApprovalRequestAdmin(ReadOnlyAdmin):
    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        if not self.has_view_permission(request):
            raise Http404
        tab = request.GET.get("tab", selectors.MINE)
        tab = tab if tab in selectors.TABS else selectors.MINE
        counts = selectors.counts(request.user)
        context = {
            **self.admin_site.each_context(request), "title": "Approvals", "opts": self.opts, "tab": tab,
            "tabs": [(name, TAB_NAMES[name], counts[name]) for name in selectors.TABS],
            "rows": [(row, chip(row.status)) for row in selectors.inbox(request.user, tab)],
        }  # fmt: skip
        return TemplateResponse(request, "admin/approvals/inbox.html", context)

    def change_view(
        self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        if not self.has_view_permission(request):
            raise Http404
        view = selectors.decision_view(request.user, parsed_id(object_id))
        if view is None:
            raise Http404
        if request.method == "POST":
            return self._decide(request, view)
        return self._page(request, view)

    def _decide(self, request: HttpRequest, view: DecisionView) -> HttpResponse:
        choice, shown = request.POST.get("decision", ""), view.request
        try:
            if choice not in SAID:
                raise Problem("request.invalid", [FieldError("/decision", "approve or reject")])
            services.decide(
                tenant_id=shown.tenant_id, request_id=shown.pk, user=request.user, is_approval=choice == "approve",
                note=request.POST.get("note", ""), digest=request.POST.get("digest", ""),
                is_reauthenticated=reauthentication.is_confirmed(request.user, request.POST.get("password", "")),
            )  # fmt: skip
        except Problem as problem:
            again = selectors.decision_view(request.user, shown.pk)
            return self._page(request, again or view, problem, note=request.POST.get("note", ""))
        messages.success(request, SAID[choice])
        return HttpResponseRedirect(request.path)

    def _page(
        self, request: HttpRequest, view: DecisionView, problem: Problem | None = None, note: str = ""
    ) -> HttpResponse:
        call = view.request.invocation
        said = reason(problem.reason_code) if problem else None
        context = {
            **self.admin_site.each_context(request), "title": "Decide" if view.may_decide else "Approval",
            "opts": self.opts, "view": view, "call": call, "note": note, "problem": said,
            "errors": {error.pointer[1:]: error.message for error in problem.errors} if problem else {},
            "status_chip": chip("expired" if view.is_expired else view.request.status),
            "call_chip": chip(call.outcome_status or call.status),
            "outcome": reason(call.reason_code).message if call.reason_code else "",
            "arguments": inert.pretty(call.arguments),
            "matched": inert.pretty(view.decision.matched) if view.decision else "",
        }  # fmt: skip
        return TemplateResponse(
            request, "admin/approvals/decision.html", context, status=said.http_status if said else None
        )


PAGES = {ApprovalRequest: ApprovalRequestAdmin}
