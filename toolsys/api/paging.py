"""How a list is asked for: its cursor and its limit."""

from typing import Final
from uuid import UUID

from rest_framework.request import Request

from toolsys.problems import FieldError, Problem

PAGE_LIMIT: Final = 100


def cursor(request: Request) -> UUID | None:
    sent = request.GET.get("cursor")
    try:
        return UUID(sent) if sent else None
    except ValueError:
        raise Problem("request.invalid", [FieldError("?cursor", "not a cursor of this list")]) from None


def limit(request: Request) -> int:
    sent = request.GET.get("limit", "50")
    if not (sent.isascii() and sent.isdecimal()) or not 1 <= int(sent) <= PAGE_LIMIT:
        raise Problem("request.invalid", [FieldError("?limit", f"a number from 1 to {PAGE_LIMIT}")])
    return int(sent)
