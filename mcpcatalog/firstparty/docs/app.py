"""The docs server over HTTP: who may ask, how much, and for how long. An ASGI application of one path.

Every request needs a bearer token; nothing is said to who has none. The log names the method, the tool, the status and
the caller's invocation id, and nothing of arguments, answers or tokens.
"""

import asyncio
import hmac
import json
import logging
import re
import time
from collections.abc import Iterable
from typing import Any, Final

from mcpcatalog.firstparty.docs import protocol
from mcpcatalog.firstparty.docs.library import Library

PATH: Final = "/mcp"
MAXIMUM_BODY_BYTES: Final = 64 * 1024
MAXIMUM_ANSWER_BYTES: Final = 512 * 1024
READ_SECONDS: Final = 10.0
WORK_SECONDS: Final = 20.0
AT_ONCE: Final = 4
INVOCATION_ID: Final = "toolsys.gateway/invocation-id"
log = logging.getLogger("toolsys.docs_server")

type Headers = dict[str, str]


class DocsServer:
    def __init__(self, library: Library, tokens: Iterable[str]) -> None:
        self._library = library
        self._tokens = tuple(token.encode() for token in tokens)
        if not self._tokens:
            raise ValueError("a docs server without a token would let everybody in")
        self._working = asyncio.Semaphore(AT_ONCE)

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return
        begun = time.monotonic()
        headers = {key.decode("latin-1").lower(): value.decode("latin-1") for key, value in scope["headers"]}
        refused = self._refusal(scope, headers)
        body = b"" if refused else await _body(receive)
        if not refused and body is None:
            refused = 413
        answered = protocol.Answer(refused) if refused else await self._answer(body or b"", headers)
        await _send(send, answered)
        log.info("%s", json.dumps({
            "status": answered.status, "method": headers.get("mcp-method", "")[:64] if not refused else "",
            "tool": answered.tool, "invocation_id": _invocation_id(body or b""),
            "duration_ms": round((time.monotonic() - begun) * 1_000),
        }))  # fmt: skip

    def _refusal(self, scope: dict[str, Any], headers: Headers) -> int:
        """Return the status of a request that is not looked at, or 0."""
        if not self._is_known(headers.get("authorization", "")):
            return 401
        if scope["path"] != PATH:
            return 404
        if scope["method"] != "POST":
            return 405
        if "origin" in headers:
            return 403  # a browser has no business here
        kind = headers.get("content-type", "").partition(";")[0].strip().lower()
        return 0 if kind == "application/json" and "content-encoding" not in headers else 415

    def _is_known(self, authorization: str) -> bool:
        scheme, _, token = authorization.partition(" ")
        given = token.strip().encode("utf-8", "replace")
        # Every token is compared, so that the time says nothing of which came close.
        matches = [hmac.compare_digest(given, known) for known in self._tokens]
        return scheme.lower() == "bearer" and any(matches)

    async def _answer(self, body: bytes, headers: Headers) -> protocol.Answer:
        try:
            async with asyncio.timeout(WORK_SECONDS), self._working:
                found = await asyncio.to_thread(protocol.answer, body, headers, self._library)
        except TimeoutError:
            return protocol.Answer(503)
        except OSError:
            return protocol.Answer(500)  # the folder is gone
        return found


async def _body(receive: Any) -> bytes | None:
    """Return the body, or None for one that is too large, too slow or broken off."""
    body = b""
    try:
        async with asyncio.timeout(READ_SECONDS):
            while True:
                event = await receive()
                body += bytes(event.get("body", b""))
                if event["type"] != "http.request" or len(body) > MAXIMUM_BODY_BYTES:
                    return None
                if not event.get("more_body"):
                    return body
    except TimeoutError:
        return None


async def _send(send: Any, answer: protocol.Answer) -> None:
    text = b"" if answer.body is None else json.dumps(answer.body, ensure_ascii=False).encode("utf-8", "replace")
    if len(text) > MAXIMUM_ANSWER_BYTES:
        answer, text = protocol.Answer(500), b""
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(text)).encode()),
               (b"cache-control", b"no-store"), (b"x-content-type-options", b"nosniff")]  # fmt: skip
    headers += [(b"www-authenticate", b"Bearer")] if answer.status == 401 else []
    headers += [(b"allow", b"POST")] if answer.status == 405 else []
    await send({"type": "http.response.start", "status": answer.status, "headers": headers})
    await send({"type": "http.response.body", "body": text})


def _invocation_id(body: bytes) -> str:
    """Return the caller's id of this execution, if it looks like one: the only thing of a message that is logged."""
    found = re.search(rb'"' + INVOCATION_ID.encode() + rb'"\s*:\s*"([0-9a-f-]{36})"', body)
    return found[1].decode() if found else ""
