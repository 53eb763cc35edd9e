"""The SDK's own client against the MCP face, as a program: `python -m … URL KEY MODE [NAME ARGUMENTS]…`; prints JSON.

The calls are made at once; one JSON line for each answer, in their order, after one line with the names of the tools.
Headers beside the key come from the environment (TOOLSYS_SESSION).
"""

import asyncio
import json
import os
import sys
from typing import Any

import httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

SECONDS = 90.0


async def play(url: str, key: str, mode: str, calls: list[tuple[str, dict[str, Any]]]) -> None:
    headers = {
        "Authorization": f"Bearer {key}", "Toolsys-Principal": "user-1",
        "Toolsys-Session": os.environ.get("TOOLSYS_SESSION", ""),
    }  # fmt: skip
    async with httpx2.AsyncClient(headers=headers, timeout=SECONDS) as http:
        transport = streamable_http_client(url, http_client=http)
        async with Client(transport, mode=mode, read_timeout_seconds=SECONDS, cache=None) as client:
            listed = await client.list_tools()
            print(json.dumps([client.protocol_version, [tool.name for tool in listed.tools]]), flush=True)
            for answer in await asyncio.gather(*(client.call_tool(name, given) for name, given in calls)):
                print(answer.model_dump_json(by_alias=True), flush=True)


def main() -> None:
    url, key, mode, *rest = sys.argv[1:]
    calls = [(name, json.loads(given)) for name, given in zip(rest[::2], rest[1::2], strict=True)]
    asyncio.run(play(url, key, mode, calls))


if __name__ == "__main__":
    main()
