"""One cell of the matrix: a call, a class, and one or two crashes; played on a lane and compared with the tables."""

import time
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from tests.crash import invariants
from tests.crash.expected import PHASES, Class, Kill, Outcome, Phase, concludes, expected, expected_after
from tests.crash.lane import Finished, Lane, Stuck
from tests.crash.leftovers import Leftovers
from tests.crash.points import POINTS, CrashPoint, Role, Scenario
from tests.crash.tools import ABSENT, grant_digest, tool_name

SETTLE_SECONDS: Final = 0.05
HELD: Final = frozenset({
    Scenario.HELD, Scenario.REJECTED, Scenario.EXPIRED, Scenario.WITHDRAWN, Scenario.VOTED,
})  # fmt: skip
ROW: Final = """SELECT id, status, reason_code, claim_epoch, effect_sent_at, idempotency_key, run_id, completed_at,
    artifact_id, lease_expires_at, lease_expires_at > clock_timestamp() AS is_lease_live
    FROM tool_invocations WHERE tenant_id = %s AND call_index = %s"""
OPEN: Final = "SELECT id FROM tool_invocations WHERE tenant_id = %s AND completed_at IS NULL"
AN_HOUR_AGO: Final = (
    "UPDATE tool_invocations SET created_at = created_at - interval '1 hour' WHERE tenant_id = %s",
    "UPDATE approval_requests SET created_at = created_at - interval '1 hour' WHERE tenant_id = %s",
)
REFUSE_RESULTS: Final = (
    "CREATE OR REPLACE FUNCTION crash_refuse() RETURNS trigger LANGUAGE plpgsql AS"
    " $$ BEGIN RAISE EXCEPTION 'no result is taken'; END $$; "
    "CREATE TRIGGER crash_refuse BEFORE UPDATE ON tool_invocations FOR EACH ROW"
    " WHEN (NEW.completed_at IS NOT NULL) EXECUTE FUNCTION crash_refuse()"
)
TAKE_RESULTS: Final = "DROP TRIGGER IF EXISTS crash_refuse ON tool_invocations"
# Claims that a scenario itself costs, beside one for each crash and the last.
CLAIMS: Final = {Scenario.RELEASED: 1, Scenario.ABSENT: 2, Scenario.RESET: 1}
ABANDONED: Final = (
    "UPDATE tool_invocations SET suspended_kind = 'left' WHERE tenant_id = %s AND completed_at IS NULL",
    "UPDATE tool_invocations SET dispatch_after = NULL WHERE tenant_id = %s AND completed_at IS NULL",
    "UPDATE run_steps SET completed_at = clock_timestamp() WHERE tenant_id = %s AND completed_at IS NULL",
)
TWO_SEATS: Final = """UPDATE approval_requests SET seats = '["expert", "expert"]' WHERE tenant_id = %s"""
VOTES: Final = "SELECT count(*) AS n FROM approval_votes WHERE tenant_id = %s"
# Drawn from no call of this tenant: what it was drawn from plays no part here, and foreign keys are not looked at.
GRANT: Final = """INSERT INTO standing_grants (id, tenant_id, created_at, request_id, agent_id, tool_name, tool_digest,
        seats, origin_trust, conditions, maximum_uses, uses, expires_at, note, proposed_by_id, confirmations,
        activated_at)
    SELECT gen_random_uuid(), s.tenant_id, now(), gen_random_uuid(), s.agent_id, %s, %s, '["expert"]',
        'external_untrusted', '[{"pointer": "/mode", "operator": "eq", "value": "answer"}]', 1, 0,
        now() + interval '1 hour', 'of the cell', u.id,
        jsonb_build_array(jsonb_build_object('user', u.id, 'seat', 'expert')), now()
    FROM agent_sessions s CROSS JOIN auth_user u WHERE s.tenant_id = %s AND u.username = 'approver'"""
BIND: Final = "UPDATE standing_grants SET words_digest = %s WHERE tenant_id = %s"
OUT_OF_TIME: Final = "UPDATE approval_requests SET expires_at = clock_timestamp() WHERE tenant_id = %s"


