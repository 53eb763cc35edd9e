"""What we say about a remote MCP server in our own words: configuration, catalog, call, result, errors.

The face of `mcpcatalog.sdk`: no SDK type or exception passes it. Plain frozen records without I/O; importable by
everything in mcpcatalog, and by nothing above it but tests.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import Any, ClassVar, Final, Literal, Protocol

from mcpcatalog.contracts import ToolContract
from toolsys.domain.canonical import canonical_bytes, sha256_hex
from toolsys.domain.context import SecretValue
from toolsys.domain.schemas import USUAL, SchemaCaps
from toolsys.domain.spec import Classification, IdempotencyClass, RiskLevel, SideEffectClass

type JsonObject = dict[str, Any]
type Effect = Literal["not_applied", "unknown", "applied"]
type ResolveCredential = Callable[[str], Awaitable[SecretValue]]
# Learns what a connection declares, before anybody calls on it. Raises: RemoteError.
type Look = Callable[["RemoteServer"], Awaitable[object]]


# Revisions of the protocol without a session: each request stands alone. A test compares them with the SDK's.
STATELESS_REVISIONS: Final = frozenset({"2026-07-28"})


class Transport(StrEnum):
    STDIO = "stdio"
    HTTP = "http"


class AuthScheme(StrEnum):
    NONE = "none"
    BEARER = "bearer"
    HEADER = "header"
    OAUTH2_CLIENT = "oauth2_client"
    ENV = "env"


class CatalogMode(StrEnum):
    """`discovered` offers what the server lists; `fixed` what the configuration declares, and asks for no list (XP)."""

    DISCOVERED = "discovered"
    FIXED = "fixed"


class KeyPlace(StrEnum):
    """Where the application's idempotency key travels; never guessed, only configured."""

    NONE = "none"
    ARGUMENT = "argument"
    HEADER = "header"
    META = "meta"


class Closing(StrEnum):
    """Why a connection that had worked was closed, in `mcp.server.disconnected`; a failure tells its reason code."""

    IDLE = "connection.idle"
    RELEASED = "connection.released"
    REPLACED = "connection.replaced"
    EVICTED = "connection.evicted"
    STOPPED = "connection.stopped"


@dataclass(frozen=True, slots=True)
class StdioCommand:
    """One entry of the deployment's setting `stdio_servers`: the only place that names a command line."""

    argv: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Override:
    """What one tool is believed to do, where that is not what its server is; None is as the server.

    One of operators may be milder, for the declaration that they looked at; one of the tenant only tightens.
    """

    is_operators: bool
    side_effect: SideEffectClass | None = None
    risk: RiskLevel | None = None
    idempotency: IdempotencyClass | None = None
    declaration_hash: str = ""

    def over(self, base: Classification) -> Classification:
        return Classification(
            side_effect=self.side_effect or base.side_effect,
            risk=self.risk or base.risk,
            idempotency=self.idempotency or base.idempotency,
        )


