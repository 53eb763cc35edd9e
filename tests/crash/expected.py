"""What must be true after a crash, written by hand from DESIGN §4 and TS "The effect watermark".

Nothing here asks the code under test: no import of toolsys. `PHASES` says what the killed attempt left in the world and
in its row, `TABLE` what the next worker must make of it for each class, `expected_after` counts over several crashes.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class Class(StrEnum):
    """The four idempotency classes; the conditional one is passed its key, and the world de-duplicates by it."""

    READ = "read_only"
    IDEMPOTENT = "idempotent"
    CONDITIONAL = "conditionally_idempotent"
    ONCE = "non_idempotent"


class Kill(StrEnum):
    """SIGKILL to the process alone, whose children live on, or to its whole group."""

    PROCESS = "process"
    GROUP = "group"


class Phase(StrEnum):
    """How far an attempt came before it was killed."""

    UNSENT = "unsent"  # no watermark: nothing has left, and the row says so
    MARKED = "marked"  # watermark, and nothing leaves any more
    FELT = "felt"  # watermark, and the world acted or still will, once
    RETRIED = "retried"  # felt, the answer was lost, and where the class permits it a second attempt was felt too
    UNAUTHORIZED = "unauthorized"  # the world took the request, refused its login, and did nothing
    RECORDED = "recorded"  # the outcome is stored
    REFUSED = "refused"  # the call never gets as far: arguments
    REJECTED = "rejected"  # nor this one: a person said no
    EXPIRED = "expired"  # nor this one: nobody decided in time
    STOPPED = "stopped"  # the world acted once, and then the run ended: cancelled, or failed for want of a record
    CANCELLED = "cancelled"  # nor this one: its run was cancelled before anything was sent
    ABSENT = "absent"  # nor this one: nobody to connect to


@dataclass(frozen=True, slots=True)
class Outcome:
    """`sends`: requests that the world received whole; `effects`: how often it acted."""

    status: str
    reason: str
    sends: int
    effects: int


_U, _M, _F, _R = Phase.UNSENT, Phase.MARKED, Phase.FELT, Phase.RECORDED
# With the process alone killed, its relay lives on and sends what it was handed: FELT. With the group, nothing leaves.
_HANDED_OVER: Final = {Kill.PROCESS: _F, Kill.GROUP: _M}


def _same(phase: Phase) -> dict[Kill, Phase]:
    return dict.fromkeys(Kill, phase)


PHASES: Final = {
    "before_intent": _same(_U),
    "after_intent": _same(_U),
    "after_ring": _same(_U),
    "between_calls": _same(_U),
    "between_group_calls": _same(_U),
    "cancel_uncommitted": _same(Phase.CANCELLED),
    "cancel_rung": _same(Phase.CANCELLED),
    "cancel_committed": _same(Phase.CANCELLED),
    "before_hold": _same(_U),
    "after_hold": _same(_U),
    "before_grant_use": _same(_U),
    "after_grant_use": _same(_U),
    "before_refusal": _same(Phase.REFUSED),
    "after_refusal": _same(Phase.REFUSED),
    "vote_uncommitted": _same(_U),
    "vote_committed": _same(_U),
    "decision_uncommitted": _same(_U),
    "decision_committed": _same(_U),
    "decision_rung": _same(_U),
    "before_job": _same(_U),
    "before_approved_intent": _same(_U),
    "after_approved_intent": _same(_U),
    "before_next_intent": _same(_U),
    "after_next_intent": _same(_U),
    "before_claim": _same(_U),
    "after_claim": _same(_U),
    "before_prepare": _same(_U),
    "after_prepare": _same(_U),
    "before_watermark": _same(_U),
    "before_group_claim": _same(_U),
    "after_group_claim": _same(_U),
    "at_drain": _same(_U),
    "before_drain_release": _same(_U),
    "after_drain_release": _same(_U),
    "drain_unrung": _same(_U),
    "drain_rung": _same(_U),
    "after_watermark": _same(_M),
    "before_connect": _HANDED_OVER,
    "after_connect": _HANDED_OVER,
    "after_first_byte": _HANDED_OVER,
    "after_last_byte": _same(_F),
    "before_effect": _same(_F),
    "after_effect": _same(_F),
    "late_connect": _HANDED_OVER,
    "late_effect": _same(_F),
    "before_renew": _same(_F),
    "after_renew": _same(_F),
    "after_answer": _same(_F),
    "before_artifact_blob": _same(_F),
    "after_artifact_blob": _same(_F),
    "after_artifact_row": _same(_F),
    "before_result": _same(_F),
    "before_reset_result": _same(Phase.RETRIED),
    "before_group_result": _same(_F),
    "before_login_release": _same(Phase.UNAUTHORIZED),
    "after_login_release": _same(Phase.UNAUTHORIZED),
    "login_unrung": _same(Phase.UNAUTHORIZED),
    "after_group_result": _same(_R),
    "after_result": _same(_R),
    "before_wake": _same(_R),
    "after_wake": _same(_R),
    "after_job": _same(_R),
    "before_settlement": _same(Phase.REJECTED),
    "after_settlement": _same(Phase.REJECTED),
    "before_expiry": _same(Phase.EXPIRED),
    "after_expiry": _same(Phase.EXPIRED),
    "stopped_after_effect": _same(Phase.STOPPED),
    "before_retry": _same(_U),
    "after_retry": _same(_U),
    "before_unrecorded": _same(_F),
    "after_unrecorded": _same(Phase.STOPPED),
    "before_release": _same(_U),
    "after_release": _same(_U),
    "before_cancelled_result": _same(Phase.CANCELLED),
    "before_absent_result": _same(Phase.ABSENT),
    "before_orphan_rows": _same(_R),
    "after_orphan_rows": _same(_R),
    "before_blob_delete": _same(_R),
    "after_blob_delete": _same(_R),
    "before_sweep": _same(_U),
    "during_sweep": _same(_U),
    "after_sweep": _same(_U),
}

MAXIMUM_CLAIMS: Final = 5
# Unsent, and yet a claim has been used up.
CLAIMED: Final = frozenset({"after_claim", "before_prepare", "after_prepare", "before_watermark"})

_DONE, _UNKNOWN = ("succeeded", "tool.succeeded"), ("uncertain", "tool.outcome_unknown")
TABLE: Final = {
    # Nothing was sent: every class is executed again, and so once.
    (_U, Class.READ): Outcome(*_DONE, 1, 1),
    (_U, Class.IDEMPOTENT): Outcome(*_DONE, 1, 1),
    (_U, Class.CONDITIONAL): Outcome(*_DONE, 1, 1),
    (_U, Class.ONCE): Outcome(*_DONE, 1, 1),
    # It may have been sent: a non-idempotent call is uncertain although, here, nothing was.
    (_M, Class.READ): Outcome(*_DONE, 1, 1),
    (_M, Class.IDEMPOTENT): Outcome(*_DONE, 1, 1),
    (_M, Class.CONDITIONAL): Outcome(*_DONE, 1, 1),
    (_M, Class.ONCE): Outcome(*_UNKNOWN, 0, 0),
    # It was sent: repeated where the class permits it, the conditional one felt once because its key is the same.
    (_F, Class.READ): Outcome(*_DONE, 2, 2),
    (_F, Class.IDEMPOTENT): Outcome(*_DONE, 2, 2),
    (_F, Class.CONDITIONAL): Outcome(*_DONE, 2, 1),
    (_F, Class.ONCE): Outcome(*_UNKNOWN, 1, 1),
    (_R, Class.READ): Outcome(*_DONE, 1, 1),
    (_R, Class.IDEMPOTENT): Outcome(*_DONE, 1, 1),
    (_R, Class.CONDITIONAL): Outcome(*_DONE, 1, 1),
    (_R, Class.ONCE): Outcome(*_DONE, 1, 1),
    (Phase.RETRIED, Class.READ): Outcome(*_DONE, 3, 3),
    (Phase.RETRIED, Class.IDEMPOTENT): Outcome(*_DONE, 3, 3),
    (Phase.RETRIED, Class.CONDITIONAL): Outcome(*_DONE, 3, 1),
    (Phase.RETRIED, Class.ONCE): Outcome(*_UNKNOWN, 1, 1),
    # Whatever permits a further attempt sends once more, and that one acts. The last class does not get as far.
    (Phase.UNAUTHORIZED, Class.READ): Outcome(*_DONE, 2, 1),
    (Phase.UNAUTHORIZED, Class.IDEMPOTENT): Outcome(*_DONE, 2, 1),
    (Phase.UNAUTHORIZED, Class.CONDITIONAL): Outcome(*_DONE, 2, 1),
    (Phase.UNAUTHORIZED, Class.ONCE): Outcome(*_UNKNOWN, 1, 0),
    # A write that was sent and has no recorded result is uncertain however it ends; a read is not.
    (Phase.STOPPED, Class.READ): Outcome("failed", "tool.run_cancelled", 1, 1),
    (Phase.STOPPED, Class.IDEMPOTENT): Outcome(*_UNKNOWN, 1, 1),
    (Phase.STOPPED, Class.CONDITIONAL): Outcome(*_UNKNOWN, 1, 1),
    (Phase.STOPPED, Class.ONCE): Outcome(*_UNKNOWN, 1, 1),
}
# Where nothing may leave at all, the class plays no part.
ENDINGS: Final = {
    Phase.REFUSED: Outcome("failed", "tool.arguments_invalid", 0, 0),
    Phase.REJECTED: Outcome("denied", "policy.approval.expert_rejected", 0, 0),
    Phase.EXPIRED: Outcome("denied", "policy.approval.expired", 0, 0),
    Phase.CANCELLED: Outcome("failed", "tool.run_cancelled", 0, 0),
    Phase.ABSENT: Outcome("failed", "tool.server_unreachable", 0, 0),
}


def expected(point: str, kind: Class, kill: Kill) -> Outcome:
    """One crash: a look into the tables."""
    phase = PHASES[point][kill]
    return ENDINGS[phase] if phase in ENDINGS else TABLE[phase, kind]


def concludes(point: str, kind: Class, kill: Kill) -> bool:
    """Say whether the next worker may only record that nobody knows."""
    return kind is Class.ONCE and PHASES[point][kill] in {_M, _F}


def expected_after(crashes: Sequence[tuple[str, Kill]], kind: Class) -> Outcome:
    """Several crashes in a row, each during the recovery from the one before; the same rules, counted.

    A call is claimed at most five times; then it ends as failed, or uncertain where it is a write that was sent.
    """
    sends, claims, is_marked = 0, 0, False
    for point, kill in crashes:
        phase = PHASES[point][kill]
        if is_marked and kind is Class.ONCE:
            break  # this attempt only concluded; what it left changes nothing
        if phase is _R:
            return Outcome(*_DONE, sends + 1, _effects(sends + 1, kind))
        is_marked = is_marked or phase in {_M, _F}
        claims += phase in {_M, _F} or point in CLAIMED
        sends += phase is _F
    if is_marked and (kind is Class.ONCE or (claims == MAXIMUM_CLAIMS and kind is not Class.READ)):
        return Outcome(*_UNKNOWN, sends, _effects(sends, kind))
    if claims == MAXIMUM_CLAIMS:
        return Outcome("failed", "tool.claims_spent", sends, _effects(sends, kind))
    return Outcome(*_DONE, sends + 1, _effects(sends + 1, kind))


def _effects(sends: int, kind: Class) -> int:
    return min(sends, 1) if kind is Class.CONDITIONAL else sends
