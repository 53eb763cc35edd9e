"""The console as it is served: granian on a free port over the test's own database, in a process of its own."""

import http.client
import signal
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.integration.processes import ROOT, child_process, eventually

HOST = "127.0.0.1"
PATIENCE_SECONDS = 180.0


@contextmanager
def serving(folder: Path) -> Iterator[str]:
    """Serve until the end; yield the address. The log is `folder/web.log`."""
    with socket.socket() as free:
        free.bind((HOST, 0))
        port = free.getsockname()[1]
    command = [
        sys.executable, "-m", "granian", "--interface", "wsgi", "--host", HOST, "--port", str(port), "--workers", "1",
        "--blocking-threads", "8", "--no-ws", "config.wsgi:application",
    ]  # fmt: skip
    log = folder / "web.log"
    with log.open("wb") as output:
        # Granian ends the child that serves when it is told to stop.
        process = child_process(command, death_signal=signal.SIGTERM, cwd=ROOT, stdout=output, stderr=output)
    try:
        eventually(lambda: process.poll() is not None or _answers(port), "the console answers", PATIENCE_SECONDS)
        assert process.poll() is None, log.read_text()
        yield f"http://{HOST}:{port}"
    finally:
        process.terminate()
        process.wait(PATIENCE_SECONDS)


def _answers(port: int) -> bool:
    connection = http.client.HTTPConnection(HOST, port, timeout=5)
    try:
        connection.request("GET", "/healthz")
        return connection.getresponse().status == http.HTTPStatus.OK
    except OSError:
        return False
    finally:
        connection.close()