@dataclass(frozen=True)
class ServerConfig:
    """One configured server as every part of the adapter sees it. For stdio, `endpoint` is an entry's name.

    Not `is_permitted`: it is not where the tenant's servers may be, so that it is not dialled.
    """

    tenant_id: str
    server_id: str
    transport: Transport
    endpoint: str
    auth_scheme: AuthScheme = AuthScheme.NONE
    auth_name: str | None = None
    credential_ref: str | None = None
    credential_version: int = 0
    token_endpoint: str | None = None
    token_scopes: tuple[str, ...] = ()
    classification: Classification = field(default_factory=Classification)
    required_scopes: frozenset[str] = frozenset()
    timeout_seconds: int = 30
    maximum_output_bytes: int = 65_536
    mode: CatalogMode = CatalogMode.DISCOVERED
    fixed_tools: tuple[ToolContract, ...] = ()
    key_place: KeyPlace = KeyPlace.NONE
    key_name: str = ""
    is_stateless: bool = False
    negotiated_revision: str = ""
    command: StdioCommand | None = None
    # What the tenant and its operators say of it, and no part of whom we talk to.
    is_permitted: bool = field(default=True, compare=False)
    overrides: Mapping[str, tuple["Override", ...]] = field(default_factory=dict, compare=False)
    schema_caps: SchemaCaps = field(default=USUAL, compare=False)

    @property
    def keeps_state(self) -> bool:
        """Say whether a connection may remember: every process does, and over HTTP every revision with sessions."""
        return not self.is_stateless and (
            self.transport is Transport.STDIO or self.negotiated_revision not in STATELESS_REVISIONS
        )

    @cached_property
    def fingerprint(self) -> str:
        """Return the hash of what decides whom we talk to, as whom (credential and version) and about what.

        Connections, discoveries and approvals are bound to it.
        """
        return sha256_hex(canonical_bytes({
            "transport": self.transport.value, "endpoint": self.endpoint, "auth_scheme": self.auth_scheme.value,
            "auth_name": self.auth_name, "credential_ref": self.credential_ref,
            "credential_version": self.credential_version, "token_endpoint": self.token_endpoint,
            "token_scopes": sorted(self.token_scopes), "is_stateless": self.is_stateless, "mode": self.mode.value,
            "fixed_tools": [contract.model_dump() for contract in self.fixed_tools],
            "command": [list(self.command.argv), dict(self.command.environment)] if self.command else None,
        }))  # fmt: skip

    def said_of(self, remote_name: str, declaration_hash: str, base: Classification) -> Classification:
        """Return what a tool counts as instead of `base`: the operators' word on it, tightened by the tenant's."""
        found = base
        for override in sorted(self.overrides.get(remote_name, ()), key=lambda each: not each.is_operators):
            said = override.over(found)
            is_its = override.is_operators and override.declaration_hash == declaration_hash
            found = said if is_its else found.stricter(said)
        return found


@dataclass(frozen=True, slots=True)
class RemoteTool:
    """One declaration as received. `claims` holds what a server says of itself and what is used for nothing."""

    name: str
    description: str
    input_schema: JsonObject
    claims: JsonObject = field(default_factory=dict)
    is_application_only: bool = False


@dataclass(frozen=True, slots=True)
class RejectedTool:
    remote_name: str
    reason: str
    detail: str = ""


@dataclass(frozen=True, slots=True)
class RemotePrompt:
    """One prompt as received: its name, its description, and its arguments as (name, description, is required)."""

    name: str
    description: str = ""
    arguments: tuple[tuple[str, str, bool], ...] = ()


@dataclass(frozen=True, slots=True)
class Catalog:
    """One complete listing. `rejected` holds declarations that could not be read as tools at all.

    `prompts` is None where nobody looked, or could. Not `is_whole`: there are some, and nobody looked.
    """

    tools: tuple[RemoteTool, ...]
    rejected: tuple[RejectedTool, ...]
    revision: str
    server_name: str = ""
    server_version: str = ""
    has_resources: bool = False
    has_prompts: bool = False
    prompts: tuple[RemotePrompt, ...] | None = None
    is_whole: bool = True


@dataclass(frozen=True, slots=True)
class RemoteResource:
    """One advertised resource; of a template, `uri` is the template."""

    uri: str
    name: str = ""
    description: str = ""
    media_type: str = ""


@dataclass(frozen=True, slots=True)
class Advertised:
    """What a server says that may be read. Not `is_whole`: there was more than we take."""

    resources: tuple[RemoteResource, ...] = ()
    templates: tuple[RemoteResource, ...] = ()
    is_whole: bool = True


@dataclass(frozen=True, slots=True)
class CallSpec:
    """One tools/call. `input_schema` is the pinned one; some of its properties may travel as headers as well."""

    tool: str
    arguments: JsonObject
    timeout_seconds: float
    input_schema: JsonObject = field(default_factory=dict)
    meta: Mapping[str, Any] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CallResult:
    """What arrived, as received. `effect` speaks of errors only: a result without one was applied. `progress` counts
    what was reported on the way.
    """

    is_error: bool
    content: tuple[JsonObject, ...]
    structured: Any
    effect: Effect
    progress: dict[str, int] = field(default_factory=dict)


