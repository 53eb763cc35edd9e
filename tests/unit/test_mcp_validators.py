"""The write-time rules of an MCP server's configuration."""

from dataclasses import replace
from typing import Any

import pytest

from mcpcatalog.contracts import ToolContract
from mcpcatalog.remote import AuthScheme, CatalogMode, KeyPlace, ServerConfig, Transport
from mcpcatalog.validators import is_tier_0, problems
from tests.spec.requirements import gate
from toolsys.egress import policy_for

POLICY = policy_for(["https://mcp.example/", "https://login.example/"])
HTTP = ServerConfig("acme", "crm", Transport.HTTP, "https://mcp.example/mcp")
STDIO = ServerConfig("acme", "clock", Transport.STDIO, "time")


def codes(server: ServerConfig, **changes: Any) -> set[tuple[str, str]]:
    found = problems(
        replace(server, **changes), policy=POLICY, stdio_names={"time"}, output_ceiling_bytes=1_048_576,
        is_operator=True,
    )  # fmt: skip
    return {(problem.field, problem.code) for problem in found}


CLOSED: dict[str, Any] = {"type": "object", "additionalProperties": False}


def fixed(schema: dict[str, Any], *names: str, mode: CatalogMode = CatalogMode.FIXED) -> dict[str, Any]:
    tools = tuple(ToolContract(name=name, input_schema=schema) for name in names or ("a",))
    return {"mode": mode, "fixed_tools": tools}


@gate("fixed.declared")
def test_a_typed_contract_may_be_written() -> None:
    schema = {**CLOSED, "properties": {"a": {"type": "string"}, "b": {"$ref": "#/$defs/b"}}, "$defs": {"b": CLOSED}}
    assert codes(HTTP, **fixed(schema)) == set()


@pytest.mark.parametrize(
    "server",
    [
        HTTP,
        STDIO,
        replace(HTTP, auth_scheme=AuthScheme.BEARER, credential_ref="env:X"),
        replace(HTTP, auth_scheme=AuthScheme.HEADER, credential_ref="env:X", auth_name="X-Api-Key"),
        replace(STDIO, auth_scheme=AuthScheme.ENV, credential_ref="env:X", auth_name="API_KEY"),
        replace(
            HTTP, auth_scheme=AuthScheme.OAUTH2_CLIENT, credential_ref="env:X",
            token_endpoint="https://login.example/token", token_scopes=("read",),
        ),
        replace(HTTP, required_scopes=frozenset({"mcp.crm.write"})),
    ],
)  # fmt: skip
def test_a_sound_configuration_has_no_problems(server: ServerConfig) -> None:
    assert codes(server) == set()


