"""Bearer API keys. The key is found before a tenant is known, by a definer function that returns ids only.

Revoked and expired keys are not found at all. What a key may do is judged in its tenant: by the pipeline for calls,
by `require_live_key` for everything else that writes.
"""

import time
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from rest_framework.authentication import BaseAuthentication
from rest_framework.exceptions import AuthenticationFailed, NotAuthenticated
from rest_framework.request import Request

from toolsys import database, keys
from toolsys.kept import Kept
from toolsys.models import ApiKey
from toolsys.tenancy import tenant_transaction

USED_EVERY_SECONDS: Final = 60.0
_used: Kept[float] = Kept(4096)


@dataclass(frozen=True, slots=True)
class Caller:
    """Who sent the request: one key of one tenant."""

    tenant_id: str
    api_key_id: UUID
    is_authenticated: bool = True


class ApiKeyAuthentication(BaseAuthentication):
    """`Authorization: Bearer tsk_...`"""

    def authenticate(self, request: Request) -> tuple[Caller, None]:
        return caller_of(request.META.get("HTTP_AUTHORIZATION", "")), None

    def authenticate_header(self, request: Request) -> str:
        return 'Bearer realm="toolsys"'


def caller_of(authorization: str) -> Caller:
    """Find who a header's key belongs to. Raises: NotAuthenticated, AuthenticationFailed."""
    scheme, _, token = authorization.partition(" ")
    if scheme.lower() != "bearer" or not token:
        raise NotAuthenticated
    parts = keys.parse(token.strip())
    rows: list[Any] = []
    if parts is not None:
        statement = "SELECT tenant_id, api_key_id FROM toolsys_find_api_key(%s, %s)"
        rows = database.call(statement, (parts.prefix, parts.secret_sha256))
    if not rows:
        raise AuthenticationFailed
    caller = Caller(*rows[0])
    _note_use(caller)
    return caller


def _note_use(caller: Caller) -> None:
    """Record the use at most once a minute and process: it is for people who look for stale keys."""
    now = time.monotonic()
    last = _used.get(caller.api_key_id)
    if last is not None and now - last < USED_EVERY_SECONDS:
        return
    _used.put(caller.api_key_id, now)
    with tenant_transaction(caller.tenant_id):
        ApiKey.objects.filter(pk=caller.api_key_id).update(last_used_at=database.now())