class RemoteServer(Protocol):
    """One live connection. All methods run on the loop that opened it.

    `declared` is where `discoveries` keeps what it listed on this connection, `advertised` where the resource tool
    does; None until then.
    """

    declared: Mapping[str, str] | None
    advertised: Advertised | None
    is_renewed: bool

    @property
    def connected_in_seconds(self) -> float: ...

    @property
    def is_alive(self) -> bool: ...

    @property
    def revision(self) -> str: ...

    async def log_in(self) -> None:
        """Obtain what the next request logs in with, before anything of it is sent. Raises: RemoteError."""

    async def renew_login(self) -> bool:
        """Log in anew; False where that gave the same value again. Raises: RemoteError."""

    def has_logged_in_since(self, refused: "AuthExpired") -> bool:
        """Say whether what was refused is no longer what a request would carry."""

    async def discover(self, *, with_prompts: bool = False) -> Catalog:
        """Raises: RemoteError."""

    async def call(self, spec: CallSpec) -> CallResult:
        """Raises: RemoteError."""

    async def list_resources(self) -> Advertised:
        """Raises: RemoteError."""

    async def read_resource(self, uri: str, timeout_seconds: float, meta: Mapping[str, Any]) -> CallResult:
        """Raises: RemoteError."""

    async def get_prompt(
        self, name: str, arguments: Mapping[str, str], timeout_seconds: float, meta: Mapping[str, Any]
    ) -> CallResult:
        """Raises: RemoteError."""

    def retire(self, why: str = "tool.server_unreachable") -> None:
        """Take no new calls, and leave when those in flight have ended. An empty `why`: it is told otherwise."""

    async def close(self) -> None: ...

    def force_close(self) -> None: ...


class RemoteError(Exception):
    """Something went wrong between us and the server. `detail` may hold external text: for operators only.

    `effect` says what is known of the call: not_applied where it provably never reached the server or was refused
    before it ran, else unknown.
    """

    reason_code: ClassVar[str] = "tool.transport"

    def __init__(
        self, detail: str = "", *, effect: Effect = "unknown", retry_after_seconds: float | None = None
    ) -> None:
        super().__init__(f"{self.reason_code}: {detail}" if detail else self.reason_code)
        self.detail = detail
        self.effect: Effect = effect
        self.retry_after_seconds = retry_after_seconds


class ServerUnreachable(RemoteError):
    reason_code = "tool.server_unreachable"


class NoWayOut(ServerUnreachable):
    """The operator's forward proxy opened no tunnel. `detail` is our own words: nothing of the proxy's."""


class OutOfConnections(ServerUnreachable):
    """This worker will not dial now. It says nothing about the server."""


class ServerBusy(OutOfConnections):
    """Every connection that this worker may hold was in use for as long as the call could wait."""

    reason_code = "tool.server_busy"


class AuthFailed(RemoteError):
    """The credential was refused while connecting; dialling again with it is one more failed login."""

    reason_code = "tool.auth_failed"


class AuthExpired(RemoteError):
    """The credential was refused on a connection that had worked. `login` says which of the connection's it was."""

    reason_code = "tool.server_unauthorized"
    login = 0


class AuthUnsupported(RemoteError):
    reason_code = "tool.auth_unsupported"


class CredentialMissing(RemoteError):
    reason_code = "tool.credentials_missing"


class PermissionDenied(RemoteError):
    reason_code = "tool.permission"


class RequestTimeout(RemoteError):
    reason_code = "tool.timeout"


class ResponseTooLarge(RemoteError):
    reason_code = "tool.output_too_large"


class DestinationRefused(RemoteError):
    reason_code = "tool.egress_denied"


class RateLimited(RemoteError):
    reason_code = "tool.rate_limited"


class InputRequired(RemoteError):
    """The server wants sampling, roots, elicitation or more input: declined, because answering is a second send."""

    reason_code = "tool.input_required_unsupported"


class ProtocolViolation(RemoteError):
    reason_code = "tool.protocol_error"


class CatalogChurning(ProtocolViolation):
    """A server changed its catalog so often that no further change of it is kept for now."""


class UpstreamError(RemoteError):
    """The server answered the request with a JSON-RPC error or an HTTP error of its own."""

    reason_code = "tool.upstream_error"
