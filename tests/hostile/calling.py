"""The table of the call itself: it was sent, so that only an answer that proves it says that nothing was applied."""

import json
from collections.abc import Iterator
from typing import Final

from mcpcatalog.remote import Effect
from tests.hostile.row import (
    BRIEF,
    DONE,
    EGRESS,
    LIMITED,
    PERMISSION,
    PROTOCOL,
    TIMEOUT,
    TOO_LARGE,
    UNAUTHORIZED,
    UNREACHABLE,
    UPSTREAM,
    Row,
    called,
    hanging,
)
from tests.hostile.scripts import (
    DROP,
    MEGABYTE,
    RESET,
    SSE,
    STALL,
    TOO_MUCH,
    Act,
    Forever,
    Stage,
    acts,
    chunked,
    error,
    event,
    events,
    head,
    http,
    notification,
    packed,
    redirect,
    refusals,
    result,
    rpc,
)

ANSWER: Final = rpc(result=result())
# What a status says of a call, whatever stands in the body: a refusal is one only where the protocol calls it so.
REFUSED: Final[dict[str, tuple[str, Effect]]] = {
    "401 Unauthorized": (UNAUTHORIZED, "not_applied"), "403 Forbidden": (PERMISSION, "not_applied"),
    "404 Not Found": (UPSTREAM, "not_applied"), "429 Slow": (LIMITED, "not_applied"),
    **dict.fromkeys(("500 Oops", "502 Bad Gateway", "503 Busy", "504 Gateway Timeout"), (UNREACHABLE, "unknown")),
}  # fmt: skip


def stalls() -> Iterator[Row]:
    stream = head(kind=SSE)
    scripts: dict[str, list[Act]] = {
        "before-the-answer": [STALL], "in-the-status-line": [b"HTTP/1.1 ", STALL],
        "in-the-head": [b"HTTP/1.1 200 OK\r\nContent-", STALL], "after-the-head": [head(Content_Length="99"), STALL],
        "in-the-body": [head(Content_Length="99") + b'{"jsonrpc"', STALL],
        "in-a-chunk": [head(Transfer_Encoding="chunked") + b"64\r\n{", STALL],
        "before-the-first-event": [stream, STALL], "in-an-event": [stream + b'data: {"jsonrpc"', STALL],
        "between-events": [stream + event(notification("notifications/odd", data="x")).encode(), STALL],
        "with-comments": [stream, Forever(b": still here\n\n", 0.05)],
        "with-progress": [stream, Forever(event(notification("notifications/progress", progress=1)).encode(), 0.05)],
        "dripping": [head(Content_Length="1000000"), Forever(b" ", 0.02)],
        "dripping-the-head": [b"HTTP/1.1 200 OK\r\nA: ", Forever(b"b", 0.05)],
        "in-tiny-chunks": [head(Transfer_Encoding="chunked"), Forever(b"1\r\nx\r\n" * 999)],
        "after-100": [b"HTTP/1.1 100 Continue\r\n\r\n", STALL],
    }  # fmt: skip
    for name, given in scripts.items():
        yield hanging(f"stalls-{name}", acts(*given))
    yield hanging("stalls-in-the-old-era", acts(STALL), era="legacy")
    ends: dict[str, Act] = {"is-never-taken": STALL, "is-dropped": DROP, "is-reset": RESET}
    for name, then in ends.items():
        scripts_of = {Stage.CALL: acts(STALL), Stage.CANCELLED: acts(then)}
        yield Row(f"cancelling-{name}", TIMEOUT, "unknown", scripts_of, "legacy", seconds=BRIEF,
                  says="the SDK's courtesy message must hold nobody up")  # fmt: skip


def asides() -> Iterator[Row]:
    """What happens beside the call in the old era: the standing stream, and what we say to a server that asks."""
    stream = head(kind=SSE)
    for name, script in {
        "stalls": acts(STALL), "stalls-in-its-head": acts(b"HTTP/1.1 200 OK\r\n", STALL), "is-dropped": acts(DROP),
        "is-reset": acts(RESET), "is-cut": acts(stream + b"data: {", DROP), "fails-500": http("", "500 Oops", None),
        "is-unauthorized": http("", "401 Unauthorized", None), "is-no-stream": http("<p>", kind="text/html"),
        "is-redirected": redirect("307 Temporary", "http://169.254.169.254/"), "is-compressed": packed("gzip"),
        "is-one-endless-event": acts(stream + b"data: ", Forever(MEGABYTE, 0.05)),
        "brings-somebodys-answer": events(event(ANSWER.replace("fine", "stray").replace('"@id@"', "1"))),
    }.items():  # fmt: skip
        yield Row(f"stream-{name}", DONE, "applied", {Stage.STREAM: script}, "legacy", holds=("fine",))
    asks = event(json.dumps({"jsonrpc": "2.0", "id": 1, "method": "sampling/createMessage", "params": {}}))
    for name, then in {
        "is-never-taken": acts(STALL),
        "is-dropped": acts(DROP),
        "fails": http("", "500 Oops", None),
    }.items():
        answered = {Stage.CALL: events(asks, f"data: {ANSWER}\n\n"), Stage.ANSWER: then}
        yield Row(f"refusing-{name}", DONE, "applied", answered, "legacy", holds=("fine",))


