"""The crash points: named moments at which a process of a running system is killed, one row each.

A moment is what a process reports to a probe (`PausingProbe`, `OneShotProbe`): what the store and the artifacts report,
and what `moments` adds around queue, leases, sweeps and decisions; relay and effect server report theirs.
`test_points` holds this list against the code. Which state must follow is in `expected`.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from tests.crash.expected import Class


class Role(StrEnum):
    """Whose gate folder the moment waits in. What waits in `world` (the relay, the effect server) is not killed."""

    CLIENT = "client"
    APPROVER = "approver"
    WORKER = "worker"
    SCHEDULER = "scheduler"
    WORLD = "world"

    @property
    def victim(self) -> "Role":
        return Role.WORKER if self is Role.WORLD else self


class Scenario(StrEnum):
    """What the cell's call goes through before and around its crash."""

    PLAIN = "plain"
    LARGE = "large"  # the result becomes an artifact
    HELD = "held"  # a person approves first
    REJECTED = "rejected"  # a person rejects; the worker settles the row
    NEXT = "next"  # the second call of a sequential step: its intent is the worker's
    SECOND = "second"  # the second call of a step whose first one the client's process could end by itself
    REFUSED = "refused"  # the arguments do not fit
    WITHDRAWN = "withdrawn"  # the run is cancelled while the call waits for a person
    RELEASED = "released"  # the authorization epoch rises between claim and watermark
    CANCELLED = "cancelled"  # the run is cancelled between claim and watermark
    ABSENT = "absent"  # prepare finds nobody there, at every attempt
    BACK = "back"  # prepare finds nobody there, and somebody after the crash
    RESET = "reset"  # the world acts and resets the connection, once
    UNSTORED = "unstored"  # the database takes no result of this call until the crash
    SLOW = "slow"  # the world keeps the worker waiting for longer than a lease
    EXPIRED = "expired"  # nobody decides in time; the worker settles the row
    STOPPED = "stopped"  # the run is cancelled while the world acts
    LATE = "late"  # what the killed attempt had sent reaches the world when all is over
    UNRUNG = "unrung"  # the ring was lost with the client: only a sweep finds the call
    GROUP = "group"  # the second call of a parallel group; only reads may join one
    DRAINED = "drained"  # the worker is told to stop between claim and watermark
    VOTED = "voted"  # two people must approve; the first vote decides nothing
    GRANTED = "granted"  # a standing grant, good for one use, stands in for people
    ORPHANED = "orphaned"  # a lost attempt has left a row and bytes in storage; the call itself has ended
    LOGIN = "login"  # the world refuses the login, once, and does nothing; it is renewed and the call given back


class Match(StrEnum):
    """What a gate file must hold to stop exactly this cell: the tool's name, the tenant's id, or nothing."""

    TOOL = "tool"
    TENANT = "tenant"
    ANY = ""


@dataclass(frozen=True, slots=True)
class CrashPoint:
    name: str
    role: Role
    moment: str
    match: Match
    scenario: Scenario = Scenario.PLAIN
    classes: tuple[Class, ...] = tuple(Class)


# Whose result the audit's rule holds; who may join a group; who may try again after a login was refused.
_WRITES: Final = (Class.IDEMPOTENT, Class.CONDITIONAL, Class.ONCE)
_REPEATABLE: Final = (Class.READ, Class.IDEMPOTENT, Class.CONDITIONAL)
CLASSES: Final = {
    Scenario.UNSTORED: _WRITES, Scenario.GROUP: (Class.READ,), Scenario.LOGIN: _REPEATABLE,
    Scenario.ORPHANED: (Class.READ,),
}  # fmt: skip


def _store(name: str, role: Role = Role.WORKER, scenario: Scenario = Scenario.PLAIN, moment: str = "") -> CrashPoint:
    return CrashPoint(name, role, moment or name, Match.TOOL, scenario, CLASSES.get(scenario, tuple(Class)))


