"""What one row of the requirement manifest is. Its chapters import this; everybody else imports `requirements`."""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Requirement:
    """`due` names the issue that owes the proof; empty means now."""

    id: str
    source: str
    sentence: str
    due: str = ""


LATER: Final = frozenset({"issue 3", "issue 4", "issue 5"})
