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
)
