"""The breakers: one counter over a run's calls, keyed by name, arguments, outcome and reason.

Three identical denials fail the run, the fifth identical call without new evidence is not performed, the turn before
it is for answering only, and a call whose outcome is unknown is not proposed again. Derived from the run's rows.
Source: TS "The circuit breakers", ADR-21, DESIGN §5.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from toolsys.domain.states import OutcomeStatus

DENIALS_LIMIT: Final = 3
IDENTICAL_LIMIT: Final = 5
# Restarts by new evidence in one run; the statement of step 13 counts them (sql/30_commits.sql).
RESTARTS_LIMIT: Final = 32

REPEATED_DENIAL: Final = "tool.policy_denied"
LOOP: Final = "tool.loop_detected"
REPEATED_UNCERTAIN: Final = "tool.repeat_uncertain"


@dataclass(frozen=True, slots=True)
class Alarm:
    """A row of the run that a breaker looks at: denied, uncertain, or one call short of a loop.

    `identical_count` counts calls with its name and arguments up to it, since the last new evidence.
    """

    tool_name: str
    arguments_hash: str
    outcome_status: OutcomeStatus | None
    reason_code: str | None
    identical_count: int
    step_number: int

    def is_of(self, tool_name: str, arguments_hash: str) -> bool:
        return (self.tool_name, self.arguments_hash) == (tool_name, arguments_hash)


def stopped_by(alarms: Iterable[Alarm], tool_name: str, arguments_hash: str, previous_step: int | None) -> str | None:
    """Return the reason why a new call may not go on, or None. `alarms` is newest first.

    `previous_step` is the run's step before the one that the call belongs to.
    """
    known = list(alarms)
    own = [alarm for alarm in known if alarm.is_of(tool_name, arguments_hash)]
    if any(alarm.outcome_status is OutcomeStatus.UNCERTAIN for alarm in own):
        return REPEATED_UNCERTAIN
    if own and own[0].identical_count >= IDENTICAL_LIMIT - 1:
        return LOOP
    if any(is_last_before_loop(alarm.identical_count) and alarm.step_number == previous_step for alarm in known):
        return LOOP
    return None


def is_last_before_loop(identical_count: int) -> bool:
    """The next turn is for answering: one more identical call would be a loop."""
    return identical_count == IDENTICAL_LIMIT - 1


def is_repeated_denial(alarms: Iterable[Alarm], tool_name: str, arguments_hash: str, reason_code: str) -> bool:
    """Say whether this denial is the third of its kind in the run."""
    earlier = sum(
        alarm.is_of(tool_name, arguments_hash)
        and alarm.outcome_status is OutcomeStatus.DENIED
        and alarm.reason_code == reason_code
        for alarm in alarms
    )
    return earlier >= DENIALS_LIMIT - 1
