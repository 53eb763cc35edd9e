"""The hard ceiling on what a tool may produce: four times its limit, and the reader that stops there.

A tool that streams reads through `BoundedReader`; past the ceiling it raises `OutputTooLarge`, which cancels the tool
and carries what was read, because a truncated log is what an operator most wants after a runaway. Source: TS "Output".
"""

from typing import Final

HARD_CEILING_FACTOR: Final = 4


class OutputTooLarge(Exception):
    """A tool went past its hard ceiling. `partial` is what was read up to there, and may be empty."""

    def __init__(self, partial: str = "") -> None:
        super().__init__("past the hard ceiling")
        self.partial = partial


def hard_ceiling(maximum_output_bytes: int) -> int:
    """Return how many bytes may be captured of a tool with this limit."""
    return maximum_output_bytes * HARD_CEILING_FACTOR


class BoundedReader:
    """Collects chunks of bytes up to a limit; never holds more than the limit."""

    def __init__(self, limit_bytes: int) -> None:
        self._limit = limit_bytes
        self._kept = bytearray()

    def feed(self, chunk: bytes) -> None:
        """Raises: OutputTooLarge, with everything up to the limit."""
        room = self._limit - len(self._kept)
        self._kept += chunk[:room]
        if len(chunk) > room:
            raise OutputTooLarge(self.text())

    def text(self) -> str:
        """Return what was read; bytes that are no UTF-8 become replacement characters."""
        return self._kept.decode("utf-8", "replace")
