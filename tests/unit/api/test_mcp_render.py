"""How tools look to MCP clients: valid at both revisions, without what is meant for another server's headers."""

from typing import Any

import pytest
from mcp_types import methods

from tests.spec.requirements import gate
from toolsys.api import mcp_render

SCHEMA: dict[str, Any] = {
    "properties": {
        "region": {"type": "string", "x-mcp-header": "Region", "enum": [{"x-mcp-header": "data"}]},
        "x-mcp-header": {"type": "string", "x-mcp-header": "Own"},
        "list": {"items": {"anyOf": [{"x-mcp-header": "Deep"}, True]}},
    },
    "$defs": {"d": {"not": {"x-mcp-header": "N", "const": 1}}},
    "default": {"x-mcp-header": "data"},
    "additionalProperties": False,
}


def spec(name: str, **changed: Any) -> dict[str, Any]:
    return {
        "name": name, "description": "d", "input_schema": SCHEMA, "side_effect": "external_write",
        "idempotency": "non_idempotent", "model_visible": True, **changed,
    }  # fmt: skip


@gate("mcp.face.tools")
def test_no_argument_is_copied_into_headers_for_a_server_behind_us() -> None:
    (tool,) = mcp_render.tools({"a.b": spec("a.b")})
    assert tool["inputSchema"] == {
        "type": "object",
        "properties": {
            "region": {"type": "string", "enum": [{"x-mcp-header": "data"}]},
            "x-mcp-header": {"type": "string"},
            "list": {"items": {"anyOf": [{}, True]}},
        },
        "$defs": {"d": {"not": {"const": 1}}},
        "default": {"x-mcp-header": "data"},
        "additionalProperties": False,
    }
    assert tool["annotations"] == {
        "readOnlyHint": False, "destructiveHint": True, "idempotentHint": False, "openWorldHint": True,
    }  # fmt: skip


@gate("mcp.face.tools")
@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
def test_what_is_listed_is_valid_and_in_order(revision: str) -> None:
    pinned = {name: spec(name) for name in ("b.z", "a.y", "a.b")} | {"a.c": spec("a.c", model_visible=False)}
    listed = {"tools": mcp_render.tools(pinned)}
    assert [tool["name"] for tool in listed["tools"]] == ["a.b", "a.y", "b.z"]
    extra = {"ttlMs": 0, "cacheScope": "private"} if revision == "2026-07-28" else {}
    methods.validate_server_result("tools/list", revision, mcp_render.completed(listed) | extra)
