"""The table over a pipe: the twin's behaviours and what must become of them."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from mcpcatalog.remote import Effect, ServerConfig, StdioCommand, Transport
from tests.hostile.row import BRIEF, DONE, PROTOCOL, TIMEOUT, TOO_LARGE, UNREACHABLE, UPSTREAM, Row

SCRIPT: Final = str(Path(__file__).with_name("stdio_server.py"))
# What the twin does where it is well; the name of a row is its argument.
ENDINGS: Final[dict[tuple[str, Effect], str]] = {
    (UNREACHABLE, "unknown"): "exits crashes exits-in-a-line closes-its-output leaves-a-child",
    (TIMEOUT, "unknown"): "stalls stalls-in-a-line another-id no-id",
    (TOO_LARGE, "unknown"): "writes-without-end writes-lines-without-end huge-line",
    (UPSTREAM, "unknown"): "error says-timeout says-closed",
    (UPSTREAM, "not_applied"): "no-method",
    (PROTOCOL, "unknown"): "floods floods-with-requests",
    (DONE, "applied"): "is-well another-first answers-twice noise not-utf8 deep-line carriage-return lone-surrogate "
    "strays asks talks-on-standard-error ignores-every-end",
}  # fmt: skip
BEFORE: Final = "dies-at-once never-reads never-shakes-hands dies-listing"


def rows() -> Iterator[Row]:
    for (reason, effect), names in ENDINGS.items():
        for name in names.split():
            seconds = BRIEF if reason == TIMEOUT else 30.0
            yield Row(name, reason, effect, era="legacy", seconds=seconds, holds=("fine",) if reason == DONE else ())
    for name in BEFORE.split():
        yield Row(name, UNREACHABLE, "not_applied", era="legacy", sent=0)
    # A line that is no message cannot be told from noise, so the call's own time ends it.
    for name in ("result-is-text", "nan"):
        yield Row(name, TIMEOUT, "unknown", era="legacy", seconds=BRIEF)


def config_of(row: Row) -> ServerConfig:
    command = StdioCommand((sys.executable, SCRIPT, row.name))
    return ServerConfig(
        "acme", "hostile", Transport.STDIO, row.name, command=command, negotiated_revision="2025-11-25"
    )  # fmt: skip


ROWS: Final[tuple[Row, ...]] = tuple(rows())
