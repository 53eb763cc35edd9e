"""A webhook receiver as a customer writes one: it verifies with the public library and keeps what it got."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from standardwebhooks import Webhook, WebhookVerificationError


@dataclass
class Received:
    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def id(self) -> str:
        return self.headers["webhook-id"]

    def event(self, secret: str) -> dict[str, Any]:
        """Raises: WebhookVerificationError."""
        found: dict[str, Any] = Webhook(secret).verify(self.body, self.headers)
        return found

    def is_signed_with(self, secret: str) -> bool:
        try:
            self.event(secret)
        except WebhookVerificationError:
            return False
        return True


@dataclass
class Receiver:
    """`answers` are the statuses to come, the last one for good; `holds` lets answers wait until it is set."""

    port: int = 0
    answers: list[int] = field(default_factory=lambda: [204])
    fields: dict[str, str] = field(default_factory=dict)
    got: list[Received] = field(default_factory=list)
    arrived: threading.Event = field(default_factory=threading.Event)
    holds: threading.Event = field(default_factory=threading.Event)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/hook"

    def answer(self) -> int:
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]


@contextmanager
def receiving() -> Iterator[Receiver]:
    """Listen on a free port of this machine until the end."""
    found = Receiver()
    found.holds.set()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length", "0")))
            found.got.append(Received(self.path, {name.lower(): value for name, value in self.headers.items()}, body))
            found.arrived.set()
            found.holds.wait(30)
            self.send_response(found.answer())
            for name, value in found.fields.items():
                self.send_header(name, value)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            """Say nothing."""

        def handle(self) -> None:
            try:
                super().handle()
            except (BrokenPipeError, ConnectionResetError):
                return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    found.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield found
    finally:
        found.holds.set()
        server.shutdown()
        server.server_close()
        thread.join(10)


def plain(body: bytes) -> Any:
    return json.loads(body)
