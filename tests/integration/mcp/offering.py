"""A scripted MCP server that offers more than tools, in both eras: `/{modern|legacy}/{name}`, each name an `Offer`.

It answers every method from what a test writes down and records every message that it gets. How a server may hurt on
the wire is in `misbehaving`, how it asks for a login in `guarded`.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tests.integration.mcp.misbehaving import _MODERN, Reply, _body

type Answer = dict[str, Any] | Callable[[dict[str, Any]], dict[str, Any]]

ANY: dict[str, Any] = {"type": "object"}


@dataclass
class Offer:
    """`answers` maps a method to its result, or to a function of its params; what is missing is no method of it.
    `greeting` is what it says to a handshake instead of shaking hands.
    """

    answers: dict[str, Answer] = field(default_factory=dict)
    capabilities: dict[str, Any] = field(default_factory=lambda: {"tools": {}})
    greeting: dict[str, Any] | None = None
    seen: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)

    def sent(self, method: str) -> list[dict[str, Any]]:
        return [params for name, params in self.seen if name == method]

    @property
    def methods(self) -> list[str]:
        return [name for name, _ in self.seen]


@dataclass
class Offering:
    """One ASGI application of many offers."""

    offers: dict[str, Offer] = field(default_factory=dict)

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        _, era, name = scope["path"].split("/")
        body = await _body(receive)
        if scope["method"] != "POST":
            await Reply(send, None).plain(405)
            return
        message = json.loads(body)
        offer, reply = self.offers[name], Reply(send, message.get("id"))
        method, params = message.get("method", ""), message.get("params") or {}
        offer.seen.append((method, params))
        offer.headers.append({key.decode(): value.decode() for key, value in scope["headers"]})
        if message.get("id") is None:
            await reply.plain(202)
        elif method in {"server/discover", "initialize"}:
            await self._greet(era, method, offer, reply)
        elif method in offer.answers:
            answer = offer.answers[method]
            result = answer(params) if callable(answer) else answer
            await _say(reply, {**(_MODERN if era == "modern" else {}), **result})
        else:
            await reply.error(-32_601, "no such method")

    async def _greet(self, era: str, method: str, offer: Offer, reply: Reply) -> None:
        if offer.greeting is not None:
            await _say(reply, offer.greeting)
        elif (era == "modern") != (method == "server/discover"):
            await reply.error(-32_601, "not in this era")
        elif era == "modern":
            await reply.result({"supportedVersions": ["2026-07-28"], "capabilities": offer.capabilities, **_MODERN})
        else:
            info = {"name": "offering", "version": "0"}
            result = {"protocolVersion": "2025-11-25", "capabilities": offer.capabilities, "serverInfo": info}
            await reply.result(result, {"mcp-session-id": "S-1"})


async def _say(reply: Reply, result: dict[str, Any]) -> None:
    """A key `error` makes an error of it: (code, message)."""
    if "error" in result:
        await reply.error(*result["error"])
    else:
        await reply.result(result)
