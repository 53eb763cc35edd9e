"""Every environment variable of the program, typed, in one place; the only reader of the environment.

All faults of all variables are reported in one error that names each variable and never shows a value. When
neither DATABASE_URL nor REDIS_URL is set, the record of a running `manage.py up` on the same data folder supplies
what is unset.
Imported by `config.settings` only.
"""

import base64
import binascii
import ipaddress
import json
import os
import re
from pathlib import Path
from typing import Annotated, Any

from django.core.exceptions import ImproperlyConfigured
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, SecretStr, ValidationError
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from config.databases import parse_database_url
from config.datafolder import default_folder, recorded_environment
from toolsys.domain.destinations import EgressRefused, ForwardProxy, Origin
from toolsys.domain.names import RESERVED_DOMAINS, is_valid_name, normalize_glob
from toolsys.domain.schemas import MAXIMUM_BYTES, MAXIMUM_DEPTH, UTMOST_BYTES, UTMOST_DEPTH

MASTER_KEY_BYTES = 32
HINTS = {
    "DATABASE_URL": "postgres://toolsys_app:password@host:5432/toolsys",
    "REDIS_URL": "redis://host:6379/0 or unix:///path/of/the/socket",
    "SECRET_KEY": "50 random characters or more",
    "MASTER_ENCRYPTION_KEY": "32 random bytes, urlsafe base64; several, separated by commas, are a ring",
}


def _split(value: object) -> object:
    """Read a comma-separated list; an empty string is an empty list."""
    return tuple(part.strip() for part in value.split(",") if part.strip()) if isinstance(value, str) else value


def _json(value: object) -> object:
    return json.loads(value or "{}") if isinstance(value, str) else value


def _json_list(value: object) -> object:
    return json.loads(value or "[]") if isinstance(value, str) else value


def _database_url(value: SecretStr) -> SecretStr:
    parse_database_url(value.get_secret_value())
    return value


def _redis_url(value: str) -> str:
    if not value.startswith(("redis://", "rediss://", "unix://")):
        raise ValueError("must begin with redis://, rediss:// or unix://")
    return value


def _public_url(value: str) -> str:
    if not re.fullmatch(r"https?://[^\s/?#@]+(/[^\s?#]*)?", value):
        raise ValueError("must be an http:// or https:// address, without query")
    return value.rstrip("/")


def _network(value: str) -> str:
    ipaddress.ip_network(value)
    return value


def _host(value: str) -> str:
    """Read a host or host:port as a URL would, and only that: no scheme, path, user or wildcard."""
    try:
        origin = Origin.of(f"https://{value}")
    except EgressRefused as refused:
        raise ValueError("must be hosts or host:port pairs, without wildcard") from refused
    if value.lower() not in {origin.authority, origin.authority.rpartition(":")[0]}:
        raise ValueError("must be hosts or host:port pairs, without wildcard")
    return value.lower()


def _listen(value: str) -> str:
    if value and not (value.rpartition(":")[0] and value.rpartition(":")[2].isdecimal()):
        raise ValueError("must be host:port")
    return value


def _host_name(value: str) -> str:
    if ":" in value:
        raise ValueError("must be host names, without port")
    return _host(value)


def decode_master_keys(ring: str) -> tuple[bytes, ...]:
    """Return the keys of the ring, the encrypting one first. Raises: ValueError."""
    try:
        keys = tuple(base64.b64decode(key.strip(), altchars=b"-_", validate=True) for key in ring.split(","))
    except binascii.Error as error:
        raise ValueError("is not urlsafe base64") from error
    if any(len(key) != MASTER_KEY_BYTES for key in keys):
        raise ValueError(f"must decode to {MASTER_KEY_BYTES} bytes")
    return keys


def _proxy(value: SecretStr) -> SecretStr:
    if value.get_secret_value():
        ForwardProxy.of(value.get_secret_value())
    return value


def _master_keys(value: SecretStr) -> SecretStr:
    decode_master_keys(value.get_secret_value())
    return value


Listed = Annotated[tuple[str, ...], NoDecode, BeforeValidator(_split)]
Networks = Annotated[tuple[Annotated[str, AfterValidator(_network)], ...], NoDecode, BeforeValidator(_split)]
Hosts = Annotated[tuple[Annotated[str, AfterValidator(_host)], ...], NoDecode, BeforeValidator(_split)]
HostNames = Annotated[tuple[Annotated[str, AfterValidator(_host_name)], ...], NoDecode, BeforeValidator(_split)]
DatabaseUrl = Annotated[SecretStr, AfterValidator(_database_url)]


