"""What the crash matrix found: one sentence each, for the report. A fault stays here after it is mended."""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Finding:
    """`cell` is the cell that showed it, and that fails again where the fault comes back."""

    cell: str
    sentence: str


FOUND: Final = (
    Finding(
        "read_only/stopped_after_effect:process",
        "A read whose run was cancelled while it was in flight ended uncertain: the refusal came before step 1, without"
        " a tool, and was judged by the strictest class. The row's tool is now resolved first.",
    ),
    Finding(
        "idempotent/before_expiry:process",
        "The sweeper's back-off grew with the age of the row. A call that people had taken an hour to decide, whose"
        " worker then died, was looked at again after a minute; an expired hold outlived its expiry by as much. It now"
        " grows with the time that the row has been due.",
    ),
    Finding(
        "idempotent/cancel_committed:process",
        "A run was cancelled while a call of it waited for a person, and the ring was lost with the web process: no"
        " sweep named the call, which stayed open until the approval's expiry. Cancelled rows are now named.",
    ),
)
