"""Which path leads to which edge."""

from http import HTTPStatus

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import include, path, re_path
from django.views import defaults
from django.views.generic import RedirectView

from config import metrics
from config.admin_site import site
from toolsys.api import mcp_view, problems
from toolsys.api.middleware import is_ours


def healthz(request: HttpRequest) -> HttpResponse:
    return HttpResponse("ok\n", content_type="text/plain")


urlpatterns = [
    # Who types the address alone is a person; runtimes have theirs from the documentation.
    path("", RedirectView.as_view(pattern_name="admin:index")),
    path("v1/", include("toolsys.api.urls")),
    path("v1/", include("approvals.api")),
    path("v1/", include("mcpcatalog.api")),
    re_path(r"^v1/[\s\S]*$", problems.not_found),
    path("mcp", mcp_view.serve),
    path("healthz", healthz),
    path("metrics", metrics.view),
    path("admin/", site.urls),
]


def stale_form(request: HttpRequest, reason: str = "") -> HttpResponse:
    """A form without a valid token: mostly one that was open while its person signed in or switched elsewhere."""
    context = {**site.each_context(request), "title": "This page is out of date"}
    return render(request, "admin/stale_form.html", context, status=403)


def handler400(request: HttpRequest, exception: Exception) -> HttpResponse:
    """What Django refuses before any view: a bad Host header, a path that is no text."""
    if is_ours(request):
        return problems.malformed(request)
    return defaults.bad_request(request, exception)


def handler403(request: HttpRequest, exception: Exception) -> HttpResponse:
    return _refused(request, exception, 403) or defaults.permission_denied(request, exception)


def handler404(request: HttpRequest, exception: Exception) -> HttpResponse:
    return _refused(request, exception, 404) or defaults.page_not_found(request, exception)


def _refused(request: HttpRequest, exception: Exception, status: int) -> HttpResponse | None:
    """A page of the console for people who are signed in there; nothing for everybody else."""
    console = getattr(request, "console", None)
    if console is None or not request.path.startswith("/admin/"):
        return None
    is_missing = status == HTTPStatus.NOT_FOUND
    context = {
        **site.each_context(request), "title": "Not found" if is_missing else "Not allowed", "is_missing": is_missing,
    }  # fmt: skip
    return render(request, "admin/refused.html", context, status=status)


def handler500(request: HttpRequest) -> HttpResponse:
    """What no view caught: a problem body for runtimes, a page for people."""
    if is_ours(request):
        return problems.internal(request)
    return defaults.server_error(request)
