"""The world of the crash matrix, a process of its own: it acts once for each whole line that it receives.

Each act is one line, synced to the disk before it is answered: who called, under which key, when, and whether the world
acted or knew the key already. Modes: `answer`; `hang_once` and `reset_once` act, then keep the first caller of a key
waiting or reset its connection; `refuse_once` refuses the first one's login and does nothing. It knows no toolsys.
"""

import json
import os
import socket
import socketserver
import struct
import sys
import threading
import time
from pathlib import Path
from typing import Any, cast

from tests.crash.gates import OneShotProbe

HANG_SECONDS = 90.0
RESET = struct.pack("ii", 1, 0)


class World(socketserver.ThreadingTCPServer):
    """Listens on a free loopback port."""

    daemon_threads = True
    allow_reuse_address = True
    request_queue_size = 64

    def __init__(self, log: Path) -> None:
        super().__init__(("127.0.0.1", 0), Caller)
        self._log = log.open("a", encoding="utf-8")
        self._lock = threading.Lock()
        self._known: set[str] = set()
        self._refused: set[str] = set()

    def act(self, request: dict[str, Any]) -> bool:
        """Append and sync one line; return whether this key was never seen before."""
        with self._lock:
            is_first = request["key"] not in self._known
            self._known.add(request["key"])
            self._note(request, acted=is_first or not request["deduplicates"])
        return is_first

    def refuses(self, request: dict[str, Any]) -> bool:
        """Say whether the login is not accepted this time; then the line says that nothing was done."""
        with self._lock:
            if request["mode"] != "refuse_once" or request["key"] in self._refused:
                return False
            self._refused.add(request["key"])
            self._note(request, acted=False)
        return True

    def _note(self, request: dict[str, Any], *, acted: bool) -> None:
        line = {"call": request["call"], "key": request["key"], "at": time.time(), "acted": acted}
        self._log.write(json.dumps(line) + "\n")
        self._log.flush()
        os.fsync(self._log.fileno())


class Caller(socketserver.StreamRequestHandler):
    def handle(self) -> None:
        line = self.rfile.readline(65_536)
        if not line.endswith(b"\n"):
            return  # half a request is none
        request = json.loads(line)
        probe = OneShotProbe(Path(request["gates"]))
        probe.reached("before_effect", request["tenant"])
        world = cast(World, self.server)
        if world.refuses(request):
            self.wfile.write(b'{"refused": true}\n')
            return
        is_first = world.act(request)
        probe.reached("after_effect", request["tenant"])
        if is_first and request["mode"] == "hang_once":
            time.sleep(HANG_SECONDS)
        if is_first and request["mode"] == "reset_once":
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
            return
        try:
            self.wfile.write(b'{"done": true}\n')
        except OSError:
            return  # whoever asked is gone


def main(log: str) -> None:
    """Serve until the standard input is closed, so that the world ends with the matrix."""
    with World(Path(log)) as world:
        threading.Thread(target=world.serve_forever, args=(0.05,), daemon=True).start()
        print(world.server_address[1], flush=True)
        sys.stdin.read()
        world.shutdown()


if __name__ == "__main__":
    main(sys.argv[1])
