"""The adversary: everything that happens to a house besides its own work, one commit or one stretch of time a move.

Moves have names, so that a schedule can be printed and played again. Each has a budget in a schedule; a move that
cannot be made now is not offered, and when a schedule is played again it is passed over.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from tests.contract.memory_tables import CallRow
from tests.model.house import GRACE, LEASE, House
from toolsys.domain.states import ApprovalStatus, InvocationStatus

# How often each family may act in one schedule. `time`, `beat` and `sweep` are the world's usual course.
BUDGETS: Final[Mapping[str, int]] = {
    "tick": 16, "lease": 4, "age": 1, "beat": 16, "sweep": 8, "crash": 3, "lose": 2, "ring": 3, "approve": 2,
    "reject": 1, "bump": 5, "tenant": 2, "platform": 2, "cancel_run": 1, "cancel_call": 1, "tighten": 1, "loosen": 1,
    "withdraw": 1, "restore": 1, "drain": 2, "unstored": 1, "resolve": 1,
}  # fmt: skip
USUAL: Final = ("tick", "lease", "beat", "sweep", "ring", "approve", "resolve")
STRETCHES: Final = {"tick": 0.3 * LEASE, "lease": 1.05 * LEASE, "age": 5 * LEASE}


@dataclass
class Adversary:
    """Acts in the families that the schedule allows it."""

    house: House
    families: frozenset[str]
    left: dict[str, int] = field(default_factory=lambda: dict(BUDGETS))

    def offers(self) -> list[str]:
        """Return the moves that could be made now, in a fixed order."""
        found: list[str] = []
        for family in BUDGETS:
            if family in self.families and self.left[family] > 0:
                found += self._moves(family)
        return found

    def make(self, move: str) -> bool:
        """Make the move; say whether it could be made."""
        family, _, target = move.partition(":")
        if move not in self._moves(family):
            return False
        self.left[family] -= 1
        if family in STRETCHES:
            self.house.clock.advance(STRETCHES[family])
        elif family in {"beat", "crash", "drain"}:
            self._to_process(family, target)
        else:
            _DEEDS[family](self.house)
        return True

    def _to_process(self, family: str, name: str) -> None:
        if family == "beat":
            self.house.keepers[name].renew_in_memory()
        elif family == "drain":
            self.house.drain(name)
        else:
            self.house.crash(name)

    def _moves(self, family: str) -> list[str]:
        house = self.house
        match family:
            case "beat":
                return [f"beat:{name}" for name in house.workers if house.keepers[name].in_hand()]
            case "drain":
                return [f"drain:{name}" for name in house.workers if house.actors[name].is_busy]
            case "crash":
                return [f"crash:{name}" for name, actor in house.actors.items() if actor.is_busy]
            case "approve" | "reject":
                return [family] if _pending(house) else []
            case "resolve":
                return ["resolve"] if _unresolved(house) else []
            case "lose":
                return ["lose"] if house.bell else []
            case "cancel_call" | "ring":
                return [family] if _open(house) else []
            case _:
                return [family]


def _open(house: House) -> list[CallRow]:
    return [row for row in house.tables.calls.values() if not row.status.is_terminal]


def _unresolved(house: House) -> list[CallRow]:
    rows, known = house.tables.calls.values(), house.tables.not_happened
    return [row for row in rows if row.status is InvocationStatus.UNCERTAIN and row.id not in known]


def _resolve(house: House) -> None:
    """A person says that it did not happen: what is recorded stays, and nothing may be sent for it any more."""
    house.tables.resolve(_unresolved(house)[0].id, has_happened=False)


def _pending(house: House) -> list[CallRow]:
    return [row for row in _open(house) if row.id in house.tables.approvals
            and house.tables.approvals[row.id].status is ApprovalStatus.PENDING]  # fmt: skip


def sweep(house: House) -> None:
    for due in house.tables.sweep(GRACE):
        house.bell.append(("step" if due.kind == "step" else "call", due.id))


def _decide(house: House, *, is_approval: bool) -> None:
    row = _pending(house)[0]
    if house.tables.decide(row.id, is_approval=is_approval):
        house.bell.append(("call", row.id))


def _bump(house: House) -> None:
    house.tables.raise_epoch()
    house.witness.changed("a raised epoch")


def _tenant(house: House) -> None:
    house.tables.switch_tenant(on=not house.tables.is_tenant_enabled)
    house.witness.changed("the tenant's switch")


def _platform(house: House) -> None:
    """It raises the epoch, as every switch does; and on again it forbids nothing."""
    house.tables.switch_platform(on=not house.tables.is_platform_enabled)
    if house.tables.is_platform_enabled:
        house.witness.taken_back("the platform's switch")
    else:
        house.witness.changed("the platform's switch")


def _cancel_run(house: House) -> None:
    house.bell.extend(("call", identifier) for identifier in house.tables.cancel_run(house.run_id))
    house.witness.changed("the run's cancellation")


def _cancel_call(house: House) -> None:
    row = _open(house)[0]
    house.tables.cancel_call(row.id)
    house.bell.append(("call", row.id))
    if len(house.tables.calls) == 1:
        house.witness.changed("the call's cancellation")


def _tighten(house: House) -> None:
    house.registry.tighten()
    _bump(house)


def _loosen(house: House) -> None:
    house.registry.loosen()
    _bump(house)


def _withdraw(house: House) -> None:
    house.registry.is_withdrawn = True
    _bump(house)


def _restore(house: House) -> None:
    """An older copy of the database takes over: processes end, watermarks and claims are lost, the epoch is raised."""
    for name, actor in list(house.actors.items()):
        if actor.is_busy:
            house.crash(name)
    for row in _open(house):
        row.effect_sent_at = None
        if row.status is InvocationStatus.RUNNING:
            row.status, row.lease_expires_at, row.operation_deadline = InvocationStatus.AUTHORIZED, None, None
            row.dispatch_after = house.clock.now()
    house.tables.raise_database_epoch()


def _unstored(house: House) -> None:
    house.is_storage_broken = True


_DEEDS: Final[Mapping[str, Callable[[House], None]]] = {
    "sweep": sweep,
    "lose": lambda house: house.bell.clear(),
    "ring": lambda house: house.bell.append(("call", _open(house)[0].id)),
    "approve": lambda house: _decide(house, is_approval=True),
    "reject": lambda house: _decide(house, is_approval=False),
    "bump": _bump,
    "tenant": _tenant,
    "platform": _platform,
    "cancel_run": _cancel_run,
    "cancel_call": _cancel_call,
    "tighten": _tighten,
    "loosen": _loosen,
    "withdraw": _withdraw,
    "restore": _restore,
    "unstored": _unstored,
    "resolve": _resolve,
}
