"""The pages where people look at what changed: all servers of the organisation, and one server's tools with a diff.

Tenant admins ask for the quarantine; they and operators accept. Called by `mcpcatalog.admin`.
"""

from typing import TYPE_CHECKING
from uuid import UUID

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse

from mcpcatalog import quarantine, review_selectors, reviews
from mcpcatalog.page_selectors import ServerPage
from toolsys.console import has_role, tenant_of
from toolsys.domain.states import Role
from toolsys.problems import Problem

if TYPE_CHECKING:
    from mcpcatalog.admin import McpServerAdmin

CONFLICT = 409


def list_answer(pages: "McpServerAdmin", request: HttpRequest) -> HttpResponse:
    """Show what waits in the organisation; a POST of a tenant admin asks for the quarantine, or ends it."""
    tenant_id, may_ask = tenant_of(request), has_role(request, Role.TENANT_ADMIN)
    if request.method == "POST":
        if not may_ask:
            raise PermissionDenied
        is_on = request.POST.get("quarantine") == "1"
        reviews.ask(tenant_id, is_quarantining=is_on, user=request.user)
        said = "Changed and new tools of reviewed servers wait" if is_on else "Changed and new tools wait no more"
        messages.success(request, f"{said}, for sessions that are opened from now on.")
        return HttpResponseRedirect(reverse("admin:mcpcatalog_mcpserver_reviews"))
    context = {
        "lines": review_selectors.review_lines(tenant_id), "is_asked": quarantine.is_asked(tenant_id),
        "may_ask": may_ask,
    }  # fmt: skip
    return pages.render(request, "reviews.html", "Catalog reviews", context)


def server_answer(pages: "McpServerAdmin", request: HttpRequest, page: ServerPage) -> HttpResponse:
    """Show one server's tools that wait; a POST accepts those that it names, of the catalog that it saw."""
    may_accept = has_role(request, Role.TENANT_ADMIN, Role.OPERATOR)
    is_stale = False
    if request.method == "POST":
        if not may_accept:
            raise PermissionDenied
        chosen = "shown" if request.POST.get("accept") == "shown" else "tool"
        try:
            names = reviews.accept(
                tenant_of(request), page.row.pk, seen=request.POST.get("seen", ""),
                tools=_identifiers(request.POST.getlist(chosen)), user=request.user,
            )  # fmt: skip
        except Problem as problem:
            if problem.reason_code not in {"catalog.changed", "request.not_found"}:
                raise
            is_stale = True
        else:
            if names:
                messages.success(request, f"Accepted: {', '.join(names[:10])}{' …' if len(names) > 10 else ''}.")
            else:
                messages.warning(request, "Nothing was chosen, and nothing is accepted.")
            return HttpResponseRedirect(reverse("admin:mcpcatalog_mcpserver_review", args=[page.row.pk]))
    found = review_selectors.review_page(page.row, page.config)
    context = {"page": page, "row": page.row, "review": found, "may_accept": may_accept, "is_stale": is_stale}
    answer = pages.render(request, "review.html", f"Review {page.row.server_id}", context)
    answer.status_code = CONFLICT if is_stale else answer.status_code
    return answer


def _identifiers(texts: list[str]) -> set[UUID]:
    """Raises: Problem (request.not_found) for what is no id."""
    try:
        return {UUID(text) for text in texts[: review_selectors.SHOWN]}
    except ValueError:
        raise Problem("request.not_found") from None