@dataclass(frozen=True, slots=True)
class Crash:
    point: str
    kill: Kill

    def __str__(self) -> str:
        return f"{self.point}:{self.kill}"


@dataclass(frozen=True, slots=True)
class Cell:
    kind: Class
    crashes: tuple[Crash, ...]

    @property
    def name(self) -> str:
        return f"{self.kind}/{'+'.join(map(str, self.crashes))}"

    @property
    def first(self) -> CrashPoint:
        return POINTS[self.crashes[0].point]

    @property
    def expected(self) -> Outcome:
        if len(self.crashes) == 1:
            (crash,) = self.crashes
            return expected(crash.point, self.kind, crash.kill)
        return expected_after([(crash.point, crash.kill) for crash in self.crashes], self.kind)

    @property
    def is_held(self) -> bool:
        return self.first.scenario in HELD

    @property
    def tool(self) -> str:
        is_held = self.is_held or self.first.scenario is Scenario.GRANTED
        return tool_name(self.kind, held=is_held, grouped=self.first.scenario is Scenario.GROUP)

    def calls(self) -> list[tuple[str, Any]]:
        """Return the step's calls; the one under test is the last."""
        modes = {
            Scenario.SLOW: "hang_once", Scenario.RESET: "reset_once", Scenario.REFUSED: "no such mode",
            Scenario.LOGIN: "refuse_once",
        }  # fmt: skip
        large = {Scenario.LARGE, Scenario.ORPHANED}
        is_large = any(POINTS[crash.point].scenario in large for crash in self.crashes)
        tested = (self.tool, {"mode": modes.get(self.first.scenario, "answer"), "large": is_large})
        echo = ("demo.echo", {"text": "first"})
        before = {Scenario.NEXT: echo, Scenario.GROUP: echo, Scenario.SECOND: ("demo.echo", {"no such": "field"})}
        return [*(first for scenario, first in before.items() if scenario is self.first.scenario), tested]


@dataclass(slots=True)
class Result:
    """What came out. `faults` empty means passed; `is_disturbed`: they may be the machine's, so it is played again."""

    cell: str
    faults: list[str] = field(default_factory=list)
    recoveries: list[invariants.Recovery] = field(default_factory=list)
    is_disturbed: bool = False
    seconds: float = 0.0

    def as_line(self) -> dict[str, Any]:
        return asdict(self)


