"""What a server offers besides tools: lists of resources and prompts, and the reading of one of each.

Each function asks through the connection's own bounded request. Only `mcpcatalog.sdk` imports it.
"""

import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import suppress
from typing import Any, Final

import mcp_types

from mcpcatalog import resources
from mcpcatalog.remote import (
    Advertised,
    CallResult,
    InputRequired,
    ProtocolViolation,
    RemoteError,
    RemotePrompt,
    UpstreamError,
)
from mcpcatalog.sdk import listing

log = logging.getLogger(__name__)
MAXIMUM_RESOURCES: Final = 1_000
MAXIMUM_TEMPLATES: Final = 200
MAXIMUM_PROMPTS: Final = 200

type Ask = Callable[[Any], Awaitable[dict[str, Any]]]


def pages(ask: Ask, kind: Callable[..., Any]) -> listing.PageAt:
    """Return the way to one page of a list at a time."""

    async def page_at(cursor: str | None) -> dict[str, Any]:
        return await ask(kind(params=mcp_types.PaginatedRequestParams(cursor=cursor) if cursor is not None else None))

    return page_at


async def list_resources(ask: Ask) -> Advertised:
    """List what may be read, templates included; a server that has none need not know the method.

    Raises: RemoteError.
    """
    found, is_whole = await listing.list_some(
        pages(ask, mcp_types.ListResourcesRequest), "resources", MAXIMUM_RESOURCES
    )
    templates: list[Any] = []
    with suppress(UpstreamError):
        templates, are_whole = await listing.list_some(
            pages(ask, mcp_types.ListResourceTemplatesRequest), "resourceTemplates", MAXIMUM_TEMPLATES
        )
        is_whole = is_whole and are_whole
    usable = (tuple(resources.usable(found, "uri")), tuple(resources.usable(templates, "uriTemplate")))
    return Advertised(*usable, is_whole)


async def read_resource(ask: Ask, uri: str, meta: Mapping[str, Any]) -> CallResult:
    """Send one resources/read, once; its contents come as embedded resources do. Raises: RemoteError."""
    params = mcp_types.ReadResourceRequestParams.model_validate({"uri": uri, "_meta": dict(meta) or None})
    raw = await ask(mcp_types.ReadResourceRequest(params=params))
    require_complete(raw)
    contents = raw.get("contents", [])
    if not isinstance(contents, list) or not all(isinstance(item, dict) for item in contents):
        raise ProtocolViolation("contents is not a list of objects")
    blocks = tuple({"type": "resource", "resource": item} for item in contents)
    return CallResult(is_error=False, content=blocks, structured=None, effect="applied")


async def prompts_of(offered: mcp_types.ServerCapabilities | None, ask: Ask) -> tuple[RemotePrompt, ...] | None:
    """List the prompts, as many as we take; None where that failed, because it must not cost any tool.

    An entry that cannot be read is none.
    """
    if offered is None or offered.prompts is None:
        return ()
    try:
        found, _ = await listing.list_some(pages(ask, mcp_types.ListPromptsRequest), "prompts", MAXIMUM_PROMPTS)
    except RemoteError as error:
        log.info("mcp prompts not listed reason=%s", error.reason_code)
        return None
    return tuple(_prompt(item) for item in found if isinstance(item, dict) and isinstance(item.get("name"), str))


async def get_prompt(ask: Ask, name: str, arguments: Mapping[str, str], meta: Mapping[str, Any]) -> CallResult:
    """Send one prompts/get, once. Who is said to speak stands before each message as text, for nobody here speaks.

    Raises: RemoteError.
    """
    params = mcp_types.GetPromptRequestParams.model_validate(
        {"name": name, "arguments": dict(arguments) or None, "_meta": dict(meta) or None}
    )
    raw = await ask(mcp_types.GetPromptRequest(params=params))
    require_complete(raw)
    messages = raw.get("messages")
    if not isinstance(messages, list):
        raise ProtocolViolation("messages is not a list")
    blocks = tuple(block for message in messages for block in _blocks(message))
    return CallResult(is_error=False, content=blocks, structured=None, effect="applied")


def _blocks(message: Any) -> Iterator[dict[str, Any]]:
    content = message.get("content") if isinstance(message, dict) else None
    if not isinstance(content, dict) or message.get("role") not in {"user", "assistant"}:
        raise ProtocolViolation("a message without a role or content")
    text = content.get("text")
    if isinstance(text, str):
        yield {"type": "text", "text": f"{message['role']}: {text}"}
    else:
        yield from ({"type": "text", "text": f"{message['role']}:"}, content)


def _prompt(item: dict[str, Any]) -> RemotePrompt:
    declared = item.get("arguments")
    arguments = [each for each in declared if isinstance(each, dict)] if isinstance(declared, list) else []
    return RemotePrompt(
        item["name"],
        _text(item, "description"),
        tuple((_text(each, "name"), _text(each, "description"), each.get("required") is True) for each in arguments),
    )


def _text(item: dict[str, Any], key: str) -> str:
    value = item.get(key)
    return value if isinstance(value, str) else ""


def require_complete(raw: dict[str, Any]) -> None:
    """Raises: InputRequired, ProtocolViolation."""
    kind = raw.get("resultType", "complete")
    if kind != "complete":
        refused = InputRequired if kind == "input_required" else ProtocolViolation
        raise refused(f"result of type {str(kind)[:40]!r}")
