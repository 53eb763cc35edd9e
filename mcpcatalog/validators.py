"""The write-time rules of a server's configuration: mechanical, complete, and without asking anybody for a secret.

Pure; every problem is named, so that a form can show them all. The services refuse what this finds, and the console
shows it. Source: TS "Authentication" rules 1 to 5, "Where a server may live"; DESIGN §7.
"""

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Final

from mcpcatalog.contracts import MAXIMUM_CONTRACTS
from mcpcatalog.mapping import declared_here, map_catalog
from mcpcatalog.remote import AuthScheme, CatalogMode, KeyPlace, ServerConfig, Transport
from toolsys.domain.names import is_valid_server_id
from toolsys.egress import EgressPolicy, EgressRefused

AUTH_NAME: Final = re.compile(r"^[A-Za-z0-9_-]{1,64}\Z")
REFERENCE: Final = re.compile(r"^(store|env|file):[A-Za-z0-9][A-Za-z0-9_.-]{0,127}\Z")
# TS's tier-0 list, fixed by DESIGN §7: what a child's environment may not take from a configuration.
TIER_0: Final = (
    "PATH", "HOME", "USER", "LOGNAME", "SHELL", "TERM", "PWD", "LANG", "LC_*", "TZ", "TMPDIR", "LD_*", "DYLD_*",
    "PYTHON*", "NODE_OPTIONS", "SSL_CERT_*", "*_PROXY",
)  # fmt: skip
_NAMED: Final = frozenset({AuthScheme.HEADER, AuthScheme.ENV})
_ON_TRANSPORT: Final = {
    Transport.STDIO: frozenset({AuthScheme.NONE, AuthScheme.ENV}),
    Transport.HTTP: frozenset({AuthScheme.NONE, AuthScheme.BEARER, AuthScheme.HEADER, AuthScheme.OAUTH2_CLIENT}),
}


@dataclass(frozen=True, slots=True)
class Problem:
    """`field` is the column; `code` is stable; `message` is for people."""

    field: str
    code: str
    message: str


def problems(
    server: ServerConfig, *, policy: EgressPolicy, stdio_names: Collection[str], output_ceiling_bytes: int
) -> tuple[Problem, ...]:
    """Return everything that is wrong with a configuration; an empty tuple means that it may be written."""
    return (
        *_identity(server), *_destination(server, policy, stdio_names), *_credential(server), *_auth_name(server),
        *_token_endpoint(server, policy), *_scopes_and_limits(server, output_ceiling_bytes),
        *_contracts(server, output_ceiling_bytes), *_key(server),
    )  # fmt: skip


def _identity(server: ServerConfig) -> Iterator[Problem]:
    if not is_valid_server_id(server.server_id):
        yield Problem("server_id", "grammar", "Lower-case letters, digits and _, a letter first, at most 48.")


def _destination(server: ServerConfig, policy: EgressPolicy, stdio_names: Collection[str]) -> Iterator[Problem]:
    if server.transport is Transport.STDIO:
        if server.endpoint not in stdio_names:
            yield Problem("endpoint", "unknown_command", "Not a name of the deployment's stdio servers.")
        return
    try:
        policy.check_url(server.endpoint)
    except EgressRefused as refused:
        yield Problem("endpoint", f"egress_{refused.reason}", "This destination is not permitted.")


def _credential(server: ServerConfig) -> Iterator[Problem]:
    if server.auth_scheme not in _ON_TRANSPORT[server.transport]:
        yield Problem("auth_scheme", "transport", f"{server.auth_scheme} is not available over {server.transport}.")
    if server.auth_scheme is AuthScheme.NONE and server.credential_ref is not None:
        yield Problem("credential_ref", "not_expected", "The scheme none takes no credential.")
    if server.credential_ref and not REFERENCE.match(server.credential_ref):
        yield Problem("credential_ref", "grammar", "store:NAME; for operators also env:NAME and file:NAME.")
    if server.auth_scheme is not AuthScheme.NONE and not server.credential_ref:
        yield Problem("credential_ref", "required", f"The scheme {server.auth_scheme} needs a credential reference.")


