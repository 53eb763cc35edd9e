"""The client-credentials grant, and nothing else of OAuth: a configured endpoint, one POST, a token that dies with its
connection.

Expiry is looked at when a header is built, never on a timer; refresh tokens are not used. Endpoints that a server
names are never dialled. Nothing that the endpoint says is kept but an error code of the RFC's list.
Source: TS "Authentication", RFC 6749 4.4 and 5.2, RFC 8707. Only `mcpcatalog.sdk` imports it.
"""

import asyncio
import json
import time
from collections.abc import Callable
from typing import Any, Final
from urllib.parse import urlencode

import httpx2

from mcpcatalog import remote
from mcpcatalog.remote import ResolveCredential, ServerConfig
from mcpcatalog.sdk.auth import Headers, built_header, client_secrets, kept_secrets, resolved
from toolsys.domain.context import SecretValue
from toolsys.egress import EgressCounts, EgressError, EgressPolicy, EgressRefused, PinnedTransport

SKEW_SECONDS: Final = 60.0
EXCHANGE_SECONDS: Final = 10.0
MAXIMUM_ANSWER_BYTES: Final = 65_536
# A lifetime is a number that a peer chose: JSON has some that no float holds.
MAXIMUM_LIFETIME_SECONDS: Final = 10.0 * 365 * 86_400
# The three forms of the client that logs in, and of the one before a rotation.
MAXIMUM_CLIENT_FORMS: Final = 6
_ERRORS: Final = frozenset({
    "invalid_client", "invalid_grant", "invalid_request", "invalid_scope", "invalid_target", "unauthorized_client",
    "unsupported_grant_type",
})  # fmt: skip


def boottime() -> float:
    """Seconds that count while the machine sleeps, as a token's lifetime does."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic()


class ClientCredentials:
    """The scheme oauth2_client: implements `auth.Login` for one connection. `lock` is shared by all of its server."""

    def __init__(
        self,
        config: ServerConfig,
        resolve: ResolveCredential,
        policy: EgressPolicy,
        lock: asyncio.Lock,
        now: Callable[[], float] = boottime,
        counts: EgressCounts | None = None,
    ) -> None:
        self._config = config
        self._resolve = resolve
        self._policy = policy
        self._lock = lock
        self._now = now
        self._counts = counts
        self._expires_at = float("-inf")
        self.held: Headers = {}
        self.changes = 0
        self._tokens: tuple[str, ...] = ()
        self._client: tuple[str, ...] = ()

    @property
    def secrets(self) -> tuple[str, ...]:
        return (*self._tokens, *self._client)

    async def headers(self) -> Headers:
        if not self._is_fresh():
            async with self._lock:
                if not self._is_fresh():  # whoever waited for the lock finds the token of whoever held it
                    await self._exchange()
        return self.held

    async def renew(self) -> bool:
        before = self.changes
        async with self._lock:
            await self._exchange()
        return self.changes != before

    def _is_fresh(self) -> bool:
        return bool(self.held) and self._now() < self._expires_at - SKEW_SECONDS

    async def _exchange(self) -> None:
        """Ask once. Raises: AuthFailed, CredentialMissing, DestinationRefused, ServerUnreachable."""
        asked_at = self._now()
        self.held = {}
        secret = await resolved(self._config, self._resolve)
        login = built_header(self._config, secret, is_client=True)
        self._client = tuple(dict.fromkeys((*client_secrets(login), *self._client)))[:MAXIMUM_CLIENT_FORMS]
        status, body = await self._post(login)
        token, lifetime = _token_of(status, body)
        self.held = built_header(self._config, token)
        before = self._tokens[-1:]
        self._tokens = kept_secrets(self._tokens, self.held)
        self.changes += self._tokens[-1:] != before
        self._expires_at = asked_at + lifetime

    async def _post(self, login: Headers) -> tuple[int, bytes]:
        form = {"grant_type": "client_credentials", "resource": self._config.endpoint.partition("#")[0]}
        if self._config.token_scopes:
            form["scope"] = " ".join(self._config.token_scopes)
        headers = {"content-type": "application/x-www-form-urlencoded", "accept": "application/json", **login}
        request = httpx2.Request(
            "POST", self._config.token_endpoint or "", headers=headers, content=urlencode(form).encode()
        )
        transport = PinnedTransport(
            self._policy, maximum_bytes=MAXIMUM_ANSWER_BYTES, counts=self._counts, maximum_connections=1
        )
        try:
            async with asyncio.timeout(EXCHANGE_SECONDS), transport:
                response = await transport.handle_async_request(request)
                try:
                    return response.status_code, await response.aread()
                finally:
                    await response.aclose()
        except EgressRefused as refused:
            raise remote.DestinationRefused(f"token endpoint: {refused}", effect="not_applied") from None
        except (EgressError, TimeoutError) as failed:
            detail = failed.reason if isinstance(failed, EgressError) else "timeout"
            if isinstance(failed, EgressError) and detail == "proxy":
                raise remote.NoWayOut(f"token endpoint: {failed.detail}", effect="not_applied") from None
            raise remote.ServerUnreachable(f"token endpoint: {detail}", effect="not_applied") from None


def _token_of(status: int, body: bytes) -> tuple[SecretValue, float]:
    """Return the token and its lifetime in seconds; without a stated one it lives until it is refused."""
    answer = _read(body)
    if status != 200:
        raise _refusal(status, answer.get("error"))
    token, kind = answer.get("access_token"), answer.get("token_type")
    lifetime: Any = answer.get("expires_in")
    if not isinstance(token, str) or not token or not isinstance(kind, str) or kind.lower() != "bearer":
        raise remote.AuthFailed("the token endpoint gave no bearer token", effect="not_applied")
    is_stated = isinstance(lifetime, int | float) and not isinstance(lifetime, bool)
    return SecretValue(token), max(0.0, min(lifetime, MAXIMUM_LIFETIME_SECONDS)) if is_stated else float("inf")


def _read(body: bytes) -> dict[str, Any]:
    try:
        answer = json.loads(body)
    except (ValueError, RecursionError):
        return {}
    return answer if isinstance(answer, dict) else {}


def _refusal(status: int, error: Any) -> remote.RemoteError:
    code = error if isinstance(error, str) and error in _ERRORS else f"status {status}"
    kind = remote.ServerUnreachable if status >= 500 or status == 429 else remote.AuthFailed
    return kind(f"token endpoint: {code}", effect="not_applied")
