"""Reading a server's lists: raw pages, bounded, and one bad declaration costs only itself.

The tools have to be whole; of resources and prompts a part is taken where there is too much. Shape only; whether a
declaration makes a usable tool is decided in `mcpcatalog.mapping`. Only `mcpcatalog.sdk` imports it.
"""

import json
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from itertools import count
from typing import Any, Final

from mcp.shared.inbound import find_invalid_x_mcp_header

from mcpcatalog.remote import ProtocolViolation, RejectedTool, RemoteTool, ResponseTooLarge, UpstreamError

type Page = dict[str, Any]
type PageAt = Callable[[str | None], Awaitable[Page]]

MAXIMUM_PAGES: Final = 50
MAXIMUM_TOOLS: Final = 1_000
MAXIMUM_NAME: Final = 256
# A page is bounded by the transport; these bound what fifty of them add up to, and what one tool may have us keep.
MAXIMUM_BYTES: Final = 8 * 1024 * 1024
MAXIMUM_DECLARATION_BYTES: Final = 256 * 1024
APPLICATION_ONLY: Final = "veetbot/application-only"
_CLAIMS: Final = ("title", "outputSchema", "annotations")


async def list_tools(
    page_at: PageAt, *, checks_headers: bool
) -> tuple[tuple[RemoteTool, ...], tuple[RejectedTool, ...]]:
    """Return the tools and the declarations that are none.

    Raises: RemoteError; ProtocolViolation for a list that does not end.
    """
    declared: list[Any] = []
    received = 0
    async for number, page in _pages(page_at):
        declared += _declarations(page)
        received += size_of(page)
        if received > MAXIMUM_BYTES:
            raise ResponseTooLarge(f"more than {MAXIMUM_BYTES} bytes of tools", effect="not_applied")
        if len(declared) > MAXIMUM_TOOLS:
            raise ProtocolViolation(f"more than {MAXIMUM_TOOLS} tools", effect="not_applied")
        if number == MAXIMUM_PAGES and _goes_on(page):
            raise ProtocolViolation(f"more than {MAXIMUM_PAGES} pages", effect="not_applied")
    return sorted_out(declared, checks_headers=checks_headers)


async def list_some(page_at: PageAt, key: str, maximum: int) -> tuple[list[Any], bool]:
    """Return the first entries of a list, and whether that is all of them.

    Raises: RemoteError; ProtocolViolation for what is no list, and for a cursor that repeats.
    """
    found: list[Any] = []
    received = 0
    async for number, page in _pages(page_at):
        entries = page.get(key)
        if not isinstance(entries, list):
            raise ProtocolViolation(f"{key} without a list", effect="not_applied")
        found += entries
        received += size_of(page)
        is_enough = len(found) >= maximum or received > MAXIMUM_BYTES or number >= MAXIMUM_PAGES
        if is_enough and _goes_on(page):
            return found[:maximum], False
    return found[:maximum], len(found) <= maximum


async def _pages(page_at: PageAt) -> AsyncIterator[tuple[int, Page]]:
    """Yield the pages, counted from 1, until there is no cursor.

    An empty cursor is one by the newest text, and the end for older servers: it is followed once.
    """
    cursor: str | None = None
    last: Page | None = None
    seen: set[str] = set()
    for number in count(1):
        try:
            page = await page_at(cursor)
        except UpstreamError:
            if cursor == "":
                return
            raise
        if cursor == "" and page == last:
            return
        yield number, page
        last, cursor = page, page.get("nextCursor")
        if not isinstance(cursor, str) or (not cursor and cursor in seen):
            return
        if cursor in seen:
            raise ProtocolViolation("a cursor repeats", effect="not_applied")
        seen.add(cursor)


def _goes_on(page: Page) -> bool:
    return isinstance(page.get("nextCursor"), str) and page["nextCursor"] != ""


def _declarations(page: Page) -> list[Any]:
    tools = page.get("tools")
    if not isinstance(tools, list):
        raise ProtocolViolation("tools/list without a list", effect="not_applied")
    return tools


def sorted_out(declared: list[Any], *, checks_headers: bool) -> tuple[tuple[RemoteTool, ...], tuple[RejectedTool, ...]]:
    names = Counter(_name(item) for item in declared)
    tools: list[RemoteTool] = []
    rejected: list[RejectedTool] = []
    for item in declared:
        reason = _defect(item, checks_headers)
        if reason is None and names[_name(item)] > 1:
            reason = "declared twice"
        if reason is None:
            tools.append(_tool(item))
        else:
            rejected.append(RejectedTool(_name(item), "declaration", reason))
    return tuple(tools), tuple(rejected)


def _name(item: Any) -> str:
    name = item.get("name") if isinstance(item, dict) else None
    return name[:MAXIMUM_NAME] if isinstance(name, str) else ""


def _defect(item: Any, checks_headers: bool) -> str | None:
    if not isinstance(item, dict) or not isinstance(item.get("name"), str) or not item["name"]:
        return "no name"
    if len(item["name"]) > MAXIMUM_NAME:
        return f"a name longer than {MAXIMUM_NAME}"
    if not isinstance(item.get("inputSchema"), dict):
        return "no inputSchema"
    if size_of(item) > MAXIMUM_DECLARATION_BYTES:
        return f"a declaration of more than {MAXIMUM_DECLARATION_BYTES} bytes"
    execution = item.get("execution")
    if isinstance(execution, dict) and execution.get("taskSupport") == "required":
        return "callable only as a task, which is not spoken here"
    # The 2026-07-28 revision obliges clients to drop these: they choose which arguments become headers.
    invalid = find_invalid_x_mcp_header(item["inputSchema"]) if checks_headers else None
    return f"x-mcp-header: {invalid}" if invalid else None


def size_of(value: Any) -> int:
    return len(json.dumps(value, ensure_ascii=False).encode("utf-8", "replace"))


def _tool(item: dict[str, Any]) -> RemoteTool:
    description = item.get("description")
    meta = item.get("_meta")
    return RemoteTool(
        name=item["name"],
        description=description if isinstance(description, str) else "",
        input_schema=item["inputSchema"],
        claims={key: item[key] for key in _CLAIMS if key in item},
        is_application_only=isinstance(meta, dict) and meta.get(APPLICATION_ONLY) is True,
    )