class Play:
    """The cell in progress. Each method is one thing that happens, in the order of `run`."""

    def __init__(self, cell: Cell, lane: Lane) -> None:
        self.cell = cell
        self.lane = lane
        self.who = lane.tenant()
        self.tenant = self.who["tenant"]
        self.run_id = ""
        self.kills: list[invariants.AtKill] = []
        self.leftovers: Leftovers | None = None

    def run(self) -> Result:
        begun = time.monotonic()
        result = Result(self.cell.name)
        try:
            self._prepare()
            self._propose()
            self._decide()
            self._interfere()
            self._crash_workers()
            if self.cell.first.scenario is Scenario.ORPHANED:
                self._collect()
            result.faults = self._compare()
        except Stuck as stuck:
            result.faults = [str(stuck), f"the row: {self.row()}"]
        finally:
            self.lane.clear()
            self.lane.execute(TAKE_RESULTS)
        if result.faults:
            self._abandon()
        if self.row() is not None:
            result.recoveries = invariants.recoveries(self.lane, self.row()["id"], self.kills)
            late = invariants.of_recovery(self.lane, result.recoveries)
            result.is_disturbed = bool(late and not result.faults) or (bool(result.faults) and self._was_disturbed())
            result.faults += late
        if result.faults:
            self.lane.finished.pop(self.tenant, None)
        self.lane.forget_files(self.tenant)
        result.seconds = round(time.monotonic() - begun, 3)
        return result

    def row(self) -> Any:
        found = self.lane.rows(ROW, self.tenant, len(self.cell.calls()) - 1)
        return found[0] if found else None

    # -- what happens

    def _prepare(self) -> None:
        lane, first = self.lane, self.cell.first
        lane.clear()
        lane.ensure(Role.WORKER)
        lane.ensure(Role.SCHEDULER)
        session = {"tenant": self.tenant, "session": self.who["session"]}
        self.run_id = lane.ask("open_run", Role.CLIENT, **session)["run"]
        if first.scenario is Scenario.UNSTORED:
            lane.execute(REFUSE_RESULTS)
        if first.scenario in {Scenario.ABSENT, Scenario.BACK}:
            (lane.gates / Role.WORLD / ABSENT).write_text(self.tenant)
        if first.scenario is Scenario.UNRUNG:
            self._close(POINTS["after_intent"])
        if first.scenario in {Scenario.RELEASED, Scenario.CANCELLED}:
            self._close(POINTS["before_watermark"])
        if first.scenario is Scenario.DRAINED:
            self._close(POINTS["after_prepare"])
            self._close(POINTS["at_drain"])
        if first.scenario not in {Scenario.SLOW, Scenario.ORPHANED}:
            self._close(first)
        if first.role.victim is not Role.WORKER:
            self._close_next(1)  # the worker lives and goes on at once

    def _give_grant(self) -> None:
        self.lane.execute("SET session_replication_role = replica")
        self.lane.execute(GRANT, self.cell.tool, grant_digest(self.cell.kind), self.tenant)
        bound = self.lane.ask("bind_grant", Role.APPROVER, tenant=self.tenant)["digest"]
        self.lane.execute(BIND, bound, self.tenant)
        self.lane.execute("SET session_replication_role = origin")

    def _propose(self) -> None:
        """Submit the step. A client that died without an answer submits again only if nothing can be there."""
        first = self.cell.first
        if first.scenario is Scenario.GRANTED:
            self._give_grant()
        answer = self._submit()
        if first.scenario is Scenario.UNRUNG:
            self._reach(POINTS["after_intent"])
            self.lane.kill(Role.CLIENT, Kill.GROUP)
            self.lane.open_gate(POINTS["after_intent"])
            self._crash(0)
        elif first.role is Role.CLIENT and first.scenario is not Scenario.WITHDRAWN:
            self._crash(0)
            if first.name.startswith("before_"):
                self.lane.answer(self._submit(), "the second submission")
        else:
            self.lane.answer(answer, "the submission")

    def _submit(self) -> Any:
        return self.lane.start(
            "propose", Role.CLIENT, tenant=self.tenant, key=self.who["key"], run=self.run_id, calls=self.cell.calls()
        )

    def _decide(self) -> None:
        """Let the person decide, run out of time, or find that the run is gone. It took them an hour."""
        scenario = self.cell.first.scenario
        if not self.cell.is_held:
            return
        for statement in AN_HOUR_AGO:
            self.lane.execute(statement, self.tenant)
        if scenario is Scenario.EXPIRED:
            self.lane.execute(OUT_OF_TIME, self.tenant)
        elif scenario is Scenario.WITHDRAWN:
            self.lane.start("cancel", Role.CLIENT, tenant=self.tenant, run=self.run_id)
            self._crash(0)
            if self.cell.first.name == "cancel_uncommitted":
                self.lane.ask("cancel", Role.CLIENT, tenant=self.tenant, run=self.run_id)
        else:
            self._vote()

    def _vote(self) -> None:
        if self.cell.first.scenario is Scenario.VOTED:
            self.lane.execute(TWO_SEATS, self.tenant)
        request = self._decision()
        answer = self.lane.start("decide", Role.APPROVER, **request)
        if self.cell.first.role is Role.APPROVER:
            self._crash(0)
            if self.cell.first.name in {"decision_uncommitted", "vote_uncommitted"}:
                self.lane.ask("decide", Role.APPROVER, **request)
            if self.cell.first.scenario is Scenario.VOTED:
                self.lane.ask("decide", Role.APPROVER, **request, who="second approver")
        else:
            self.lane.answer(answer, "the decision")

    def _decision(self) -> dict[str, Any]:
        (request,) = self.lane.rows("SELECT id, digest FROM approval_requests WHERE tenant_id = %s", self.tenant)
        return {
            "tenant": self.tenant, "request": str(request["id"]), "digest": request["digest"],
            "approve": self.cell.first.scenario in {Scenario.HELD, Scenario.VOTED},
        }  # fmt: skip

    def _interfere(self) -> None:
        """Do what the scenario does while the worker stands before its watermark, or while the world hangs."""
        lane, scenario = self.lane, self.cell.first.scenario
        if scenario in {Scenario.RELEASED, Scenario.CANCELLED}:
            self._reach(POINTS["before_watermark"])
            if scenario is Scenario.RELEASED:
                lane.execute("UPDATE tenants SET authz_epoch = authz_epoch + 1 WHERE id = %s", self.tenant)
            else:
                lane.ask("cancel", Role.CLIENT, tenant=self.tenant, run=self.run_id)
            lane.open_gate(POINTS["before_watermark"])
        if scenario is Scenario.DRAINED:
            self._drain()
        if scenario is Scenario.STOPPED:
            self._reach(self.cell.first)
            lane.ask("cancel", Role.CLIENT, tenant=self.tenant, run=self.run_id)
        if scenario is Scenario.UNSTORED:
            self._reach(self.cell.first)
            lane.execute(TAKE_RESULTS)
        if scenario is Scenario.BACK:
            self._reach(self.cell.first)
            (lane.gates / Role.WORLD / ABSENT).unlink()
        if scenario is Scenario.SLOW:
            lane.until(lambda: lane.effects(self.tenant), "the first effect")
            self._close(self.cell.first)

    def _drain(self) -> None:
        """Tell the worker to stop while it has claimed and not sent; it goes on unless it is killed right there."""
        self._reach(POINTS["after_prepare"])
        self.lane.terminate(Role.WORKER)
        self._reach(POINTS["at_drain"])
        if self.cell.first.name != "at_drain":
            self.lane.open_gate(POINTS["at_drain"])
            self.lane.open_gate(POINTS["after_prepare"])

    def _collect(self) -> None:
        """Kill the scheduler while it collects what a lost attempt has left beside the call's own artifact."""
        self.lane.until(lambda: (row := self.row()) is not None and row["completed_at"] is not None, "a terminal row")
        self._close(self.cell.first)
        self.leftovers = Leftovers.beside_the_artifact_of(self.lane, self.tenant)
        self._crash(0)
        self.lane.until(self.leftovers.are_gone, "the end of what was left")

    def _crash_workers(self) -> None:
        done = 0 if self.cell.first.role.victim is Role.WORKER else 1
        for number in range(done, len(self.cell.crashes)):
            self._crash(number)

    def _crash(self, number: int) -> None:
        """Kill at the point, let whatever survives go on, and start the replacement."""
        crash = self.cell.crashes[number]
        point = POINTS[crash.point]
        self._reach(point)
        row = self.row()
        sends = len(self.lane.effects(self.tenant))
        moment = self.lane.kill(point.role.victim, crash.kill)
        if row is not None and row["status"] == "running":
            row |= self._lease_of(row)
        self.kills.append(invariants.AtKill(moment, row, sends, point.role.victim))
        if point.scenario is not Scenario.LATE:
            self.lane.open_gate(point)
        if point.scenario is Scenario.DRAINED:
            self.lane.open_gate(POINTS["after_prepare"])
        if point.role.victim in {Role.WORKER, Role.SCHEDULER}:
            self.lane.ensure(point.role.victim)
        if point.scenario is not Scenario.LATE and self._is_felt(number):
            # Whoever outlived the worker acts now; it must be through before the next gate closes.
            self.lane.until(lambda: len(self.lane.effects(self.tenant)) > number_felt(self.cell, number), "the effect")
            time.sleep(SETTLE_SECONDS)
        if point.role.victim is Role.WORKER:
            self._close_next(number + 1)

    def _lease_of(self, row: Any) -> dict[str, Any]:
        """Return the lease as the dead have left it: it may have been renewed since the row was read."""
        mine = [
            each for each in (self.row(),) if each["claim_epoch"] == row["claim_epoch"] and each["lease_expires_at"]
        ]
        return {"lease_expires_at": mine[0]["lease_expires_at"]} if mine else {}

    def _is_felt(self, number: int) -> bool:
        """Say whether this attempt reached the world, as long as the table let it try at all."""
        before, crash = self.cell.crashes[:number], self.cell.crashes[number]
        is_conclusion = any(concludes(each.point, self.cell.kind, each.kill) for each in before)
        return PHASES[crash.point][crash.kill] is Phase.FELT and not is_conclusion

    def _close_next(self, number: int) -> None:
        if number < len(self.cell.crashes):
            self._close(POINTS[self.cell.crashes[number].point])

    def _close(self, point: CrashPoint) -> None:
        self.lane.close_gate(point, tool=self.cell.tool, tenant=self.tenant)

    def _reach(self, point: CrashPoint) -> None:
        self.lane.until(lambda: self.lane.is_reached(point), f"{point.role} at {point.moment}")

    # -- what came of it

    def _compare(self) -> list[str]:
        lane = self.lane
        lane.until(lambda: (row := self.row()) is not None and row["completed_at"] is not None, "a terminal row")
        if self.cell.first.scenario is Scenario.GROUP:
            # The dead worker may have held the sibling too; nobody waits for it but the step.
            lane.until(lambda: not lane.rows(OPEN, self.tenant), "the end of the sibling")
        lane.open_gate(self.cell.first)
        row, wanted = self.row(), self.cell.expected
        lane.until(lambda: len(lane.effects(self.tenant)) >= wanted.sends, f"{wanted.sends} requests in the world", 5)
        lines = lane.effects(self.tenant)
        found = Outcome(row["status"], row["reason_code"], len(lines), sum(line["acted"] for line in lines))
        faults = [] if found == wanted else [f"expected {wanted}, found {found}"]
        faults += invariants.of_call(lane, self.tenant, row, lines, self.cell.kind, self.kills)
        faults += self._submit_again(row, len(lines))
        faults += self.leftovers.faults() if self.leftovers is not None else []
        if self.cell.first.scenario is Scenario.VOTED and lane.rows(VOTES, self.tenant) != [{"n": 2}]:
            faults.append(f"two people voted, and there are {lane.rows(VOTES, self.tenant)} votes")
        lane.finished[self.tenant] = Finished(len(lines), len(self.cell.calls()))
        faults += invariants.of_tenant(lane, self.tenant, calls=len(self.cell.calls()))
        complaints = lane.complaints()
        return faults + ([] if self.cell.first.scenario is Scenario.UNSTORED else complaints)

    def _abandon(self) -> None:
        """Keep what went wrong here from meeting the next cell at its gates."""
        for statement in ABANDONED:
            self.lane.execute(statement, self.tenant)
        self.lane.close_processes()

    def _submit_again(self, row: Any, sends: int) -> list[str]:
        """The same step once more is a replay of what is recorded: no other row, no other effect."""
        told = self.lane.answer(self._submit(), "the submission of what is done")[-1]
        faults = []
        if (told["id"], told["replay"], told["outcome"]) != (str(row["id"]), True, _outcome(row)):
            faults.append(f"submitted again, it was told {told}")
        if len(self.lane.effects(self.tenant)) != sends:
            faults.append("submitted again, it was sent again")
        return faults

    def _was_disturbed(self) -> bool:
        """Say whether somebody lost a lease who was not killed: this machine was too busy for the lease's length."""
        rightful = len(self.cell.crashes) + 1 + CLAIMS.get(self.cell.first.scenario, 0)
        lapsed = any(at.row is not None and at.row["is_lease_live"] is False for at in self.kills)
        return lapsed or self.row()["claim_epoch"] > rightful


def number_felt(cell: Cell, number: int) -> int:
    """Return how many requests the world must have received before crash `number`."""
    return sum(PHASES[crash.point][crash.kill] is Phase.FELT for crash in cell.crashes[:number])


def _outcome(row: Any) -> str:
    unavailable = row["reason_code"] == "tool.server_unreachable"
    return "unavailable" if unavailable else str(row["status"])
