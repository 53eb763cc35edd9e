"""Gives each API request an id: a sane one that the caller sent, or a new one; it is on every answer and log line."""

import re
import uuid
from collections.abc import Callable
from typing import Final

from django.http import HttpRequest
from django.http.response import HttpResponseBase

PREFIX: Final = "/v1/"
MCP: Final = "/mcp"
# Below the prefix, but read by people in a browser.
PAGES: Final = ("/v1/docs", "/v1/openapi.json")
_SANE: Final = re.compile(r"^[A-Za-z0-9_.:-]{1,64}\Z")


def is_call(request: HttpRequest) -> bool:
    """Tell a call of the API from a page."""
    return is_ours(request) and not request.path.startswith(PAGES)


def is_ours(request: HttpRequest) -> bool:
    return request.path.startswith(PREFIX) or request.path == MCP


class RequestIdMiddleware:
    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        if not is_ours(request):
            return self.get_response(request)
        sent = request.META.get("HTTP_REQUEST_ID", "")
        identifier = sent if _SANE.match(sent) else uuid.uuid4().hex
        request.request_id = identifier  # type: ignore[attr-defined]
        response = self.get_response(request)
        response["Request-Id"] = identifier
        return response
