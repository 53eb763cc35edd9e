"""The write-time rules of a server's configuration: mechanical, complete, and without asking anybody for a secret.

Pure; every problem is named, so that a form can show them all. Model, services, forms and imports all come through
here. Source: TS "Authentication" rules 1 to 5, "Where a server may live"; DESIGN §7 and §8.
"""

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Final
from urllib.parse import parse_qsl, urlsplit

from mcpcatalog.contracts import MAXIMUM_CONTRACTS
from mcpcatalog.mapping import declared_here, map_catalog
from mcpcatalog.remote import AuthScheme, CatalogMode, KeyPlace, ServerConfig, Transport
from toolsys.domain import redaction
from toolsys.domain.names import is_valid_server_id
from toolsys.domain.spec import STRICTEST, Classification, IdempotencyClass
from toolsys.egress import EgressPolicy, EgressRefused
from toolsys.problems import FieldError
from toolsys.problems import Problem as RequestProblem

AUTH_NAME: Final = re.compile(r"^[A-Za-z0-9_-]{1,64}\Z")
REFERENCE: Final = re.compile(r"^(store|env|file):[A-Za-z0-9][A-Za-z0-9_.-]{0,127}\Z")
# TS's tier-0 list, fixed by DESIGN §7: what a child's environment may not take from a configuration.
TIER_0: Final = (
    "PATH", "HOME", "USER", "LOGNAME", "SHELL", "TERM", "PWD", "LANG", "LC_*", "TZ", "TMPDIR", "LD_*", "DYLD_*",
    "PYTHON*", "NODE_OPTIONS", "SSL_CERT_*", "*_PROXY",
)  # fmt: skip
MAXIMUM_URL: Final = 2_048
MAXIMUM_SCOPES: Final = 32
MAXIMUM_SCOPE: Final = 128
MAXIMUM_SECONDS: Final = 3_600
# RFC 6749, 3.3.
_TOKEN_SCOPE: Final = re.compile(r"[\x21\x23-\x5b\x5d-\x7e]+\Z")
_SCOPE_REST: Final = re.compile(r"[a-z0-9_]+(\.[a-z0-9_]+)*\Z")
_META_KEY: Final = re.compile(r"[A-Za-z0-9./_-]{1,128}\Z")
# Headers that the transport writes, or that end the connection's meaning when somebody else does.
RESERVED_HEADERS: Final = frozenset({
    "accept", "accept-encoding", "connection", "content-length", "content-type", "cookie", "host", "last-event-id",
    "mcp-method", "mcp-name", "mcp-protocol-version", "mcp-session-id", "te", "trailer", "transfer-encoding", "upgrade",
})  # fmt: skip
_SAYS_SECRET: Final = re.compile(r"(?i)(key(?![a-z])|token|secret|passw|auth(?!ors?\Z)|credential|signature|sig\Z)")
DEPLOYMENT: Final = ("env:", "file:")
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


class InvalidConfiguration(RequestProblem):
    """The write-time rules found problems; nothing was written."""

    def __init__(self, found: tuple[Problem, ...]) -> None:
        super().__init__("request.invalid", [FieldError(f"/{each.field}", each.message) for each in found])
        self.problems = found

    def __str__(self) -> str:
        return "; ".join(f"{problem.field}: {problem.code}" for problem in self.problems)


def problems(
    server: ServerConfig,
    *,
    policy: EgressPolicy,
    stdio_names: Collection[str],
    output_ceiling_bytes: int,
    is_operator: bool = False,
    before: ServerConfig | None = None,
) -> tuple[Problem, ...]:
    """Return everything that is wrong with a configuration; an empty tuple means that it may be written.

    `policy` says where the tenant's servers may be; `before` is what an edit starts from.
    """
    foreign = () if is_operator else tuple(_not_the_tenants(server, before))
    return (
        *mechanical(server), *foreign, *_destinations(server, policy, stdio_names),
        *_output(server, output_ceiling_bytes),
    )  # fmt: skip


def mechanical(server: ServerConfig) -> tuple[Problem, ...]:
    """Return what is wrong whatever this deployment and tenant permit: the part that every written row has passed."""
    return (
        *_identity(server), *_credential(server), *_auth_name(server), *_token_endpoint(server), *_inline(server),
        *_scopes_and_limits(server), *_contracts(server), *_key(server), *contradictions(server.classification),
    )  # fmt: skip


