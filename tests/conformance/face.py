"""The MCP face as the suite's server: a web process and a worker on servers of their own, behind a door with the key.

The suite sends no key; the door adds it, and the principal, to whatever comes, and changes nothing else.
"""

import http.client
import importlib
import os
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Final

HOST: Final = "127.0.0.1"
SECONDS: Final = 60.0
# The door's own address is what the suite dials; the face sees a request to itself.
_HOPS: Final = frozenset({"connection", "transfer-encoding", "content-length", "authorization"})


class Door(BaseHTTPRequestHandler):
    """Passes requests on, with the key."""

    protocol_version = "HTTP/1.1"
    behind = ("", 0)
    key = ""

    def _pass(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length") or 0))
        headers = {name: value for name, value in self.headers.items() if name.lower() not in _HOPS}
        headers |= {"Authorization": f"Bearer {self.key}", "Toolsys-Principal": "user-1"}
        connection = http.client.HTTPConnection(*self.behind, timeout=SECONDS)
        try:
            connection.request(self.command, self.path, body or None, headers)
            answer = connection.getresponse()
            data = answer.read()
        finally:
            connection.close()
        self.send_response(answer.status)
        for name, value in answer.getheaders():
            if name.lower() not in _HOPS:
                self.send_header(name, value)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def __getattr__(self, name: str) -> Callable[[], None]:
        """Whatever the method is, it is for who stands behind."""
        if name.startswith("do_"):
            return self._pass
        raise AttributeError(name)

    def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002
        """The suite says what failed."""


@contextmanager
def served() -> Iterator[str]:
    """Serve the face to who has no key; yield its address. Starts PostgreSQL and Valkey of its own."""
    importlib.import_module("tests.servers")  # starts them
    import django

    django.setup()
    from tests.e2e.server import serving
    from tests.factories import make_tenancy
    from tests.workers import process
    from toolsys import provisioning

    tenancy = make_tenancy("conformance")
    key = provisioning.create_api_key(tenancy.id, "suite", ["demo.write"])[1]
    with tempfile.TemporaryDirectory() as folder, process("worker", **os.environ), serving(Path(folder)) as address:
        host, _, port = address.removeprefix("http://").partition(":")
        handler = type("KeyedDoor", (Door,), {"behind": (host, int(port)), "key": key})
        door = ThreadingHTTPServer((HOST, 0), handler)
        door.daemon_threads = True
        threading.Thread(target=door.serve_forever, args=(0.05,), daemon=True).start()
        try:
            yield f"http://{HOST}:{door.server_port}/mcp"
        finally:
            door.shutdown()
            door.server_close()