@gate("gate.14")
@pytest.mark.parametrize(
    ("server", "changes", "expected"),
    [
        (HTTP, {"credential_ref": "env:X"}, ("credential_ref", "not_expected")),
        (HTTP, {"auth_scheme": "mtls", "credential_ref": "env:X"}, ("auth_scheme", "transport")),
        (STDIO, {"auth_scheme": AuthScheme.ENV, "credential_ref": "env:X"}, ("auth_name", "grammar")),
        (HTTP, {"auth_scheme": AuthScheme.BEARER, "credential_ref": "sk-secret"}, ("credential_ref", "grammar")),
        (HTTP, {"auth_scheme": AuthScheme.BEARER}, ("credential_ref", "required")),
        (HTTP, {"auth_scheme": AuthScheme.HEADER, "credential_ref": "r"}, ("auth_name", "grammar")),
        (HTTP, {"auth_scheme": AuthScheme.HEADER, "credential_ref": "r", "auth_name": "a b"}, ("auth_name", "grammar")),
        (HTTP, {"auth_scheme": AuthScheme.HEADER, "credential_ref": "r", "auth_name": "X-Key\n"},
         ("auth_name", "grammar")),
        (HTTP, {"auth_scheme": AuthScheme.HEADER, "credential_ref": "r", "auth_name": "AUTHORIZATION"},
         ("auth_name", "authorization")),
        (STDIO, {"auth_scheme": AuthScheme.ENV, "credential_ref": "r", "auth_name": "LD_PRELOAD"},
         ("auth_name", "tier_0")),
        (HTTP, {"auth_scheme": AuthScheme.OAUTH2_CLIENT, "credential_ref": "r"}, ("token_endpoint", "required")),
        (HTTP, {"auth_scheme": AuthScheme.OAUTH2_CLIENT, "credential_ref": "r",
                "token_endpoint": "https://evil.example/"}, ("token_endpoint", "egress_not_allowed")),
        (HTTP, {"auth_scheme": AuthScheme.ENV, "credential_ref": "r", "auth_name": "KEY"},
         ("auth_scheme", "transport")),
        (STDIO, {"auth_scheme": AuthScheme.BEARER, "credential_ref": "r"}, ("auth_scheme", "transport")),
        (STDIO, {"auth_scheme": AuthScheme.HEADER, "credential_ref": "r", "auth_name": "X"},
         ("auth_scheme", "transport")),
        (STDIO, {"auth_scheme": AuthScheme.OAUTH2_CLIENT, "credential_ref": "r"}, ("auth_scheme", "transport")),
        (STDIO, {"endpoint": "/bin/sh -c 'curl evil.example'"}, ("endpoint", "unknown_command")),
        (HTTP, {"endpoint": "http://mcp.example/mcp"}, ("endpoint", "egress_not_allowed")),
        (HTTP, {"endpoint": "https://169.254.169.254/"}, ("endpoint", "egress_not_allowed")),
        (HTTP, {"server_id": "Bad-Name"}, ("server_id", "grammar")),
        (HTTP, {"required_scopes": frozenset({"session.write"})}, ("required_scopes", "foreign")),
        (HTTP, {"required_scopes": frozenset({"mcp.other.write"})}, ("required_scopes", "foreign")),
        (HTTP, {"maximum_output_bytes": 1_048_577}, ("maximum_output_bytes", "range")),
        (HTTP, {"timeout_seconds": 0}, ("timeout_seconds", "range")),
        (HTTP, {"mode": CatalogMode.FIXED}, ("fixed_tools", "required")),
        (HTTP, fixed(CLOSED, mode=CatalogMode.DISCOVERED), ("fixed_tools", "not_expected")),
        (HTTP, fixed({"type": "object"}), ("fixed_tools", "open")),
        (HTTP, fixed({}), ("fixed_tools", "open")),
        (HTTP, fixed({**CLOSED, "properties": {"a": {}}}), ("fixed_tools", "open")),
        (HTTP, fixed({**CLOSED, "properties": []}), ("fixed_tools", "open")),
        (HTTP, fixed({**CLOSED, "properties": {"a": {"type": "text"}}}), ("fixed_tools", "unusable")),
        (HTTP, fixed({**CLOSED, "$ref": "https://evil.example/x"}), ("fixed_tools", "unusable")),
        (HTTP, fixed(CLOSED, "a", "A"), ("fixed_tools", "conflict")),
        (HTTP, fixed(CLOSED, *(f"t{n}" for n in range(65))), ("fixed_tools", "required")),
        (HTTP, {"key_place": KeyPlace.META}, ("key_name", "required")),
        (STDIO, {"key_place": KeyPlace.HEADER, "key_name": "Idempotency-Key"}, ("key_place", "transport")),
    ],
)  # fmt: skip
def test_each_rule_names_its_field(server: ServerConfig, changes: dict[str, Any], expected: tuple[str, str]) -> None:
    assert expected in codes(server, **changes)


@gate("gate.14")
@pytest.mark.parametrize(
    "name", ["PATH", "HOME", "LC_ALL", "LD_LIBRARY_PATH", "DYLD_INSERT_LIBRARIES", "PYTHONPATH", "NODE_OPTIONS",
             "SSL_CERT_FILE", "HTTPS_PROXY", "https_proxy", "TMPDIR"]
)  # fmt: skip
def test_variables_of_the_platform_are_refused(name: str) -> None:
    assert is_tier_0(name)
    assert not is_tier_0("API_KEY")