def drops() -> Iterator[Row]:
    scripts: dict[str, list[Act]] = {
        "before-the-answer": [DROP], "in-the-status-line": [b"HTTP/1.1 ", DROP],
        "in-the-head": [b"HTTP/1.1 200 OK\r\nContent-", DROP], "after-the-head": [head(Content_Length="99"), DROP],
        "in-the-body": [head(Content_Length="99") + b'{"jsonrpc"', DROP],
        "in-a-chunk": [head(Transfer_Encoding="chunked") + b"64\r\n{", DROP],
        "before-the-last-chunk": [*chunked(b'{"jsonrpc"', end=b""), DROP],
        "in-a-bad-chunk": [head(Transfer_Encoding="chunked") + b"zz\r\n{}\r\n", DROP],
        "before-the-first-event": [head(kind=SSE), DROP], "in-an-event": [head(kind=SSE) + b'data: {"json', DROP],
        "after-a-comment": [head(kind=SSE) + b": hello\n\n", DROP],
        "with-a-reset": [RESET], "with-a-reset-in-the-body": [head(Content_Length="99") + b"{", RESET],
        "with-garbage": [b"\x00\x01\x02\x03" * 9, DROP], "switching": [head("101 Switching", None, Upgrade="x"), DROP],
        "with-status-099": [head("099 Odd"), DROP], "after-many-100": [b"HTTP/1.1 100 Continue\r\n\r\n" * 999, DROP],
    }  # fmt: skip
    for name, given in scripts.items():
        yield called(f"drops-{name}", UNREACHABLE, "unknown", acts(*given), says="B25, B33")
    resumable = events(event("", id="1", retry="0"))
    resuming = {Stage.CALL: resumable, Stage.RESUME: events(event("", id="2", retry="0"))}
    yield Row("drops-and-lets-resume-for-ever", UNREACHABLE, "unknown", resuming, "legacy", says="python-sdk #3257")
    yield Row(
        "retry-0-on-the-standing-stream", DONE, "applied", {Stage.STREAM: events("retry: 0\ndata:\n\n")}, "legacy"
    )


def sizes() -> Iterator[Row]:
    stream, big = head(kind=SSE), rpc(result=result([{"type": "text", "text": "x" * TOO_MUCH}]))
    for name, script in {
        "declared": http(big), "declared-and-not-sent": acts(head(Content_Length="999999999"), STALL),
        "endless": acts(head(Connection="close"), Forever(MEGABYTE)), "in-chunks": acts(*chunked(*[MEGABYTE] * 4)),
        "in-one-event": acts(stream + b"data: ", Forever(MEGABYTE)),
        "in-many-events": acts(stream, Forever(b": comment\n\n" * 9_999)),
        "in-the-head": acts(b"HTTP/1.1 200 OK\r\nA: ", Forever(MEGABYTE)),
        "in-many-fields": acts(b"HTTP/1.1 200 OK\r\n" + b"A: b\r\n" * 900 + b"\r\n", STALL),
    }.items():  # fmt: skip
        yield called(f"too-much-{name}", TOO_LARGE, "unknown", script)
    for encoding in ("gzip", "deflate"):
        yield called(f"bomb-{encoding}", EGRESS, "unknown", packed(encoding))
    yield called("bomb-br", EGRESS, "unknown", http("x", Content_Encoding="br"))
    progress = event(notification("notifications/progress", progressToken=1, progress=1))
    flood = [
        progress,
        event(notification("notifications/tools/list_changed")),
        event(notification("notifications/odd")),
    ]
    for number, name in enumerate(("progress", "changes", "unknown")):
        yield called(f"floods-with-{name}", PROTOCOL, "unknown", events(flood[number] * 3_000, f"data: {ANSWER}\n\n"),
                     says="B29: more than 1,000 stray messages in one call end it")  # fmt: skip
    asks = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "sampling/createMessage", "params": {}})
    yield called("floods-with-requests", PROTOCOL, "unknown", events(event(asks) * 3_000, then=STALL), era="legacy")


def statuses() -> Iterator[Row]:
    for status, (reason, effect) in REFUSED.items():
        for body, script in refusals(status).items():
            yield called(f"status-{status[:3]}{body}", reason, effect, script, says="B23 of 404")
    yield called("status-404-of-a-method", UPSTREAM, "not_applied", error(-32601, "no", "404 Not Found"), says="B23")
    yield called("status-404-of-a-session", UNREACHABLE, "not_applied", http("", "404 Not Found", None), era="legacy",
                 says="B23: resent by recovery, by class, over a new session")  # fmt: skip
    for status in ("400 Bad Request", "405 No", "406 No", "413 No", "415 No", "418 Teapot", "451 No"):
        yield called(f"status-{status[:3]}", UPSTREAM, "unknown", http("", status, None))
    yield called("status-400-rpc", UPSTREAM, "not_applied", error(-32602, "no such item", "400 Bad Request"))
    waits = {"7": 7.0, "": None, "soon": None, "-5": None, "9" * 30: 86_400.0, "1e9": None, "7.5": None,
             "Thu, 01 Jan 1970 00:00:00 GMT": 0.0, "x" * 9_000: None, "٣": None}  # fmt: skip
    for number, (field, wait) in enumerate(waits.items()):
        given = {"Retry_After": field.encode().decode("latin-1")}
        yield called(
            f"status-429-{number}", LIMITED, "not_applied", http("", "429 Slow", None, **given), retry_after=wait
        )
    waiting = http("", "503 Busy", None, Retry_After="7")
    yield called(
        "status-503-and-a-wait", UNREACHABLE, "unknown", waiting, retry_after=7.0, says="DESIGN §4: both honour it"
    )
    for status in ("301 Moved", "302 Found", "303 See Other", "307 Temporary", "308 Permanent"):
        yield called(f"redirected-{status[:3]}", EGRESS, "unknown", redirect(status, "http://169.254.169.254/"))
    yield called("redirected-same-origin", EGRESS, "unknown", redirect("307 Temporary", "/modern/ok"))


def rows() -> Iterator[Row]:
    yield from stalls()
    yield from asides()
    yield from drops()
    yield from sizes()
    yield from statuses()
