"""Which path leads to which edge."""

from django.http import HttpRequest, HttpResponse
from django.urls import include, path

from config.admin_site import site


def healthz(request: HttpRequest) -> HttpResponse:
    return HttpResponse("ok\n", content_type="text/plain")


urlpatterns = [
    path("healthz", healthz),
    path("v1/", include("toolsys.api.urls")),
    path("admin/", site.urls),
]
