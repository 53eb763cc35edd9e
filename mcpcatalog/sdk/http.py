"""Streamable HTTP: the SDK's transport over our egress, with every network error turned into a note and an answer.

A network error that is raised inside the SDK ends the whole connection (python-sdk #3522), so this transport answers
with a synthetic response instead and leaves the cause on the call's record. It decides nothing about retries.
"""

import asyncio
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

import httpx2
from mcp.client.streamable_http import streamable_http_client

from mcpcatalog.remote import ProtocolViolation, RemoteError
from mcpcatalog.sdk.auth import Login
from mcpcatalog.sdk.messages import EventFilter, Unreadable, admitted
from mcpcatalog.sdk.record import CALL, MAXIMUM_RESUMPTIONS, CallRecord
from toolsys.egress import EgressError, PinnedTransport

# A server that ends its stream at once would otherwise be asked again for ever (python-sdk #3257).
STREAM_REOPEN_SECONDS: Final = 30.0
# The SDK posts in line what asks for no answer (a cancellation, our refusal of what a server asks): whoever does not
# take it would hold up every later call of the connection for all of its time.
ASIDE_SECONDS: Final = 2.0
_MAXIMUM_ASIDE_BYTES: Final = 4_096
# Answers that the SDK treats as the failure of one request. The cause is on the record.
_NO_ANSWER: Final = 599
_WITHOUT_BODY: Final = frozenset({202, 204})


class _BodyFailed(httpx2.StreamError):
    """The SDK's JSON path fails one request on this class and the whole connection on any other."""


class GuardedTransport(httpx2.AsyncBaseTransport):
    def __init__(self, inner: PinnedTransport, login: Login, maximum_bytes: int) -> None:
        self._inner = inner
        self._login = login
        self._maximum_bytes = maximum_bytes
        self._stream_opened_at = float("-inf")

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        is_stream, is_aside = request.method == "GET", _is_aside(request)
        record = _record_for(request)
        if is_stream and not self._may_open_stream(request, record):
            return httpx2.Response(405)
        try:
            async with asyncio.timeout(None if record.is_connecting or not is_aside else ASIDE_SECONDS):
                is_waited_for = _is_resumption(request, record) if is_stream else request.method == "POST"
                await self._sign(request, record, may_log_in=is_waited_for and not is_aside)
                response = await self._inner.exchange(request, None if is_stream else self._maximum_bytes)
        except TimeoutError:
            return httpx2.Response(_NO_ANSWER)
        except RemoteError as refusal:
            record.refusal = refusal
            return httpx2.Response(_NO_ANSWER)
        except EgressError as error:
            record.failure = error
            record.was_sent = record.was_sent or error.was_sent
            return httpx2.Response(_NO_ANSWER)
        record.was_sent = True
        record.has_session = "mcp-session-id" in request.headers
        fields = response.headers
        record.note_answer(response.status_code, fields.get("www-authenticate", ""), fields.get("retry-after", ""))
        return httpx2.Response(
            response.status_code, headers=fields, stream=self._body(response, record), extensions=response.extensions
        )

    def _body(self, response: httpx2.Response, record: CallRecord) -> httpx2.AsyncByteStream:
        """Say what is wrong with an answer that cannot be one, and read with care what may be one."""
        kind = response.headers.get("content-type", "").lower()
        if not 200 <= response.status_code < 300:
            return _NotedBody(response, record)
        if kind.startswith("text/event-stream"):
            return _Events(response, record, self._maximum_bytes)
        if record.identifier is None:
            return _NotedBody(response, record)
        if response.status_code in _WITHOUT_BODY or not kind.startswith("application/json"):
            record.refusal = ProtocolViolation(f"status {response.status_code}, content type {kind[:100]!r}")
            return _NotedBody(response, record)
        return _Document(response, record)

    async def _sign(self, request: httpx2.Request, record: CallRecord, *, may_log_in: bool) -> None:
        """Build the header now, so that an expired token is never sent with what somebody waits for. Nothing else is
        worth a new one: it would be kept alive for a connection that nobody uses, as often as the server likes.
        """
        request.headers.pop("baggage", None)
        request.headers.update(await self._login.headers() if may_log_in else self._login.held)
        record.login = self._login.changes

    def _may_open_stream(self, request: httpx2.Request, record: CallRecord) -> bool:
        """Bound both kinds of GET: the standing stream by time, the resumption of a call's stream by count."""
        if "last-event-id" in request.headers:
            record.resumptions += 1
            return record.resumptions <= MAXIMUM_RESUMPTIONS
        now = time.monotonic()
        if now - self._stream_opened_at < STREAM_REOPEN_SECONDS:
            return False
        self._stream_opened_at = now
        return True

    async def aclose(self) -> None:
        await self._inner.aclose()