def _not_the_tenants(server: ServerConfig, before: ServerConfig | None) -> Iterator[Problem]:
    """What only operators write: programs of the deployment, its secrets, and what a server is believed to do."""
    if server.transport is Transport.STDIO:
        yield Problem("transport", "operators_only", "A stdio server runs beside the workers: operators configure it.")
    if (server.credential_ref or "").startswith(DEPLOYMENT):
        yield Problem("credential_ref", "operators_only", "A secret of the deployment: only operators may refer to it.")
    is_same = before is not None and (before.transport, before.endpoint) == (server.transport, server.endpoint)
    classification = before.classification if before is not None and is_same else STRICTEST
    if server.classification not in {classification, STRICTEST}:
        yield Problem("side_effect", "operators_only", "Operators classify a server, and again when it moves.")
    known = before if before is not None and is_same else ServerConfig("", "", server.transport, "")
    if (server.key_place, server.key_name, server.is_stateless) != (
        known.key_place,
        known.key_name,
        known.is_stateless,
    ):
        yield Problem("key_place", "operators_only", "What a server does with repeated calls is the operators' to say.")
    if server.required_scopes != (before.required_scopes if before is not None else frozenset()):
        yield Problem("required_scopes", "operators_only", "Operators say which scopes a server's tools require.")


def _identity(server: ServerConfig) -> Iterator[Problem]:
    if not is_valid_server_id(server.server_id):
        yield Problem("server_id", "grammar", "Lower-case letters, digits and _, a letter first, at most 48.")


def _destinations(server: ServerConfig, policy: EgressPolicy, stdio_names: Collection[str]) -> Iterator[Problem]:
    if server.transport is Transport.STDIO:
        if server.endpoint not in stdio_names:
            yield Problem("endpoint", "unknown_command", "Not a name of the deployment's stdio servers.")
        return
    yield from _destination("endpoint", server.endpoint, policy)
    if server.auth_scheme is AuthScheme.OAUTH2_CLIENT and server.token_endpoint:
        yield from _destination("token_endpoint", server.token_endpoint, policy)


def _destination(field: str, url: str, policy: EgressPolicy) -> Iterator[Problem]:
    try:
        policy.check_url(url)
    except EgressRefused as refused:
        yield Problem(field, f"egress_{refused.reason}", DESTINATIONS.get(refused.reason, "It is not permitted."))


DESTINATIONS: Final = {
    "malformed": "This is not an absolute URL of a host.",
    "userinfo": "A URL with a user or a password in it is not accepted; use a credential.",
    "not_allowed": "This host is not among those that the organisation's servers may reach: add it to them first.",
    "denied": "The operators of this deployment deny this host.",
    "plain_http": "Plain HTTP is not accepted; use https.",
    "address": "This address is not public.",
}  # fmt: skip


def _credential(server: ServerConfig) -> Iterator[Problem]:
    if server.auth_scheme not in _ON_TRANSPORT[server.transport]:
        yield Problem("auth_scheme", "transport", f"{server.auth_scheme} is not available over {server.transport}.")
    if server.auth_scheme is AuthScheme.NONE and server.credential_ref is not None:
        yield Problem("credential_ref", "not_expected", "The scheme none takes no credential.")
    if server.credential_ref and not REFERENCE.match(server.credential_ref):
        yield Problem("credential_ref", "grammar", "store:NAME; for operators also env:NAME and file:NAME.")
    if server.auth_scheme is not AuthScheme.NONE and not server.credential_ref:
        yield Problem("credential_ref", "required", f"The scheme {server.auth_scheme} needs a credential.")


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
    elif server.auth_scheme is AuthScheme.HEADER and name.lower() in RESERVED_HEADERS:
        yield Problem("auth_name", "reserved", "This header has another meaning.")
    elif server.auth_scheme is AuthScheme.ENV and is_tier_0(name):
        yield Problem("auth_name", "tier_0", "This variable is set by the platform.")


def is_tier_0(name: str) -> bool:
    return any(fnmatchcase(name.upper(), pattern) for pattern in TIER_0)


def _token_endpoint(server: ServerConfig) -> Iterator[Problem]:
    if server.auth_scheme is not AuthScheme.OAUTH2_CLIENT:
        if server.token_endpoint is not None or server.token_scopes:
            yield Problem("token_endpoint", "not_expected", "Only oauth2_client takes a token endpoint and scopes.")
        return
    if not server.token_endpoint:
        yield Problem("token_endpoint", "required", "oauth2_client needs a token endpoint.")
    scopes = server.token_scopes
    if len(scopes) > MAXIMUM_SCOPES or any(len(s) > MAXIMUM_SCOPE or not _TOKEN_SCOPE.match(s) for s in scopes):
        yield Problem("token_scopes", "grammar", f"At most {MAXIMUM_SCOPES}, without spaces and quotes.")


