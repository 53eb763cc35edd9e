"""What a credential becomes on the wire: a header, or a variable in a child's environment.

`built_header` and `child_environment` are the only callers of `SecretValue.reveal` in mcpcatalog (DESIGN §8). A login
belongs to one connection and ends with it: whoever connects again resolves again, so that a rotation takes effect.
"""

import base64
import json
from typing import Final, Protocol
from urllib.parse import quote_plus, unquote_plus

from mcpcatalog.remote import AuthScheme, AuthUnsupported, CredentialMissing, ResolveCredential, ServerConfig
from toolsys.domain.context import SecretValue
from toolsys.ports import NotAvailable

_ON_STDIO: Final = frozenset({AuthScheme.NONE, AuthScheme.ENV})

type Headers = dict[str, str]


class Login(Protocol):
    """How one HTTP connection shows who it is."""

    @property
    def held(self) -> Headers:
        """What was obtained last, without obtaining anything: enough to say goodbye with."""

    @property
    def changes(self) -> int:
        """How often another value than the one before was obtained, the first included."""

    @property
    def secrets(self) -> tuple[str, ...]:
        """The values that this connection has shown: nothing that comes back may contain one."""

    async def headers(self) -> Headers:
        """Return what a request carries now. Raises: RemoteError."""

    async def renew(self) -> bool:
        """Obtain it anew; say whether it differs from what was held. Raises: RemoteError."""


class Resolved:
    """The schemes bearer and header: the reference's value, as it was when the connection was opened."""

    def __init__(self, config: ServerConfig, resolve: ResolveCredential) -> None:
        self._config = config
        self._resolve = resolve
        self._is_resolved = False
        self.held: Headers = {}
        self.changes = 0
        self.secrets: tuple[str, ...] = ()

    async def headers(self) -> Headers:
        if not self._is_resolved:
            await self.renew()
        return self.held

    async def renew(self) -> bool:
        before = self.held
        self.held = built_header(self._config, await resolved(self._config, self._resolve))
        self.secrets = kept_secrets(self.secrets, self.held)
        self._is_resolved = True
        has_changed = self.held != before
        self.changes += has_changed
        return has_changed


class Anonymous:
    """The scheme none."""

    held: Final[Headers] = {}
    changes: Final = 0
    secrets: Final[tuple[str, ...]] = ()

    async def headers(self) -> Headers:
        return {}

    async def renew(self) -> bool:
        return False


def built_header(config: ServerConfig, secret: SecretValue, *, is_client: bool = False) -> Headers:
    """Build the one header. With `is_client` the secret is an OAuth client's id and secret, for its token endpoint.

    Raises: CredentialMissing for what cannot be a header; the value is in no message.
    """
    value = secret.reveal()
    if not (value.isascii() and value.isprintable() and value.strip() == value):
        raise CredentialMissing(f"{config.server_id}: not usable as a header", effect="not_applied")
    if is_client:
        return {"authorization": f"Basic {_client(config, value)}"}
    if config.auth_scheme is AuthScheme.HEADER:
        return {config.auth_name or "": value}
    return {"authorization": f"Bearer {value}"}


def kept_secrets(before: tuple[str, ...], headers: Headers) -> tuple[str, ...]:
    """Remember the last few values, since an answer may still be about the one before."""
    return (*before[-3:], *(value.removeprefix("Bearer ") for value in headers.values()))


def client_secrets(login: Headers) -> tuple[str, ...]:
    """Return in what forms a client's login could come back: as it travels, and the secret in it as it is kept.

    Whoever runs a token endpoint may run the server, too.
    """
    encoded = login["authorization"].removeprefix("Basic ")
    _, _, quoted = base64.b64decode(encoded).decode().partition(":")
    return encoded, quoted, unquote_plus(quoted)


def _client(config: ServerConfig, value: str) -> str:
    """Read `{"client_id": …, "client_secret": …}` into HTTP basic form. Source: RFC 6749 2.3.1."""
    try:
        found = json.loads(value)
        pair = [quote_plus(str(found[name])) for name in ("client_id", "client_secret")]
    except (ValueError, TypeError, KeyError):
        message = f"{config.server_id}: oauth2_client needs a JSON object with client_id and client_secret"
        raise CredentialMissing(message, effect="not_applied") from None
    return base64.b64encode(":".join(pair).encode()).decode()


async def child_environment(config: ServerConfig, resolve: ResolveCredential) -> dict[str, str]:
    """Return the one declared variable, or none.

    Raises: AuthUnsupported, CredentialMissing.
    """
    if config.auth_scheme not in _ON_STDIO:
        raise AuthUnsupported(f"the scheme {config.auth_scheme} is not available over stdio", effect="not_applied")
    if config.auth_scheme is AuthScheme.NONE:
        return {}
    return {config.auth_name or "": (await resolved(config, resolve)).reveal()}


async def resolved(config: ServerConfig, resolve: ResolveCredential) -> SecretValue:
    """Raises: CredentialMissing."""
    try:
        return await resolve(config.credential_ref or "")
    except (NotAvailable, LookupError):
        raise CredentialMissing(config.server_id, effect="not_applied") from None
