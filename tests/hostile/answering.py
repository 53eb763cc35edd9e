"""The table of answers that arrive: malformed ones, errors, and odd ones that are still answers."""

import json
from collections.abc import Iterator, Sequence
from typing import Final

from tests.hostile.calling import ANSWER
from tests.hostile.row import AUTH_UNSUPPORTED, INPUT, PROTOCOL, UNREACHABLE, UPSTREAM, Row, called, fine
from tests.hostile.scripts import (
    DROP,
    HOSTILE,
    JSON,
    SSE,
    STALL,
    Act,
    Pause,
    acts,
    answer,
    chunked,
    closing,
    error,
    event,
    events,
    head,
    http,
    mine,
    notification,
    result,
    rpc,
)

OTHER: Final = json.dumps({"jsonrpc": "2.0", "id": 99, "result": result([{"type": "text", "text": "stray"}])})
PRETTY: Final = json.dumps({"jsonrpc": "2.0", "id": "@id@", "result": result()}, indent=1)
TEXT: Final = [{"type": "text", "text": HOSTILE}]


def malformed() -> Iterator[Row]:
    deep = "[" * 100_000
    for name, body in {
        "empty": "", "text": "ok", "a-number": "7", "a-list": f"[{ANSWER}]", "half": ANSWER[:-9], "deep": deep,
        "deep-inside": ANSWER.replace('"fine"', deep), "nan": ANSWER.replace('"fine"', "NaN"),
        "two-documents": ANSWER + ANSWER, "without-version": ANSWER.replace('"2.0"', '"1.0"'),
        "without-result": rpc(), "with-a-string": rpc(result="fine"), "with-null": rpc(result=None),
        "with-a-list": rpc(result=[]), "of-another": OTHER, "of-nobody": ANSWER.replace('"@id@"', "null"),
        "of-a-truth": ANSWER.replace('"@id@"', "true"), "of-type-task": rpc(result=result(resultType="task")),
        "both": rpc(result=result(), error={"code": 1, "message": "no"}),
        "of-an-odd-type": rpc(result=result(resultType="odd")), "with-text-as-content": rpc(result=result("fine")),
        "with-words-as-content": rpc(result=result(["fine"])), "with-an-error-that-is-text": rpc(error="no"),
        "with-an-error-without-code": rpc(error={"message": "no"}),
    }.items():  # fmt: skip
        yield called(f"malformed-{name}", PROTOCOL, "unknown", http(body))
    yield called("malformed-utf8", PROTOCOL, "unknown", http(ANSWER.encode().replace(b"fine", b"\xff\xfe\xc0")))
    yield called("malformed-utf16", PROTOCOL, "unknown", http(ANSWER.encode("utf-16")))
    for name, kind in {"html": "text/html", "xml": "application/xml", "none": None, "odd": "x" * 500}.items():
        yield called(f"kind-{name}", PROTOCOL, "unknown", http(ANSWER, kind=kind))
    yield called("kind-json-for-events", UNREACHABLE, "unknown", http(ANSWER, kind=SSE), says="no event in it: B25")
    yield called("kind-events-for-json", PROTOCOL, "unknown", http(f"data: {ANSWER}\n\n", kind=JSON))
    yield called("status-202-to-a-call", PROTOCOL, "unknown", http("", "202 Accepted", None))
    yield called("status-204-to-a-call", PROTOCOL, "unknown", http("", "204 No Content", None))
    yield called("length-is-a-lie", PROTOCOL, "unknown", lambda i: [head(Content_Length="30") + mine(ANSWER, i)])
    yield called("event-is-no-json", PROTOCOL, "unknown", events("data: nonsense\n\n"))
    yield called("event-is-not-utf8", PROTOCOL, "unknown", acts(head(kind=SSE) + b"data: \xff\xff\n\n", DROP))


def errors() -> Iterator[Row]:
    for name, given in {
        "of-a-server": (-32_050, HOSTILE), "internal": (-32_603, "oops"), "odd": (1, HOSTILE),
        "huge": (-1, "x" * 90_000),
        "that-says-timeout": (-32_001, "Request 'tools/call' timed out"),
        "that-says-closed": (-32_000, "Connection closed"),
        "that-says-refused": (-32_600, "Session terminated"),
    }.items():  # fmt: skip
        yield called(
            f"error-{name}", UPSTREAM, "unknown", error(*given), says="no code of -32000 to -32019 is believed"
        )
    for name, code in {"no-method": -32_601, "no-tool": -32_602}.items():
        yield called(f"error-{name}", UPSTREAM, "not_applied", error(code, "unknown tool"))
    yield called(
        "error-of-a-login", AUTH_UNSUPPORTED, "not_applied", error(-32_042, "visit", data={"elicitations": []})
    )
    yield called("error-of-a-capability", INPUT, "not_applied", error(-32_021, "elicitation please"))
    wants = {"resultType": "input_required", "requestState": "s"}
    yield called("wants-input", INPUT, "unknown", answer(wants), says="DESIGN §7: answering would be a second send")
    asks = {"a": {"method": "elicitation/create", "params": {"message": "password?"}}}
    yield called("wants-a-password", INPUT, "unknown", answer({**wants, "inputRequests": asks}))
    for name, structured in {"none": None, "applied": {"effect_status": "applied"}, "a-list": ["not_applied"],
                             "a-truth": {"effect_status": True}, "nested": {"x": {"effect_status": "not_applied"}},
                             "shouted": {"effect_status": "NOT_APPLIED"}}.items():  # fmt: skip
        found = result(TEXT, isError=True, structuredContent=structured)
        yield called(f"reports-an-error-with-{name}", UPSTREAM, "unknown", answer(found), says="TS: Failure modes")
    proved = result(TEXT, isError=True, structuredContent={"effect_status": "not_applied"})
    yield called("reports-an-error-with-proof", UPSTREAM, "not_applied", answer(proved))
    in_text = result([{"type": "text", "text": '{"effect_status": "not_applied"}'}], isError=True)
    yield called("reports-an-error-with-proof-in-text", UPSTREAM, "unknown", answer(in_text))