def _inline(server: ServerConfig) -> Iterator[Problem]:
    """A row is read by every member of the tenant: nothing that is written into it may be a secret."""
    for field, url in (("endpoint", server.endpoint), ("token_endpoint", server.token_endpoint or "")):
        if len(url) > MAXIMUM_URL:
            yield Problem(field, "length", f"At most {MAXIMUM_URL} characters.")
        elif holds_secret(url):
            yield Problem(field, "inline_secret", "A key in the URL can be read by everybody; use a header.")


def holds_secret(url: str) -> bool:
    """Say whether a URL's query names what is meant to be secret, or a known kind of key is anywhere in it.

    A user and password before the host are the egress policy's to refuse.
    """
    try:
        parts = urlsplit(url)
        is_named = any(says_secret(name) for name, _ in parse_qsl(parts.query, keep_blank_values=True))
        without_user = parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()
    except ValueError:
        return False
    return is_named or redaction.holds_secret(without_user)


def says_secret(name: str) -> bool:
    """Say whether a name is given to what is meant to be secret."""
    return _SAYS_SECRET.search(name) is not None


def _scopes_and_limits(server: ServerConfig) -> Iterator[Problem]:
    prefix = f"mcp.{server.server_id}."
    if any(not scope.startswith(prefix) or scope == prefix for scope in server.required_scopes):
        yield Problem("required_scopes", "foreign", f"Only scopes that begin with {prefix} and go on.")
    elif len(server.required_scopes) > MAXIMUM_SCOPES or any(
        len(scope) > MAXIMUM_SCOPE or not _SCOPE_REST.match(scope.removeprefix(prefix))
        for scope in server.required_scopes
    ):
        yield Problem("required_scopes", "grammar", f"At most {MAXIMUM_SCOPES}: lower-case segments with dots.")
    if not 0 < server.timeout_seconds <= MAXIMUM_SECONDS:
        yield Problem("timeout_seconds", "range", f"1 to {MAXIMUM_SECONDS}.")


def contradictions(classification: Classification) -> Iterator[Problem]:
    """What is read only may be sent again at any time, so nothing that writes can be that."""
    if classification.side_effect.is_write and classification.idempotency is IdempotencyClass.READ_ONLY:
        yield Problem("idempotency", "contradiction", "What writes is not read only.")


def _output(server: ServerConfig, ceiling: int) -> Iterator[Problem]:
    if not 0 < server.maximum_output_bytes <= ceiling:
        yield Problem("maximum_output_bytes", "range", f"1 to {ceiling}.")


def _contracts(server: ServerConfig) -> Iterator[Problem]:
    """A fixed server's catalog is what is written here, so that it has to be right when it is written."""
    declared = server.fixed_tools
    if server.mode is not CatalogMode.FIXED:
        if declared:
            yield Problem(
                "fixed_tools", "not_expected", "Only a fixed server declares its tools here: choose so, or empty this."
            )
        return
    if not 0 < len(declared) <= MAXIMUM_CONTRACTS:
        yield Problem("fixed_tools", "required", f"A fixed server declares 1 to {MAXIMUM_CONTRACTS} tools.")
        return
    for contract in declared:
        for defect in contract.defects():
            yield Problem("fixed_tools", "open", f"{contract.name}: {defect}.")
    found = map_catalog(server, declared_here(server), output_ceiling_bytes=server.maximum_output_bytes)
    for bad in found.rejected:
        yield Problem("fixed_tools", "unusable", f"{bad.remote_name}: {bad.detail}.")
    for clash in found.conflicts:
        yield Problem("fixed_tools", "conflict", f"{' and '.join(clash)} would have one name.")


def _key(server: ServerConfig) -> Iterator[Problem]:
    place, name = server.key_place, server.key_name
    if place is KeyPlace.NONE:
        if name:
            yield Problem("key_name", "not_expected", "Say first where the idempotency key travels.")
        return
    if place is KeyPlace.HEADER and server.transport is Transport.STDIO:
        yield Problem("key_place", "transport", "There is no header on a pipe.")
    if not name:
        yield Problem("key_name", "required", "Say which argument, header or _meta key carries the idempotency key.")
    elif not (AUTH_NAME if place is KeyPlace.HEADER else _META_KEY).match(name):
        yield Problem("key_name", "grammar", "Letters, digits, _ and -, and for _meta also . and /.")
    elif place is KeyPlace.HEADER and name.lower() in {"authorization", *RESERVED_HEADERS}:
        yield Problem("key_name", "reserved", "This header has another meaning.")
