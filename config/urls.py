"""Which path leads to which edge."""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import include, path
from django.views import defaults

from config import metrics
from config.admin_site import site
from toolsys.api import mcp_view, problems
from toolsys.api.middleware import is_ours


def healthz(request: HttpRequest) -> HttpResponse:
    return HttpResponse("ok\n", content_type="text/plain")


urlpatterns = [
    path("healthz", healthz),
    path("mcp", mcp_view.serve),
    path("v1/", include("approvals.api")),
    path("metrics", metrics.view),
    path("v1/", include("toolsys.api.urls")),
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


def handler500(request: HttpRequest) -> HttpResponse:
    """What no view caught: a problem body for runtimes, a page for people."""
    if is_ours(request):
        return problems.internal(request)
    return defaults.server_error(request)
