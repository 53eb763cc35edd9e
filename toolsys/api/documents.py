"""The OpenAPI document as it is committed beside this file, and a page to try it.

The document is written by `describe.DocumentGenerator` through `manage.py spectacular`; a test
says when it is out of date, and with which command. The page has no inline script or style: the content security
policy allows neither.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

from django.http import HttpRequest, HttpResponse
from django.template import engines
from django.views.decorators.http import require_safe
from drf_spectacular.views import SpectacularSwaggerSplitView
from rest_framework.renderers import TemplateHTMLRenderer

_HERE: Final = Path(__file__).parent
DOCUMENT: Final = _HERE / "openapi.json"
PAGE: Final = "docs.html"


@require_safe
def openapi(request: HttpRequest) -> HttpResponse:
    return HttpResponse(DOCUMENT.read_bytes(), content_type="application/json")


class _Page(TemplateHTMLRenderer):
    def resolve_template(self, template_names: Iterable[str]) -> Any:
        if PAGE in template_names:
            return engines["django"].from_string((_HERE / PAGE).read_text())
        return super().resolve_template(template_names)


class Docs(SpectacularSwaggerSplitView):
    renderer_classes = [_Page]
    authentication_classes = []
    permission_classes = []
    template_name = PAGE
