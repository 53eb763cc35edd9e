"""What the suite starts as the client under test: our adapter, told by a URL and the environment what to do.

The last argument is the server's URL; MCP_CONFORMANCE_SCENARIO, _CONTEXT and _PROTOCOL_VERSION are the suite's. It does
what a worker does: connects, lists, calls each tool that was not rejected, and reads what else is advertised.
"""

import asyncio
import json
import os
import sys
from collections.abc import Iterator
from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit

import httpx2

from mcpcatalog.mapping import map_catalog
from mcpcatalog.remote import AuthScheme, CallSpec, Catalog, RemoteError, ServerConfig, Transport
from mcpcatalog.sdk.connection import Connection, Timeouts
from mcpcatalog.sdk.pool import ConnectionPool
from toolsys.domain.context import SecretValue
from toolsys.egress import EgressPolicy, policy_for

SCENARIO = os.environ["MCP_CONFORMANCE_SCENARIO"]
CONTEXT: dict[str, Any] = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT") or "{}")
REVISION = os.environ.get("MCP_CONFORMANCE_PROTOCOL_VERSION", "")
VALUES: dict[str, Any] = {"string": "x", "number": 1, "integer": 1, "boolean": True, "array": [], "object": {}}


def policy_of(config: ServerConfig) -> EgressPolicy:
    urls = [config.endpoint, *([config.token_endpoint] if config.token_endpoint else [])]
    authorities = [urlsplit(url).netloc for url in urls]
    return policy_for(urls, open_networks=["127.0.0.0/8", "::1/128"], plain_http_hosts=authorities)


async def credential(_reference: str) -> SecretValue:
    return SecretValue(json.dumps({name: CONTEXT.get(name, "") for name in ("client_id", "client_secret")}))


# Their context has a client's id and secret: an operator would configure both.
WITH_A_CLIENT = ("auth/client-credentials-basic", "auth/pre-registration")


def configured(url: str) -> ServerConfig:
    """Do what an operator does: a token endpoint is configured, never discovered by the adapter."""
    if SCENARIO not in WITH_A_CLIENT:
        return ServerConfig("acme", "suite", Transport.HTTP, url, negotiated_revision=REVISION)
    parts = urlsplit(url)
    origin = f"{parts.scheme}://{parts.netloc}"
    described = httpx2.get(f"{origin}/.well-known/oauth-protected-resource{parts.path}").json()
    issuer = str(described["authorization_servers"][0]).rstrip("/")
    issued = httpx2.get(f"{issuer}/.well-known/oauth-authorization-server").json()
    return ServerConfig(
        "acme", "suite", Transport.HTTP, url, AuthScheme.OAUTH2_CLIENT, credential_ref="env:CLIENT",
        token_endpoint=issued["token_endpoint"], negotiated_revision=REVISION,
    )  # fmt: skip


def calls(config: ServerConfig, catalog: Catalog) -> Iterator[CallSpec]:
    """What the suite asks for, else each tool with arguments that its schema requires."""
    offered = {tool.name: tool for tool, _ in map_catalog(config, catalog, output_ceiling_bytes=1_048_576).tools}
    asked = CONTEXT.get("toolCalls") or [
        {"name": name, "arguments": required(name, tool.input_schema)} for name, tool in offered.items()
    ]
    if SCENARIO == "json-schema-2020-12-preservation":
        schema = offered["json_schema_2020_12_tool"].input_schema
        asked = [{"name": "json_schema_echo", "arguments": {"schema": schema}}]
    for call in asked:
        if call["name"] in offered:
            schema = offered[call["name"]].input_schema
            yield CallSpec(call["name"], call.get("arguments") or {}, 10.0, input_schema=schema)


def required(name: str, schema: dict[str, Any]) -> dict[str, Any]:
    if name == "add_numbers":
        return {"a": 5, "b": 3}
    properties = schema.get("properties", {})
    return {key: VALUES.get(properties.get(key, {}).get("type"), "x") for key in schema.get("required", [])}


async def use(connection: Connection, config: ServerConfig) -> None:
    catalog = await connection.discover()
    for spec in calls(config, catalog):
        try:
            answer = await connection.call(spec)
            print(spec.tool, answer.content, file=sys.stderr)
        except RemoteError as error:
            print(spec.tool, error.reason_code, error, file=sys.stderr)
    with suppress(RemoteError):
        advertised = await connection.list_resources()
        for resource in advertised.resources[:3]:
            await connection.read_resource(resource.uri, 10.0, {})


async def main(url: str) -> int:
    config = configured(url)
    pool = ConnectionPool(policy_of, timeouts=Timeouts(connect=20, probe=8, request=15))
    try:
        await use(await pool.acquire(config, "s", credential), config)
    except RemoteError as error:
        print(error.reason_code, error, file=sys.stderr)
        return 1
    finally:
        await pool.close_all()
    return 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main(sys.argv[-1])))
