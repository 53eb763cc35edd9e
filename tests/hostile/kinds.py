"""Which rows are of which kind, so that none of the kinds that issue 4 asks for can get lost from the table.

A kind is a set of parts of names. A row may be of several kinds and need not be of any.
"""

from collections.abc import Iterable
from typing import Final

from tests.hostile.row import Row

STATUSES: Final = (401, 403, 404, 429, 500, 502, 503, 504)
BODIES: Final = ("", "-with-text", "-with-html", "-with-rpc", "-with-broken-json")
STAGES: Final = ("handshake", "list", "status")

# By kind: how many there must be at least, and what is in their names.
KINDS: Final[dict[str, tuple[int, tuple[str, ...]]]] = {
    "stalls": (35, ("stalls", "never", "mute", "accepts-nobody", "drips", "dripping")),
    "drops": (35, ("drops", "dropped", "resets", "reset", "hangs-up", "exits", "crashes", "dies")),
    "wrong ids": (10, ("another", "of-nobody", "for-nobody", "of-a-truth", "no-id", "somebodys", "before-it-is-asked")),
    "oversize JSON": (5, ("is-huge", "too-much-declared", "too-much-endless", "in-chunks", "huge-line")),
    "oversize SSE": (3, ("in-one-event", "in-many-events", "endless-event")),
    "compression bombs": (5, ("bomb", "compressed")),
    "redirects": (15, ("redirect",)),
    "cursor loops": (4, ("circle", "never-ends", "empty-cursor", "huge-in-sum")),
    "duplicate names": (1, ("twice",)),
    "bad schemas": (7, ("bad-",)),
    "malformed": (25, ("malformed", "kind-", "is-no-", "is-not-utf8", "is-nested")),
    "hostile texts": (5, ("speaks-as-the-platform", "-with-text", "-with-proof-in-text")),
    "floods": (7, ("flood",)),
    "retry: 0": (2, ("retry-0", "resume-for-ever")),
}  # fmt: skip


def of_kind(rows: Iterable[Row], kind: str) -> list[Row]:
    return [row for row in rows if any(part in row.name for part in KINDS[kind][1])]


def missing(rows: Iterable[Row]) -> list[str]:
    """Say what the table has too little of."""
    given = list(rows)
    names = {row.name for row in given}
    few = [kind for kind, (least, _) in KINDS.items() if len(of_kind(given, kind)) < least]
    grid = [f"{stage}-{status}{body}" for stage in STAGES for status in STATUSES for body in BODIES]
    return [*few, *(name for name in grid if name not in names)]


def told(rows: Iterable[Row]) -> str:
    given = list(rows)
    return ", ".join(f"{len(of_kind(given, kind))} {kind}" for kind in KINDS)