class StdioServer(BaseModel):
    """A program that the operator lets workers start as an MCP server over stdio."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    argv: tuple[str, ...] = Field(min_length=1)
    environment: dict[str, str] = Field(default_factory=dict)


class ToolLimit(BaseModel):
    """Tools of one glob that exist only in some environments, or only under some profiles; absent is everywhere."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    tools: Annotated[str, Field(max_length=96), AfterValidator(normalize_glob)]
    environments: frozenset[str] | None = None
    profiles: frozenset[str] | None = None


class SchemaLimit(BaseModel):
    """How deep and how large the schemas of one MCP server of one tenant may be, where the usual is too little."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    tenant: str = Field(min_length=1)
    server: str = Field(min_length=1)
    depth: int = Field(MAXIMUM_DEPTH, ge=MAXIMUM_DEPTH, le=UTMOST_DEPTH)
    bytes: int = Field(MAXIMUM_BYTES, ge=MAXIMUM_BYTES, le=UTMOST_BYTES)


def _effect_probe(named: tuple[str, str]) -> None:
    """A probe is a tool that is built in, or one of the tool's own server. Raises: ValueError."""
    for name in named:
        if not is_valid_name(name):
            raise ValueError("must be an object of tool names")
    tool, probe = (name.split(".") for name in named)
    if tool == probe or (probe[0] in RESERVED_DOMAINS and tool[:2] != probe[:2]):
        raise ValueError("a probe is built in, or another tool of the same server")


def _effect_probes(value: dict[str, str]) -> dict[str, str]:
    for named in value.items():
        _effect_probe(named)
    return value


class Toolsys(BaseSettings):
    """The product's own numbers and switches: TOOLSYS_<NAME>. Units are in the names."""

    model_config = SettingsConfigDict(env_prefix="TOOLSYS_", frozen=True, extra="ignore")

    data_dir: Path = Field(default_factory=default_folder)
    # Set by `manage.py up`, which serves this machine only; cookies are then sent without TLS.
    plain_http: bool = False
    demo: bool = False
    demo_effects_url: str = ""
    demo_mcp_url: str = ""
    demo_docs_url: str = ""
    # A folder turns the crash probe on; empty: no probe.
    probe_dir: str = ""

    lease_seconds: float = Field(10.0, gt=0)
    sweep_seconds: float = Field(2.0, gt=0)
    max_claims: int = Field(5, ge=1)
    claim_cap_per_tenant: int = Field(64, ge=1)
    parallel_cap: int = Field(8, ge=1)
    max_attempts: int = Field(3, ge=1)
    approval_expiry_seconds: int = Field(86_400, ge=1)
    approval_consume_seconds: int = Field(3_600, ge=1)
    inline_maximum_bytes: int = Field(4_096, ge=1_024)
    global_output_ceiling_bytes: int = Field(1_048_576, ge=4_096)
    # One artifact; never less than the hard ceiling, which is four times the largest limit of a tool.
    artifact_maximum_bytes: int = Field(8_388_608, ge=65_536)
    orphan_age_seconds: float = Field(86_400, ge=60)
    orphan_sweep_seconds: float = Field(600, gt=0)
    # Counted from the end of their run; 0: artifacts are kept as long as their run is.
    artifact_retention_days: int = Field(0, ge=0, le=36_500)
    max_body_bytes: int = Field(1_048_576, ge=1_024)
    wait_cap_seconds: float = Field(55.0, gt=0)
    waiters_cap: int = Field(48, ge=0)
    worker_threads: int = Field(8, ge=1, le=256)

    # Origins of web pages whose scripts may use /mcp, beside its own; programs send none.
    mcp_origins: Listed = ()
    # How long a call of an MCP client is waited for, unless it says how long: below the usual time-outs of clients.
    mcp_wait_seconds: float = Field(25.0, ge=0)

    # How long after its call the MCP face knows which step it was, and after its last call a conversation.
    mcp_retention_days: int = Field(90, ge=1, le=36_500)
    # How long a change of an MCP server's catalog is kept, a catalog that no session pinned, and a withdrawn skill.
    mcp_catalog_retention_days: int = Field(90, ge=1, le=36_500)
    # Conversations of one tenant that had a call within a day, or began within it.
    mcp_open_conversations: int = Field(10_000, ge=1)

    # The folder with the files that `file:NAME` credential references name.
    secrets_dir: Path | None = None

    # Who may read /metrics; without it only a machine that serves itself (`plain_http`) shows them.
    metrics_token: SecretStr = SecretStr("")
    # host:port where a worker or scheduler shows its metrics.
    metrics_listen: Annotated[str, AfterValidator(_listen)] = ""

    # How long a tenant's HTTP server is taken at its last listing when a session opens.
    mcp_discovery_reuse_seconds: int = Field(300, ge=0)
    # A handshake; a call, whatever its tool declares; an unused connection.
    mcp_connect_timeout_seconds: float = Field(10.0, gt=0)
    mcp_request_timeout_seconds: int = Field(30, ge=1)
    mcp_idle_timeout_seconds: float = Field(900.0, gt=0)
    # A worker that starts looks at every server before anybody asks; no attempts: it does not.
    mcp_warmup_connect_timeout_seconds: float = Field(60.0, gt=0)
    mcp_warmup_retry_seconds: float = Field(30.0, gt=0)
    mcp_warmup_attempts: int = Field(5, ge=0)
    stdio_servers: Annotated[dict[str, StdioServer], NoDecode, BeforeValidator(_json)] = Field(default_factory=dict)
    mcp_schema_limits: Annotated[tuple[SchemaLimit, ...], NoDecode, BeforeValidator(_json_list)] = ()
    egress_private_cidrs: Networks = ()
    tool_limits: Annotated[tuple[ToolLimit, ...], NoDecode, BeforeValidator(_json_list)] = ()
    # The read-only tool that shows whether another had its effect: what people look at where a call is uncertain.
    effect_probes: Annotated[dict[str, str], NoDecode, BeforeValidator(_json), AfterValidator(_effect_probes)] = Field(
        default_factory=dict
    )
    # host:port, to which plain HTTP may go: an operator's explicit opt-in for local networks.
    egress_plain_http_hosts: Listed = ()
    # Denied whatever is allowed: a host with everything below it, a network.
    egress_denied_hosts: HostNames = ()
    egress_denied_cidrs: Networks = ()
    # The operator's proxy, through which everything leaves but what stays on this machine; empty: there is none.
    egress_proxy: Annotated[SecretStr, AfterValidator(_proxy)] = SecretStr("")
    # Where people reach the console: notifications link to it.
    public_url: Annotated[str, AfterValidator(_public_url)] = "http://127.0.0.1:8000"
    outbox_seconds: float = Field(1.0, gt=0)
    # Messages that were delivered or given up; what waits is kept.
    outbox_retention_days: int = Field(90, ge=1, le=36_500)
    # What `web.fetch` may ask; empty: there is no such tool.
    web_fetch_hosts: Hosts = ()