def _told(name: str, scenario: Scenario = Scenario.PLAIN, role: Role = Role.WORKER, moment: str = "") -> CrashPoint:
    return CrashPoint(name, role, moment or name, Match.TENANT, scenario, CLASSES.get(scenario, tuple(Class)))


_CLIENT: Final = (
    _store("before_intent", Role.CLIENT),
    _store("after_intent", Role.CLIENT),
    _told("after_ring", role=Role.CLIENT),
    _store("between_calls", Role.CLIENT, Scenario.SECOND, "before_intent"),
    _store("between_group_calls", Role.CLIENT, Scenario.GROUP, "before_intent"),
    _told("cancel_uncommitted", Scenario.WITHDRAWN, Role.CLIENT, "after_marks"),
    _told("cancel_committed", Scenario.WITHDRAWN, Role.CLIENT, "before_ring"),
    _told("cancel_rung", Scenario.WITHDRAWN, Role.CLIENT, "after_ring"),
    _store("before_hold", Role.CLIENT, Scenario.HELD),
    _store("after_hold", Role.CLIENT, Scenario.HELD),
    _store("before_grant_use", Role.CLIENT, Scenario.GRANTED, "before_intent"),
    _store("after_grant_use", Role.CLIENT, Scenario.GRANTED, "after_intent"),
    _store("before_refusal", Role.CLIENT, Scenario.REFUSED),
    _store("after_refusal", Role.CLIENT, Scenario.REFUSED),
)
_APPROVER: Final = (
    _told("vote_uncommitted", Scenario.VOTED, Role.APPROVER),
    _told("vote_committed", Scenario.VOTED, Role.APPROVER),
    _told("decision_uncommitted", Scenario.HELD, Role.APPROVER),
    _told("decision_committed", Scenario.HELD, Role.APPROVER, "before_ring"),
    _told("decision_rung", Scenario.HELD, Role.APPROVER, "after_ring"),
)
_BEFORE_THE_WATERMARK: Final = (
    _told("before_job"),
    _store("before_approved_intent", scenario=Scenario.HELD, moment="before_intent"),
    _store("after_approved_intent", scenario=Scenario.HELD, moment="after_intent"),
    _store("before_next_intent", scenario=Scenario.NEXT, moment="before_intent"),
    _store("after_next_intent", scenario=Scenario.NEXT, moment="after_intent"),
    _store("before_claim"),
    _store("after_claim"),
    _told("before_prepare"),
    _told("after_prepare"),
    _store("before_watermark"),
    _store("before_group_claim", scenario=Scenario.GROUP, moment="before_claim"),
    _store("after_group_claim", scenario=Scenario.GROUP, moment="after_claim"),
    CrashPoint("at_drain", Role.WORKER, "after_drain", Match.ANY, Scenario.DRAINED),
    _store("before_drain_release", scenario=Scenario.DRAINED, moment="before_release"),
    _store("after_drain_release", scenario=Scenario.DRAINED, moment="after_release"),
    _told("drain_unrung", Scenario.DRAINED, moment="before_ring"),
    _told("drain_rung", Scenario.DRAINED, moment="after_ring"),
)
_AROUND_THE_EFFECT: Final = (
    _store("after_watermark"),
    _told("before_connect", role=Role.WORLD),
    _told("after_connect", role=Role.WORLD),
    _told("after_first_byte", role=Role.WORLD),
    _told("after_last_byte", role=Role.WORLD),
    _told("before_effect", role=Role.WORLD),
    _told("after_effect", role=Role.WORLD),
    _told("late_connect", Scenario.LATE, Role.WORLD, "before_connect"),
    _told("late_effect", Scenario.LATE, Role.WORLD, "before_effect"),
    CrashPoint("before_renew", Role.WORKER, "before_renew", Match.ANY, Scenario.SLOW),
    CrashPoint("after_renew", Role.WORKER, "after_renew", Match.ANY, Scenario.SLOW),
    _told("after_answer"),
    _store("before_artifact_blob", scenario=Scenario.LARGE, moment="before_blob"),
    _store("after_artifact_blob", scenario=Scenario.LARGE, moment="after_blob"),
    _store("after_artifact_row", scenario=Scenario.LARGE, moment="after_artifact"),
    _store("before_result"),
    _store("before_reset_result", scenario=Scenario.RESET, moment="before_result"),
    _store("before_group_result", scenario=Scenario.GROUP, moment="before_result"),
    _store("before_login_release", scenario=Scenario.LOGIN, moment="before_release"),
    _store("after_login_release", scenario=Scenario.LOGIN, moment="after_release"),
    _told("login_unrung", Scenario.LOGIN, moment="before_ring"),
)
_AFTER_THE_RESULT: Final = (
    _store("after_result"),
    _store("after_group_result", scenario=Scenario.GROUP, moment="after_result"),
    _told("before_wake"),
    _told("after_wake"),
    _told("after_job"),
)
_OTHER_ENDINGS: Final = (
    _store("before_settlement", scenario=Scenario.REJECTED),
    _store("after_settlement", scenario=Scenario.REJECTED),
    _store("before_expiry", scenario=Scenario.EXPIRED, moment="before_settlement"),
    _store("after_expiry", scenario=Scenario.EXPIRED, moment="after_settlement"),
    _told("stopped_after_effect", Scenario.STOPPED, Role.WORLD, "after_effect"),
    _store("before_release", scenario=Scenario.RELEASED),
    _store("after_release", scenario=Scenario.RELEASED),
    _store("before_retry", scenario=Scenario.BACK, moment="before_release"),
    _store("after_retry", scenario=Scenario.BACK, moment="after_release"),
    _store("before_unrecorded", scenario=Scenario.UNSTORED),
    _store("after_unrecorded", scenario=Scenario.UNSTORED),
    _store("before_cancelled_result", scenario=Scenario.CANCELLED, moment="before_result"),
    _store("before_absent_result", scenario=Scenario.ABSENT, moment="before_result"),
)
_SCHEDULER: Final = (
    CrashPoint("before_sweep", Role.SCHEDULER, "before_sweep", Match.ANY, Scenario.UNRUNG),
    _told("during_sweep", Scenario.UNRUNG, Role.SCHEDULER),
    _told("after_sweep", Scenario.UNRUNG, Role.SCHEDULER),
    _told("before_orphan_rows", Scenario.ORPHANED, Role.SCHEDULER),
    _told("after_orphan_rows", Scenario.ORPHANED, Role.SCHEDULER),
    _told("before_blob_delete", Scenario.ORPHANED, Role.SCHEDULER),
    _told("after_blob_delete", Scenario.ORPHANED, Role.SCHEDULER),
)

GROUPS: Final = {
    "the client, around its submission": _CLIENT,
    "the approver, around the decision": _APPROVER,
    "the worker, before the watermark": _BEFORE_THE_WATERMARK,
    "the worker, around the effect": _AROUND_THE_EFFECT,
    "the worker, after the result": _AFTER_THE_RESULT,
    "the worker, at other endings": _OTHER_ENDINGS,
    "the scheduler, in its sweep": _SCHEDULER,
}
POINTS: Final = {point.name: point for points in GROUPS.values() for point in points}

# Where the worker that recovers can be killed once more: whatever it passes on its way.
_SINGULAR: Final = {"before_renew", "after_renew", "before_reset_result"}
_AGAIN: Final = {Scenario.PLAIN, Scenario.LARGE}
SECOND_POINTS: Final = tuple(
    point
    for point in POINTS.values()
    if point.role.victim is Role.WORKER and point.scenario in _AGAIN and point.name not in _SINGULAR
)
# What it passes where the table forbids another attempt: it claims, and records that nobody knows.
CONCLUDING: Final = frozenset({
    "before_job", "before_claim", "after_claim", "before_result", "after_result", "before_wake", "after_wake",
    "after_job",
})  # fmt: skip