def _auth_name(server: ServerConfig) -> Iterator[Problem]:
    name = server.auth_name
    if server.auth_scheme not in _NAMED:
        if name is not None:
            yield Problem("auth_name", "not_expected", "Only header and env take a name.")
        return
    if name is None or not AUTH_NAME.match(name):
        yield Problem("auth_name", "grammar", "1 to 64 of letters, digits, _ and -.")
    elif server.auth_scheme is AuthScheme.HEADER and name.lower() == "authorization":
        yield Problem("auth_name", "authorization", "A header scheme that writes Authorization is the bearer scheme.")
    elif server.auth_scheme is AuthScheme.ENV and is_tier_0(name):
        yield Problem("auth_name", "tier_0", "This variable is set by the platform.")


def is_tier_0(name: str) -> bool:
    return any(fnmatchcase(name.upper(), pattern) for pattern in TIER_0)


def _token_endpoint(server: ServerConfig, policy: EgressPolicy) -> Iterator[Problem]:
    if server.auth_scheme is not AuthScheme.OAUTH2_CLIENT:
        if server.token_endpoint is not None or server.token_scopes:
            yield Problem("token_endpoint", "not_expected", "Only oauth2_client takes a token endpoint and scopes.")
        return
    if not server.token_endpoint:
        yield Problem("token_endpoint", "required", "oauth2_client needs a token endpoint.")
        return
    try:
        policy.check_url(server.token_endpoint)
    except EgressRefused as refused:
        yield Problem("token_endpoint", f"egress_{refused.reason}", "This destination is not permitted.")


def _scopes_and_limits(server: ServerConfig, ceiling: int) -> Iterator[Problem]:
    prefix = f"mcp.{server.server_id}."
    if any(not scope.startswith(prefix) or scope == prefix for scope in server.required_scopes):
        yield Problem("required_scopes", "foreign", f"Only scopes that begin with {prefix}.")
    if not 0 < server.maximum_output_bytes <= ceiling:
        yield Problem("maximum_output_bytes", "range", f"1 to {ceiling}.")
    if not 0 < server.timeout_seconds <= 3_600:
        yield Problem("timeout_seconds", "range", "1 to 3600.")


def _contracts(server: ServerConfig, ceiling: int) -> Iterator[Problem]:
    """A fixed server's catalog is what is written here, so that it has to be right when it is written."""
    declared = server.fixed_tools
    if server.mode is not CatalogMode.FIXED:
        if declared:
            yield Problem("fixed_tools", "not_expected", "Only a fixed server declares its tools here.")
        return
    if not 0 < len(declared) <= MAXIMUM_CONTRACTS:
        yield Problem("fixed_tools", "required", f"A fixed server declares 1 to {MAXIMUM_CONTRACTS} tools.")
        return
    for contract in declared:
        for defect in contract.defects():
            yield Problem("fixed_tools", "open", f"{contract.name}: {defect}.")
    found = map_catalog(server, declared_here(server), output_ceiling_bytes=ceiling)
    for bad in found.rejected:
        yield Problem("fixed_tools", "unusable", f"{bad.remote_name}: {bad.detail}.")
    for clash in found.conflicts:
        yield Problem("fixed_tools", "conflict", f"{' and '.join(clash)} would have one name.")


def _key(server: ServerConfig) -> Iterator[Problem]:
    if server.key_place in {KeyPlace.ARGUMENT, KeyPlace.HEADER, KeyPlace.META} and not server.key_name:
        yield Problem("key_name", "required", "Say which argument, header or _meta key carries the idempotency key.")
    if server.key_place is KeyPlace.HEADER and server.transport is Transport.STDIO:
        yield Problem("key_place", "transport", "There is no header on a pipe.")
    if server.key_place is KeyPlace.HEADER and server.key_name.lower() in {"authorization", "host", "cookie"}:
        yield Problem("key_name", "reserved", "This header has another meaning.")
