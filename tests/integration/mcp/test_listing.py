"""Reading a server's list: it ends, it is bounded, and a bad declaration costs only itself."""

import asyncio
from typing import Any

import pytest

from mcpcatalog.remote import ProtocolViolation, RemoteError, ResponseTooLarge
from mcpcatalog.sdk import listing
from tests.spec.requirements import gate

FINE = {"type": "object"}


def listed(*pages: dict[str, Any]) -> tuple[list[str], list[tuple[str, str]]]:
    asked: list[str | None] = []

    async def page_at(cursor: str | None) -> dict[str, Any]:
        asked.append(cursor)
        assert len(asked) <= 60, "the list does not end"
        return pages[min(len(asked), len(pages)) - 1]

    tools, rejected = asyncio.run(listing.list_tools(page_at, checks_headers=True))
    return [tool.name for tool in tools], [(bad.remote_name, bad.detail) for bad in rejected]


def tool(name: Any, **more: Any) -> dict[str, Any]:
    return {"name": name, "inputSchema": FINE, **more}


@gate("discovery.singly")
def test_bad_declarations_are_told_and_their_siblings_stay() -> None:
    bound = listing.MAXIMUM_DECLARATION_BYTES
    header = {"type": "object", "properties": {"a": {"type": "object", "x-mcp-header": "A"}}}
    names, rejected = listed(
        {"tools": [tool("a"), tool("twice"), 7, tool(""), tool(None)], "nextCursor": "2"},
        {"tools": [tool("twice"), {"name": "none"}, tool("n" * 257), tool("big", title="é" * (bound // 2))]},
    )  # fmt: skip
    assert names == ["a"]
    assert rejected == [
        ("twice", "declared twice"), ("", "no name"), ("", "no name"), ("", "no name"), ("twice", "declared twice"),
        ("none", "no inputSchema"), ("n" * 256, "a name longer than 256"),
        ("big", f"a declaration of more than {bound} bytes"),
    ]  # fmt: skip
    assert listed({"tools": [tool("a"), tool("h", inputSchema=header)]})[0] == ["a"]


@pytest.mark.parametrize(
    ("pages", "error"),
    [
        ([{"tools": [tool("a")], "nextCursor": "same"}], ProtocolViolation),
        ([{"tools": [tool("a")], "nextCursor": str(n)} for n in range(60)], ProtocolViolation),
        ([{"tools": [tool(f"t{n}") for n in range(1_001)]}], ProtocolViolation),
        ([{"tools": []}, {"tools": 7}], None),
        ([{"tools": 7}], ProtocolViolation),
        (
            [{"tools": [tool("a", description="x" * 3_000_000)], "nextCursor": str(n)} for n in range(9)],
            ResponseTooLarge,
        ),
    ],
    ids=["loop", "pages", "tools", "one page", "no list", "bytes"],
)
def test_a_list_is_bounded_in_every_way(pages: list[dict[str, Any]], error: type[RemoteError] | None) -> None:
    if error is None:
        assert listed(*pages) == ([], [])
        return
    with pytest.raises(error) as raised:
        listed(*pages)
    assert raised.value.effect == "not_applied"