class _NotedBody(httpx2.AsyncByteStream):
    def __init__(self, response: httpx2.Response, record: CallRecord) -> None:
        self._response = response
        self._record = record

    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            async for chunk in self._response.aiter_raw():
                yield chunk
        except EgressError as error:
            self._record.failure = error
            raise _BodyFailed(error.reason) from error

    async def aclose(self) -> None:
        await self._response.aclose()


class _Document(_NotedBody):
    """One message: handed on when it is whole and ours, since no other answer can follow it."""

    async def __aiter__(self) -> AsyncIterator[bytes]:
        data = b"".join([chunk async for chunk in super().__aiter__()])
        try:
            message = admitted(data, self._record.identifier)
        except Unreadable as error:
            raise self._refused(f"not readable: {error}") from error
        if message is None:
            self._record.strays += 1
            raise self._refused("an answer to another request")
        self._record.has_answer = True
        yield message.data

    def _refused(self, detail: str) -> _BodyFailed:
        self._record.refusal = ProtocolViolation(detail)
        return _BodyFailed(detail)


class _Events(_NotedBody):
    """Many messages: an answer to another request is left out, as every stray is."""

    def __init__(self, response: httpx2.Response, record: CallRecord, maximum_bytes: int) -> None:
        super().__init__(response, record)
        self._filter = EventFilter(record.identifier, maximum_bytes)

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for chunk in super().__aiter__():
            try:
                events = self._filter.feed(chunk)
            except Unreadable as error:
                raise _BodyFailed(str(error)) from error
            self._record.has_answer |= self._filter.has_answer
            self._record.strays, self._filter.strays = self._record.strays + self._filter.strays, 0
            if events:
                yield events


def _record_for(request: httpx2.Request) -> CallRecord:
    """Return the record that this request reports to.

    A call is one POST. What follows in its context (the courtesy cancel, a stream's GET) must not overwrite what the
    call itself saw.
    """
    record = CALL.get()
    if record is None or request.method not in {"POST", "GET"}:
        return CallRecord()
    if request.method == "GET":
        return record if "last-event-id" in request.headers else CallRecord()
    return record if record.is_connecting or not record.was_sent else CallRecord()


def _is_resumption(request: httpx2.Request, record: CallRecord) -> bool:
    """Say whether a call's stream is asked for again, and not the standing one, which stems from the handshake."""
    return "last-event-id" in request.headers and not record.is_connecting


def _is_aside(request: httpx2.Request) -> bool:
    """Say whether a POST carries what nobody answers. Requests are of any size, and those that are long are read by
    nobody here.
    """
    if request.method != "POST" or len(request.content) > _MAXIMUM_ASIDE_BYTES:
        return False
    return not {"id", "method"} <= json.loads(request.content).keys()


@asynccontextmanager
async def http_streams(
    url: str, inner: PinnedTransport, login: Login, *, maximum_bytes: int, idle_seconds: float
) -> AsyncIterator[Any]:
    """Yield the SDK's stream pair. Deadlines of requests are the connection's business, not the client's."""
    guarded = GuardedTransport(inner, login, maximum_bytes)
    # The standing stream shares the client, so its read time-out has to outlast an idle connection.
    bounds = httpx2.Timeout(30.0, connect=10.0, read=idle_seconds + 60.0)
    async with (
        httpx2.AsyncClient(transport=guarded, trust_env=False, follow_redirects=False, timeout=bounds) as client,
        streamable_http_client(url, http_client=client, max_sse_event_size=maximum_bytes) as streams,
    ):
        yield streams
