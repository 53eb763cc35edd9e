"""The approval inbox and the decision page. Registered on the console's site by `config.admin_site`.

The form carries the digest of what was shown: if the request changed since, nothing is decided and the page says so.
"""

from typing import Any
from uuid import UUID

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse

from approvals import selectors, services
from toolsys import inert
from toolsys.console import ReadOnlyAdmin
from toolsys.domain.reasons import reason
from toolsys.models import ApprovalRequest
from toolsys.problems import Problem

TAB_NAMES = {
    "mine": "Waiting for me", "others": "Waiting for others", "decided": "Decided", "expired": "Expired",
}  # fmt: skip


class ApprovalRequestAdmin(ReadOnlyAdmin):
    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        if not self.has_view_permission(request):
            raise Http404
        tab = request.GET.get("tab", "mine")
        tab = tab if tab in selectors.TABS else "mine"
        counts = selectors.counts(request.user)
        context = {
            **self.admin_site.each_context(request), "title": "Approvals", "opts": self.opts, "tab": tab,
            "tabs": [(name, TAB_NAMES[name], counts[name]) for name in selectors.TABS],
            "requests": selectors.inbox(request.user, tab),
        }  # fmt: skip
        return TemplateResponse(request, "admin/approvals/inbox.html", context)

    def change_view(
        self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        view = selectors.decision_view(request.user, _uuid(object_id)) if self.has_view_permission(request) else None
        if view is None:
            raise Http404
        if request.method == "POST":
            return self._decide(request, view.request)
        context = {
            **self.admin_site.each_context(request), "title": "Decide", "opts": self.opts, "view": view,
            "arguments": inert.pretty(view.request.invocation.arguments),
            "blocked": reason(view.blocked_by).message if view.blocked_by else "",
            "matched": inert.pretty(view.decision.matched) if view.decision else "",
        }  # fmt: skip
        return TemplateResponse(request, "admin/approvals/decision.html", context)

    def _decide(self, request: HttpRequest, shown: ApprovalRequest) -> HttpResponse:
        is_approval = request.POST.get("decision") == "approve"
        try:
            services.decide(
                tenant_id=shown.tenant_id, request_id=shown.pk, user=request.user, is_approval=is_approval,
                note=request.POST.get("note", ""), digest=request.POST.get("digest", ""),
            )  # fmt: skip
        except Problem as problem:
            said = "; ".join(error.message for error in problem.errors)
            messages.error(request, reason(problem.reason_code).message + (f" ({said})" if said else ""))
        else:
            messages.success(request, "Approved. The call goes on." if is_approval else "Rejected. Nothing is sent.")
        return HttpResponseRedirect(request.path)


def _uuid(text: str) -> UUID:
    try:
        return UUID(text)
    except ValueError:
        raise Http404 from None


PAGES = {ApprovalRequest: ApprovalRequestAdmin}