class Env(BaseSettings):
    """What a deployment sets. The owner's and operator's databases are needed by some processes only."""

    model_config = SettingsConfigDict(frozen=True, extra="ignore")

    database_url: DatabaseUrl
    database_operator_url: DatabaseUrl | None = None
    database_owner_url: DatabaseUrl | None = None
    redis_url: Annotated[str, AfterValidator(_redis_url)]
    secret_key: SecretStr = Field(min_length=32)
    master_encryption_key: Annotated[SecretStr, AfterValidator(_master_keys)]
    debug: bool = False
    allowed_hosts: Listed = ("localhost", "127.0.0.1", "[::1]")
    csrf_trusted_origins: Listed = ()
    # The mail server that notifications go through; without a host there are none by e-mail.
    email_host: str = ""
    email_port: int = Field(587, ge=1, le=65_535)
    email_username: str = ""
    email_password: SecretStr = SecretStr("")
    email_starttls: bool = True
    email_from: str = ""
    log_level: str = "INFO"
    # Where the processes of one machine put their numbers together; read by prometheus_client itself, too.
    prometheus_multiproc_dir: str = ""


def load() -> tuple[Env, Toolsys]:
    """Read the environment. Raises: ImproperlyConfigured with one line per variable at fault."""
    if not os.environ.get("DATABASE_URL") and not os.environ.get("REDIS_URL"):
        for name, value in recorded_environment(default_folder()).items():
            os.environ.setdefault(name, value)
    faults: list[str] = []
    env = _read(Env, "", faults)
    toolsys = _read(Toolsys, "TOOLSYS_", faults)
    if env is None or toolsys is None:
        hint = "Start everything with `make up`, or set the variables:"
        raise ImproperlyConfigured("\n  ".join([f"The environment is incomplete. {hint}", *faults]))
    return env, toolsys


def _read[T: BaseSettings](kind: type[T], prefix: str, faults: list[str]) -> T | None:
    try:
        return kind()
    except ValidationError as error:
        faults += [_describe(prefix, fault) for fault in error.errors(include_input=False, include_url=False)]
    return None


def _describe(prefix: str, fault: Any) -> str:
    name = prefix + str(fault["loc"][0]).upper()
    what = "is not set" if fault["type"] == "missing" else fault["msg"].removeprefix("Value error, ")
    hint = HINTS.get(name)
    return f"{name}: {what}" + (f" ({hint})" if hint else "")
