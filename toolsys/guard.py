"""Asks a child process what may take long to answer, and kills it when its time is up.

One child a process, started when first needed, one question at a time; it ends with its parent, whose pipe it reads.
What the child runs is its owner's business (`toolsys.validation`). Source: DESIGN §3 (time limits); reported fault B10.
"""

import atexit
import json
import os
import select
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any, Final

ANSWER_SECONDS: Final = 0.5
START_SECONDS: Final = 10.0
ROOT: Final = Path(__file__).resolve().parent.parent
TOO_LONG: Final = "it takes too long to check this"


class Unanswered(Exception):
    """No answer in time; `str()` says so in words that a caller may read."""


class Guard:
    """Safe under threads: whoever comes while a question is asked waits for it, no longer than an answer may take.

    `code` is what the child runs: it writes one line when it is ready, then one line of JSON for each line it reads.
    """

    def __init__(self, code: str, answer_seconds: float = ANSWER_SECONDS) -> None:
        self._code = code
        self._answer_seconds = answer_seconds
        self._lock = threading.Lock()
        self._child: subprocess.Popen[bytes] | None = None
        atexit.register(self.close)

    def ask(self, question: str) -> Any:
        """Return the child's answer to one line of JSON. Raises: Unanswered."""
        if not self._lock.acquire(timeout=self._answer_seconds):
            raise Unanswered(TOO_LONG)
        try:
            return self._asked(question.encode() + b"\n")
        except (OSError, ValueError):
            self._end()
            raise Unanswered(TOO_LONG) from None
        finally:
            self._lock.release()

    def close(self) -> None:
        with self._lock:
            self._end()

    def _asked(self, line: bytes) -> Any:
        child = self._child or self._start()
        deadline = time.monotonic() + self._answer_seconds
        assert child.stdin is not None
        child.stdin.write(line)  # it reads whenever it has nothing to answer
        return json.loads(_line(child, deadline))

    def _start(self) -> "subprocess.Popen[bytes]":
        """The child gets an environment made of nothing: it needs no secret."""
        child = self._child = subprocess.Popen(
            [sys.executable, "-c", self._code], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL, bufsize=0, start_new_session=True, cwd="/", env={"PYTHONPATH": str(ROOT)},
        )  # fmt: skip
        _line(child, time.monotonic() + START_SECONDS)
        return child

    def _end(self) -> None:
        child, self._child = self._child, None
        if child is None:
            return
        child.kill()
        child.wait()
        for pipe in (child.stdin, child.stdout):
            if pipe is not None:
                pipe.close()


def _line(child: "subprocess.Popen[bytes]", deadline: float) -> bytes:
    """Raises: OSError, with the deadline passed or the child gone."""
    assert child.stdout is not None
    descriptor, read = child.stdout.fileno(), b""
    while not read.endswith(b"\n"):
        left = deadline - time.monotonic()
        if left <= 0 or not select.select([descriptor], [], [], left)[0]:
            raise TimeoutError
        chunk = os.read(descriptor, 65_536)
        if not chunk:
            raise ConnectionError
        read += chunk
    return read
