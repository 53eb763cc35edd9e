"""Problem bodies (RFC 9457), rendered from the reason table: a stable code, a fixed message, the fields at fault.

Nothing that was sent is echoed, and an unexpected error shows its request id only; its trace goes to the log.
"""

import json
import logging
from collections.abc import Sequence
from typing import Any, Final

import redis
from django.core.exceptions import PermissionDenied, RequestDataTooBig
from django.db import InterfaceError, OperationalError, connections
from django.http import Http404, HttpRequest, HttpResponse
from rest_framework import exceptions, status

from toolsys.domain.reasons import reason
from toolsys.envelope import CannotOpen, UnknownKey
from toolsys.problems import FieldError, Problem

log = logging.getLogger("toolsys.api")
CONTENT_TYPE: Final = "application/problem+json"
RETRY_SECONDS: Final = "2"
_CODES: Final[dict[type[Exception], str]] = {
    exceptions.NotAuthenticated: "auth.missing",
    exceptions.AuthenticationFailed: "auth.invalid",
    exceptions.PermissionDenied: "auth.forbidden",
    PermissionDenied: "auth.forbidden",
    exceptions.NotFound: "request.not_found",
    Http404: "request.not_found",
    exceptions.MethodNotAllowed: "request.method_not_allowed",
    exceptions.NotAcceptable: "request.not_acceptable",
    exceptions.UnsupportedMediaType: "request.unsupported_media_type",
    exceptions.ParseError: "request.malformed",
    exceptions.Throttled: "request.throttled",
    RequestDataTooBig: "request.too_large",
}


def handle(error: Exception, context: dict[str, Any]) -> HttpResponse:
    """DRF's exception handler."""
    request: HttpRequest = context["request"]
    for connection in connections.all(initialized_only=True):
        if connection.in_atomic_block:
            connection.set_rollback(True)
    return render(request, code_of(error, request), error.errors if isinstance(error, Problem) else ())


def code_of(error: Exception, request: HttpRequest) -> str:
    """Return the reason of whatever a view raised; what nobody expected is logged."""
    if isinstance(error, Problem):
        return error.reason_code
    for kind, code in _CODES.items():
        if isinstance(error, kind):
            return code
    if isinstance(error, CannotOpen) and not isinstance(error, UnknownKey):
        log.error("stored bytes do not open", extra=_logged(request))
        return "server.unreadable"
    # Only what another try may mend: a statement that the database refuses is a fault of ours.
    if isinstance(error, OperationalError | InterfaceError | redis.RedisError | UnknownKey):
        log.error("a service did not answer", exc_info=error, extra=_logged(request))
        return "server.unavailable"
    log.error("unexpected error", exc_info=error, extra=_logged(request))
    return "server.internal"


def _logged(request: HttpRequest) -> dict[str, str]:
    return {"request_id": getattr(request, "request_id", "")}


def render(request: HttpRequest, code: str, errors: Sequence[FieldError] = ()) -> HttpResponse:
    row = reason(code)
    body: dict[str, Any] = {
        "type": f"urn:toolsys:problem:{code}",
        "title": row.message,
        "status": row.http_status,
        "detail": row.message,
        "instance": request.path,
        "code": code,
        "request_id": getattr(request, "request_id", ""),
        "retryable": row.retryable,
        "errors": [{"pointer": error.pointer, "message": error.message} for error in errors],
    }
    response = HttpResponse(json.dumps(body), content_type=CONTENT_TYPE, status=row.http_status)
    if row.http_status == status.HTTP_401_UNAUTHORIZED:
        response["WWW-Authenticate"] = 'Bearer realm="toolsys"'
    if row.http_status == status.HTTP_503_SERVICE_UNAVAILABLE:
        response["Retry-After"] = RETRY_SECONDS
    return response


def not_found(request: HttpRequest, exception: Exception | None = None) -> HttpResponse:
    return render(request, "request.not_found")


def malformed(request: HttpRequest) -> HttpResponse:
    return render(request, "request.malformed")


def internal(request: HttpRequest) -> HttpResponse:
    return render(request, "server.internal")
