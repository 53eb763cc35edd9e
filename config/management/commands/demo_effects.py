"""`manage.py demo_effects`: the world outside, for demonstrations: an effect log kept by a process of its own.

`POST /` appends one line and syncs it before it answers; with `hold` it appends first and keeps the request open until
`POST /release`. `GET /` returns the lines. It knows nothing of toolsys and deduplicates nothing.
"""

import json
import os
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings
from django.core.management.base import BaseCommand

MAXIMUM_BODY = 65_536
HOLD_SECONDS = 60.0


class EffectLog:
    """An append-only file, one JSON line an effect."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self.released = threading.Event()

    def append(self, effect: dict[str, Any]) -> int:
        with self._lock, self._path.open("a", encoding="utf-8") as log:
            log.write(json.dumps(effect, ensure_ascii=False) + "\n")
            log.flush()
            os.fsync(log.fileno())
        return len(self.lines())

    def lines(self) -> list[Any]:
        if not self._path.exists():
            return []
        return [json.loads(line) for line in self._path.read_text(encoding="utf-8").splitlines()]


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    log: EffectLog

    def do_GET(self) -> None:
        self._answer(200, {"lines": self.log.lines()})

    def do_POST(self) -> None:
        size = int(self.headers.get("Content-Length") or 0)
        if size > MAXIMUM_BODY:
            self._answer(413, {"error": "too large"})
            return
        body = json.loads(self.rfile.read(size) or b"{}")
        if self.path == "/release":
            self.log.released.set()
            self._answer(200, {"released": True})
            return
        count = self.log.append({"line": body["line"], "key": body.get("key", "")})
        if body.get("hold"):
            self.log.released.clear()
            self.log.released.wait(HOLD_SECONDS)
        self._answer(200, {"appended": body["line"], "count": count})

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name is the base class's
        """Stay quiet: the effect log is the log."""

    def _answer(self, status: int, document: Any) -> None:
        data = json.dumps(document, ensure_ascii=False).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


class Command(BaseCommand):
    help = "Serve the demonstration's effect log on the port of TOOLSYS_DEMO_EFFECTS_URL."

    def handle(self, *args: Any, **options: Any) -> None:
        address = urlsplit(settings.TOOLSYS.demo_effects_url)
        Handler.log = EffectLog(Path(settings.TOOLSYS.data_dir) / "effects.jsonl")
        server = ThreadingHTTPServer((address.hostname or "127.0.0.1", address.port or 0), Handler)
        server.daemon_threads = True
        server.serve_forever()
