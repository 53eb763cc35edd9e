"""What a credential becomes on the wire: a header, or a variable in a child's environment.

The two functions here are the only callers of `SecretValue.reveal` in mcpcatalog (DESIGN §8). Nothing is cached: a
connection that is dialled again resolves again, so that a rotation takes effect.
"""

from typing import Final

from mcpcatalog.remote import AuthScheme, AuthUnsupported, CredentialMissing, ResolveCredential, ServerConfig
from toolsys.domain.context import SecretValue
from toolsys.ports import NotAvailable

_ON_HTTP: Final = frozenset({AuthScheme.NONE, AuthScheme.BEARER, AuthScheme.HEADER})
_ON_STDIO: Final = frozenset({AuthScheme.NONE, AuthScheme.ENV})


async def request_headers(config: ServerConfig, resolve: ResolveCredential) -> dict[str, str]:
    """Raises: AuthUnsupported, CredentialMissing."""
    if config.auth_scheme not in _ON_HTTP:
        raise AuthUnsupported(f"the scheme {config.auth_scheme} is not available over http", effect="not_applied")
    if config.auth_scheme is AuthScheme.NONE:
        return {}
    secret = await _resolved(config, resolve)
    if config.auth_scheme is AuthScheme.BEARER:
        return {"authorization": f"Bearer {secret.reveal()}"}
    return {config.auth_name or "": secret.reveal()}


async def child_environment(config: ServerConfig, resolve: ResolveCredential) -> dict[str, str]:
    """Return the one declared variable, or none.

    Raises: AuthUnsupported, CredentialMissing.
    """
    if config.auth_scheme not in _ON_STDIO:
        raise AuthUnsupported(f"the scheme {config.auth_scheme} is not available over stdio", effect="not_applied")
    if config.auth_scheme is AuthScheme.NONE:
        return {}
    return {config.auth_name or "": (await _resolved(config, resolve)).reveal()}


async def _resolved(config: ServerConfig, resolve: ResolveCredential) -> SecretValue:
    try:
        return await resolve(config.credential_ref or "")
    except (NotAvailable, LookupError) as error:
        raise CredentialMissing(config.server_id, effect="not_applied") from error
