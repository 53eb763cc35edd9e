"""Stands between the product and PostgreSQL, and cuts one connection between a COMMIT and its answer.

It reads the client's messages just well enough to know which statement a Bind belongs to: the product prepares its
statements, so their text goes over once. Armed with a name, it forwards the statement, waits until the server has
answered it (and so has committed), keeps the answer to itself, and closes the connection.
"""

import select
import socket
import struct
import threading
from contextlib import suppress
from pathlib import Path

SOCKET_NAME = ".s.PGSQL.5432"
READY_FOR_QUERY = b"Z\x00\x00\x00\x05"


class Relay:
    """Listens in `folder` under the name that libpq looks for; forwards to the same name in `servers`."""

    def __init__(self, folder: Path, servers: Path) -> None:
        self.folder = folder
        self._servers = servers
        self._marker = b""
        self._left = 0
        self.cuts = 0
        self._lock = threading.Lock()
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(folder / SOCKET_NAME))
        self._listener.listen(128)
        threading.Thread(target=self._accept, daemon=True).start()

    def arm(self, marker: str, times: int = 1) -> None:
        """Cut the next `times` connections that send a statement whose text holds `marker`."""
        with self._lock:
            self._marker, self._left, self.cuts = marker.encode(), times, 0

    def close(self) -> None:
        self._listener.close()
        (self.folder / SOCKET_NAME).unlink(missing_ok=True)

    def must_cut(self, statement: bytes) -> bool:
        with self._lock:
            if self._left and self._marker in statement:
                self._left -= 1
                return True
        return False

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        server = socket.socket(socket.AF_UNIX)
        with client, server, suppress(OSError):
            server.connect(str(self._servers / SOCKET_NAME))
            reader = Statements()
            while True:
                ready, _, _ = select.select([client, server], [], [])
                if server in ready:
                    data = server.recv(65_536)
                    if not data:
                        return
                    client.sendall(data)
                if client in ready:
                    data = client.recv(65_536)
                    if not data:
                        return
                    is_cut = any(self.must_cut(statement) for statement in reader.bound_in(data))
                    server.sendall(data)
                    if is_cut:
                        _await_answer(server)
                        with self._lock:
                            self.cuts += 1
                        return


def _await_answer(server: socket.socket) -> None:
    """Read until the server is ready again: what it was asked has been committed."""
    tail = b""
    while READY_FOR_QUERY not in tail:
        data = server.recv(65_536)
        if not data:
            return
        tail = tail[-8:] + data


class Statements:
    """Follows one connection's client messages; yields the text of each statement that is about to run."""

    def __init__(self) -> None:
        self._rest = b""
        self._known: dict[bytes, bytes] = {}
        self._is_started = False

    def bound_in(self, data: bytes) -> list[bytes]:
        self._rest += data
        found: list[bytes] = []
        while (message := self._next()) is not None:
            kind, body = message
            if kind == b"P":
                name, text, _ = body.split(b"\0", 2)
                self._known[name] = text
            elif kind == b"B":
                _, name, _ = body.split(b"\0", 2)
                found.append(self._known.get(name, b""))
            elif kind == b"Q":
                found.append(body)
        return found

    def _next(self) -> tuple[bytes, bytes] | None:
        """Return one whole message. The first ones of a connection carry no kind."""
        head = 1 if self._is_started else 0
        if len(self._rest) < head + 4:
            return None
        (size,) = struct.unpack("!i", self._rest[head : head + 4])
        if len(self._rest) < head + size:
            return None
        kind, body = self._rest[:head], self._rest[head + 4 : head + size]
        self._rest = self._rest[head + size :]
        if not self._is_started:
            # 3.0 and later begin a session; requests for encryption are asked and refused before.
            self._is_started = struct.unpack("!i", body[:4])[0] < 80_877_103
        return kind, body
