"""What the proofs found: one sentence each, for the report. A fault stays here after it is mended."""

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

# `cell` is the command.
FOUND_BY_OTHERS: Final = (
    Finding(
        "model",
        "A tool whose pin has no effect, tightened before a call was proposed and loosened again before a worker took"
        " it, was sent without a watermark, and sent again after a crash: the fence asked the live classification"
        " alone. It now asks the stricter of the row's snapshot and the live one, as recovery does.",
    ),
    Finding(
        "races",
        "A claim, or a consumed approval, made a row as young as the database that had been restored: a worker that"
        " died before it had concluded left a write that the next one would send. A row keeps its database epoch.",
    ),
    Finding(
        "races",
        "Whoever had read its facts before the recovery fence was raised passed the watermark of a call that counts as"
        " sent. A raised database epoch now sends every claim back to step 6.",
    ),
    Finding(
        "soak",
        "After a restart of PostgreSQL each dead connection of a pool cost a request, and a write that had run could"
        " be tried to be recorded over dead ones until its lease was over. A pool now hands out none of them.",
    ),
)
