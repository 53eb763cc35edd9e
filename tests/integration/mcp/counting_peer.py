"""An MCP server that remembers: each connection counts its own calls. `counting_peer.py stdio`, or `http PORT`.

Over stdio a process is a connection; over HTTP a session of the 2025-11-25 revision is. Standard library only.
"""

import json
import os
import sys
import uuid
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

COUNTS: Counter[str] = Counter()


def answer(connection: str, method: str, params: dict[str, Any]) -> dict[str, Any] | None:
    if method == "initialize":
        info = {"name": "counting", "version": "0"}
        return {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": info}
    if method == "tools/list":
        schema = {"type": "object", "properties": {"nonce": {"type": "string"}}}
        return {"tools": [{"name": "count", "inputSchema": schema}]}
    if method == "tools/call":
        COUNTS[connection] += 1
        return {"content": [], "structuredContent": {"count": COUNTS[connection], "pid": os.getpid()}}
    return None


def reply_to(connection: str, message: dict[str, Any]) -> bytes:
    result = answer(connection, message["method"], message.get("params") or {})
    body = {"result": result} if result is not None else {"error": {"code": -32601, "message": "no"}}
    return json.dumps({"jsonrpc": "2.0", "id": message["id"], **body}).encode()


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        message = json.loads(self.rfile.read(int(self.headers["content-length"])))
        connection = self.headers.get("mcp-session-id") or uuid.uuid4().hex
        if message["method"] == "server/discover":
            self._say(400, b"")
        elif "id" not in message:
            self._say(202, b"")
        else:
            self._say(200, reply_to(connection, message), connection)

    def do_GET(self) -> None:
        self._say(405, b"")

    def do_DELETE(self) -> None:
        self._say(200, b"")

    def _say(self, status: int, body: bytes, connection: str = "") -> None:
        self.send_response(status)
        if connection:
            self.send_header("mcp-session-id", connection)
            self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_arguments: Any) -> None:
        pass


def main() -> None:
    if sys.argv[1] == "http":
        ThreadingHTTPServer(("127.0.0.1", int(sys.argv[2])), Handler).serve_forever()
    for line in sys.stdin:
        message = json.loads(line)
        if "id" in message:
            print(reply_to("one", message).decode(), flush=True)


main()
