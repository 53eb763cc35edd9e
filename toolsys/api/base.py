"""What the API's views share: the strict body, the caller, and JSON answers without content negotiation."""

import json
from typing import Any, cast
from uuid import UUID

from django.http import HttpResponse
from rest_framework.negotiation import BaseContentNegotiation
from rest_framework.renderers import JSONRenderer
from rest_framework.request import Request
from rest_framework.views import APIView

from toolsys.api import parsing, schemas
from toolsys.api.authentication import Caller
from toolsys.composition import Composition, composed


class JsonOnly(BaseContentNegotiation):
    """There is one representation; what the caller would rather have changes nothing."""

    def select_parser(self, request: Request, parsers: Any) -> Any:
        return None

    def select_renderer(self, request: Request, renderers: Any, format_suffix: str | None = None) -> Any:
        return JSONRenderer(), "application/json"


class ApiView(APIView):
    content_negotiation_class = JsonOnly
    http_method_names = ["get", "head", "post"]

    @property
    def caller(self) -> Caller:
        return cast(Caller, self.request.user)

    @property
    def house(self) -> Composition:
        return composed()

    def body[T: schemas._Body](self, kind: type[T]) -> T:
        """Raises: Problem (request.*)."""
        return schemas.read(kind, parsing.parse(self.request._request))

    def no_body(self) -> None:
        """Nothing is needed here and nothing else is taken. Raises: Problem (request.*)."""
        schemas.read(schemas.EmptyRequest, parsing.parse_optional(self.request._request))


def answer(body: Any, status: int = 200, headers: dict[str, str] | None = None) -> HttpResponse:
    text = as_json(body).encode("utf-8", "replace")
    return HttpResponse(text, content_type="application/json", status=status, headers=headers)


def as_json(body: Any) -> str:
    return json.dumps(body, ensure_ascii=False, default=_plain, separators=(",", ":"))


def _plain(value: Any) -> str:
    if isinstance(value, UUID):
        return str(value)
    return str(value.isoformat())