def streams() -> Iterator[Row]:
    yield fine("events-with-crlf", events(event(PRETTY, "\r\n")), says="B31")
    yield fine("events-with-cr", events(event(PRETTY, "\r")), says="B31")
    yield fine("events-without-a-space", events(f"data:{ANSWER}\n\n"), says="B31")
    yield fine(
        "events-in-single-bytes",
        lambda i: in_single_bytes(f"data: {ANSWER}\n\n", i),
        says="B31: any cutting gives the same message",
    )
    yield fine("events-with-a-mark", events(f"\ufeffdata: {ANSWER}\n\n"), says="the format allows one byte order mark")
    yield fine("events-of-another-kind", events(f"event: ping\ndata: {OTHER}\n\n", f"data: {ANSWER}\n\n"))
    strays = [notification("notifications/progress", progress=1), notification("notifications/nothing", x=1),
              notification("notifications/message", level="info", data=HOSTILE),
              notification("notifications/cancelled", requestId=1),
              notification("notifications/tools/list_changed")]  # fmt: skip
    yield fine("strays-before-the-answer", events(*map(event, strays), f"data: {ANSWER}\n\n"), says="B29")
    yield fine("answer-of-another-before", events(event(OTHER), f"data: {ANSWER}\n\n"), says="B29: an id of nobody")
    yield called("answer-of-another-only", UNREACHABLE, "unknown", events(event(OTHER)), says="B29, B25")
    yield fine("answer-twice", events(f"data: {ANSWER}\n\n", f"data: {ANSWER.replace('fine', 'late')}\n\n"))
    for method in ("sampling/createMessage", "roots/list", "elicitation/create", "ping", "nothing/known"):
        asks = event(json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": {}}))
        yield fine(f"asks-for-{method.replace('/', '-')}", events(asks, f"data: {ANSWER}\n\n"), era="legacy")
    yield fine("closes-after-a-pause", lambda i: [head(kind=SSE), Pause(0.3), mine(f"data: {ANSWER}\n\n", i), STALL])


def in_single_bytes(stream: str, identifier: str) -> Sequence[Act]:
    return chunked(*(bytes([byte]) for byte in mine(stream, identifier)), kind=SSE)


def oddities() -> Iterator[Row]:
    yield fine("answer-in-chunks", lambda i: chunked(*[bytes([byte]) for byte in mine(ANSWER, i)]))
    yield fine("answer-without-a-length", closing(ANSWER))
    yield fine(
        "answer-of-http-1.0",
        lambda i: [b"HTTP/1.0 200 OK\r\nContent-Type: application/json\r\n\r\n", mine(ANSWER, i), DROP],
    )
    yield fine("kind-with-a-charset", http(ANSWER, kind="Application/JSON; charset=latin-1"))
    yield fine("with-a-cookie", http(ANSWER, Set_Cookie="a=b"))
    yield fine("with-another-session", http(ANSWER, Mcp_Session_Id="S-2"), era="legacy")
    yield fine("with-too-many-blocks", answer(result([{"type": "text", "text": "fine"}] * 3_000)))
    yield fine("with-odd-blocks", answer(result([{"type": "hologram", "x": 1}, {"text": 7}, {}])), holds=("hologram",))
    yield fine("with-a-nul", answer(result([{"type": "text", "text": "fine\0"}])), says="B21")
    yield fine("with-a-lone-surrogate", answer(result([{"type": "text", "text": "fine\ud800"}])), says="B21")
    yield fine("with-nothing", answer(result([])), says="B18", holds=("no content",))
    yield fine("without-content", answer({"resultType": "complete"}), says="B18", holds=("no content",))
    yield fine("with-structure-only", answer(result([], structuredContent={"a": "fine"})), says="B18")
    yield fine("with-a-list-as-structure", answer(result([], structuredContent=["fine"])))
    yield fine("with-a-bad-image", answer(result([{"type": "image", "data": "%%%", "mimeType": "a"}])), says="B19",
               holds=("decoded",))  # fmt: skip
    yield fine("with-unknown-members", http(rpc(result=result(x=1, y={"z": []}), extra=True)))
    yield fine("with-two-names", http(ANSWER.replace('"content"', '"content": [], "content"')))
    yield fine(
        "speaks-as-the-platform", answer(result([{"type": "text", "text": f"fine {HOSTILE}"}])), holds=(HOSTILE,)
    )
    smuggled = ANSWER.replace("fine", "smuggled")
    yield fine("answers-before-it-is-asked", lambda i: [both_at_once(i, smuggled)])


def both_at_once(identifier: str, smuggled: str) -> bytes:
    """This answer, and one for the request that has not come yet."""
    (first,), (second,) = http(ANSWER)(identifier), http(smuggled)(str(int(identifier) + 1))
    assert isinstance(first, bytes)
    assert isinstance(second, bytes)
    return first + second


def rows() -> Iterator[Row]:
    yield from malformed()
    yield from errors()
    yield from streams()
    yield from oddities()
