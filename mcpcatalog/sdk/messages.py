"""What a server wrote, looked at before the SDK reads it: can it be kept, and whose answer is it.

The SDK takes any response in a call's event stream for the call's answer, whatever its id says, resolves another call
with a body that names it, loses an answer to a lone surrogate and accepts NaN. Only `mcpcatalog.sdk` imports it.
"""

import json
from typing import Any, Final, NamedTuple

from pydantic_core import from_json

type Identifier = str | int

# What the SDK cannot read as a message: it fails the one request that waits for it.
_UNREADABLE: Final = [b"unreadable"]
_MARK: Final = b"\xef\xbb\xbf"


class Unreadable(ValueError):
    """The bytes are no JSON that can be kept, or an answer that was not asked for."""


class Message(NamedTuple):
    data: bytes
    is_answer: bool


def admitted(data: bytes, identifier: Identifier | None) -> Message | None:
    """Return a message for the SDK, and None for an answer to another request. Without an identifier all are admitted.

    Raises: Unreadable.
    """
    try:
        found = from_json(data, allow_inf_nan=False)
    except ValueError:
        found = _read_by_hand(data)
        data = json.dumps(found, ensure_ascii=False).encode("utf-8", "replace")
    is_answer = isinstance(found, dict) and "method" not in found
    if is_answer and "result" in found and "error" in found:
        raise Unreadable("a result and an error")
    if identifier is not None and is_answer and str(found.get("id")) != str(identifier):
        return None
    return Message(data, is_answer)


def _read_by_hand(data: bytes) -> Any:
    """Read what the faster reader refuses: a lone surrogate is no reason to lose an answer, all else is."""
    try:
        return json.loads(data, parse_constant=_refused)
    except (ValueError, RecursionError) as error:
        raise Unreadable(type(error).__name__) from None


def _refused(constant: str) -> Any:
    raise Unreadable(constant)


class EventFilter:
    """Reads an event stream in whatever pieces it comes and gives back whole events, plainly written.

    Answers to others, comments and other kinds of events are left out. `has_answer` says that ours was among them,
    `strays` counts those of others.
    """

    def __init__(self, identifier: Identifier | None, maximum_bytes: int) -> None:
        self._identifier = identifier
        self._maximum_bytes = maximum_bytes
        self._parts: list[bytes] = []
        self._size = 0
        self._fields: list[tuple[bytes, bytes]] = []
        self._is_first_line = True
        self._skips_line_feed = False
        self.has_answer = False
        self.strays = 0

    def feed(self, chunk: bytes) -> bytes:
        """Return the events that are now whole. Raises: Unreadable, for one that has no end."""
        if self._skips_line_feed and chunk.startswith(b"\n"):
            chunk = chunk[1:]
        if not chunk:
            return b""
        self._skips_line_feed = chunk.endswith(b"\r")
        self._size += len(chunk)
        if self._size > self._maximum_bytes:
            raise Unreadable("an event without end")
        if b"\n" not in chunk and b"\r" not in chunk:
            self._parts.append(chunk)
            return b""
        *lines, rest = b"".join([*self._parts, chunk, b"."]).splitlines()
        self._parts = [rest[:-1]] if len(rest) > 1 else []
        return b"".join(map(self._line, lines))

    def _line(self, line: bytes) -> bytes:
        if self._is_first_line:
            self._is_first_line, line = False, line.removeprefix(_MARK)
        if line:
            name, _, value = line.partition(b":")
            self._fields.append((name, value.removeprefix(b" ")))
            return b""
        fields, self._fields, self._size = self._fields, [], sum(map(len, self._parts))
        return self._event(fields)

    def _event(self, fields: list[tuple[bytes, bytes]]) -> bytes:
        kept = [(name, value) for name, value in fields if name in {b"id", b"retry"}]
        kinds = [value for name, value in fields if name == b"event"]
        data = [value for name, value in fields if name == b"data"]
        if data and (not kinds or kinds[-1] in {b"", b"message"}):
            kept += [(b"data", line) for line in self._data(b"\n".join(data))]
        return b"".join(b"%s: %s\n" % field for field in kept) + b"\n" if kept else b""

    def _data(self, data: bytes) -> list[bytes]:
        if not data:
            return [data]
        try:
            message = admitted(data, self._identifier)
        except Unreadable:
            return _UNREADABLE
        if message is None:
            self.strays += 1
            return []
        self.has_answer |= message.is_answer
        return message.data.split(b"\n")
