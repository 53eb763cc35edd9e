"""One house per schedule: tables, web processes, workers, and a bell; the pipeline and its execution are the real ones.

Only the store, the tools and the event loop are stand-ins. A worker's job does what `services.advance_step` does, a
web process what `services.propose_step` does. Source: DESIGN §3, §4 and §13.
"""

from collections import deque
from collections.abc import Collection, Coroutine, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final
from uuid import UUID

from approvals.gate import RuleGate, SeatDesk, no_grants
from approvals.ruleset import Ruleset
from tests.contract.memory_store import MemoryStore
from tests.contract.memory_tables import CallRow, ManualClock
from tests.contract.store.memory_world import CountedIds, new_tables
from tests.model.actors import Actor, ActorPool
from tests.model.tools import ModelRegistry
from tests.model.witness import Witness
from toolsys import batches, pipeline
from toolsys.domain.calls import Claim, Disposition, Facts, Progress, ProposedCall, StepDraft
from toolsys.domain.context import ArtifactWriter, SecretValue
from toolsys.domain.results import ArtifactRef
from toolsys.domain.spec import ToolSpec
from toolsys.domain.states import InvocationStatus
from toolsys.domain.trust import TrustLevel
from toolsys.execution import LoopThread, WorkerExecution
from toolsys.leases import Held, LeaseKeeper
from toolsys.ports import Case, Limits, Runtime
from toolsys.probes import NoProbe
from toolsys.problems import Problem

LEASE: Final = 10.0
GRACE: Final = 2.0
STALE_RETRIES: Final = 5
LIMITS: Final = Limits(
    lease_seconds=LEASE, max_claims=5, claim_cap_per_tenant=8, parallel_cap=1, max_attempts=3,
    inline_maximum_bytes=4096, output_ceiling_bytes=1_048_576, dispatch_grace_seconds=GRACE,
)  # fmt: skip


@dataclass(frozen=True)
class WatchedStore(MemoryStore):
    """The store in memory, which also pauses around reads and tells the witness what it committed, as it commits."""

    witness: Witness
    actor: Actor
    house: "House"

    def read_facts(self, call: ProposedCall) -> Facts:
        self.actor.pause("before_facts")
        found = MemoryStore.read_facts(self, call)
        self.witness.read(self.actor.name)
        self.actor.pause("after_facts")
        return found

    def _take(self, case: Case, row: CallRow, epoch: int, before: float) -> Claim | str:
        was_live = row.has_live_lease(self.tables.clock.now())
        answer = MemoryStore._take(self, case, row, epoch, before)
        if isinstance(answer, Claim):
            self.witness.claimed(row, was_live=was_live)
        return answer

    def _consume(self, case: Case, row: CallRow) -> bool:
        was = self.tables.approvals[row.id].status
        is_consumed = MemoryStore._consume(self, case, row)
        if is_consumed:
            self.witness.consumed(row, was)
        return is_consumed

    def _fence(self, claim: Claim, row: CallRow) -> str:
        self.witness.asked_to_send(self.actor.name)
        why = MemoryStore._fence(self, claim, row)
        if why == "held":
            self.witness.fenced(self.actor.name, claim)
        return why

    def renew(self, claims: Collection[Claim], lease_seconds: float) -> set[UUID]:
        found = MemoryStore.renew(self, claims, lease_seconds)
        for identifier in found:
            self.witness.renewed(self.tables.calls[identifier])
        return found

    def commit_result(self, case: Case) -> Disposition:
        """Where the result of a write cannot be stored, its row is marked and its run fails, as `store` does it."""
        if not (self.house.is_storage_broken and case.classification.side_effect.is_write):
            return MemoryStore.commit_result(self, case)
        assert case.claim is not None
        self.house.is_storage_broken = False
        self.actor.pause("before_unrecorded")
        row = self.tables.calls[case.claim.invocation_id]
        if row.claim_epoch == case.claim.epoch and row.status is InvocationStatus.RUNNING:
            self.tables.fail_run(row.step.run_id, "audit.persistence_failed")
        self.actor.pause("after_unrecorded")
        return Disposition(row.id, Progress.IN_FLIGHT)

    def _settle(self, row: CallRow, epoch: int, *rest: Any) -> bool:
        was_live = row.has_live_lease(self.tables.clock.now())
        is_ended = MemoryStore._settle(self, row, epoch, *rest)
        if is_ended:
            self.witness.ended(row, epoch, holds_claim=rest[-1] is not None, was_live=was_live)
        return is_ended


def _is_begun(disposition: Disposition) -> bool:
    return disposition.state in {Progress.HANDED_OFF, Progress.RELEASED} and not disposition.is_replay


class InlineLoop(LoopThread):
    """Runs a tool's coroutine on the caller's thread: the tools of the model never await."""

    def __init__(self) -> None:
        pass

    def run[T](self, work: Coroutine[Any, Any, T], timeout_seconds: float) -> T:
        try:
            if timeout_seconds <= 0:
                raise TimeoutError
            work.send(None)
        except StopIteration as done:
            value: T = done.value
            return value
        finally:
            work.close()
        raise AssertionError("a tool of the model awaited something")


class ModelKeeper(LeaseKeeper):
    """The real keeper with the store in memory behind it; it beats when the scheduler says so."""

    def __init__(self, clock: ManualClock, store: MemoryStore) -> None:
        super().__init__(clock, LEASE)
        self._store = store

    def renew_in_memory(self) -> None:
        held = list(self._held.values())
        before = self._clock.boottime()
        renewed = self._store.renew([each.claim for each in held], LEASE)
        for each in held:
            if each.claim.invocation_id in renewed:
                each.renewed(before)
            elif self._clock.boottime() > each.live_until:
                each.is_cancelled = True

    def in_hand(self) -> Collection[Held]:
        return list(self._held.values())


class NoArtifacts:
    """The tools of the model answer with a word: there is nothing to keep."""

    def save(self, data: bytes, media_type: str, *, claim: Claim, trust: TrustLevel) -> ArtifactRef:
        raise NotImplementedError

    def writer(self, claim: Claim) -> ArtifactWriter:
        return self

    def inherit(self, claim: Claim, trust: TrustLevel) -> Mapping[UUID, ArtifactRef]:
        return {}

    def read(self, *, tenant_id: str, artifact_id: UUID, storage_key: str, sha256: str) -> bytes:
        raise NotImplementedError

    async def write(self, data: bytes, media_type: str) -> ArtifactRef:
        raise NotImplementedError


class NoCredentials:
    def of(self, tenant_id: str) -> "NoCredentials":
        return self

    async def resolve(self, credential_ref: str) -> SecretValue:
        raise NotImplementedError


def _no_rules(tenant_id: str, authz_epoch: int) -> Ruleset:
    return Ruleset()


class PlainSealer:
    def seal(self, plain: bytes, *, tenant_id: str, kind: str, row: UUID) -> bytes:
        return plain

    def open(self, sealed: bytes, *, tenant_id: str, kind: str, row: UUID) -> bytes:
        return sealed

    def digest(self, plain: bytes) -> str:
        return str(len(plain))


@dataclass
class House:
    """Everything of one schedule. `bell` holds what the queue would: ids of calls and steps."""

    pool: ActorPool
    spec: ToolSpec
    call_count: int
    worker_count: int
    answers: deque[str]
    clock: ManualClock = field(default_factory=ManualClock)
    ids: CountedIds = field(default_factory=CountedIds)
    bell: deque[tuple[str, UUID]] = field(default_factory=deque)
    dispositions: list[Disposition] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.tables = new_tables(self.clock, self.ids)
        (self.run_id,) = self.tables.runs
        self.witness = Witness(self.tables)
        self.registry = ModelRegistry(self.spec, self.answers, self.witness)
        self.actors: dict[str, Actor] = {}
        self.runtimes: dict[str, Runtime] = {}
        self.keepers: dict[str, ModelKeeper] = {}
        self.executions: dict[str, WorkerExecution] = {}
        self.is_storage_broken = False  # the next result of a write cannot be stored
        self.fresh = {"web0", "web1"}  # who has not submitted yet
        for name in ("web0", "web1"):
            self._start(name, is_worker=False)
        for number in range(self.worker_count):
            self._start(f"w{number}", is_worker=True)

    @property
    def workers(self) -> list[str]:
        return list(self.keepers)

    def _start(self, name: str, *, is_worker: bool) -> None:
        actor = self.actors.get(name) or self.pool.take(name)
        self.actors[name] = actor
        self.witness.draining.pop(name, None)
        store = WatchedStore(
            self.tables, self.clock, self.ids, LIMITS, actor, name, witness=self.witness, actor=actor, house=self
        )  # fmt: skip
        execution = None
        if is_worker:
            self.keepers[name] = ModelKeeper(self.clock, store)
            execution = self.executions[name] = WorkerExecution(InlineLoop(), self.keepers[name], self.clock)
        self.runtimes[name] = Runtime(
            store=store, registry=self.registry.seen_by(actor), policy=RuleGate(_no_rules, no_grants),
            desk=SeatDesk(_no_rules, 120.0, 60.0),
            sealer=PlainSealer(), artifacts=NoArtifacts(), credentials=NoCredentials(), clock=self.clock,
            ids=self.ids, probe=NoProbe(), limits=LIMITS, providers={}, execution=execution,
        )  # fmt: skip

    def begin(self, name: str) -> None:
        """Let a web process submit the step, or a worker take the next bell; who was drained is a new process."""
        if name in self.executions and self.executions[name].is_draining:
            self._start(name, is_worker=True)
        runtime = self.runtimes[name]
        if name in self.keepers:
            kind, identifier = self.bell.popleft()
            self.actors[name].begin(lambda: self._advance(kind, identifier, runtime))
        else:
            self.fresh.discard(name)
            self.actors[name].begin(lambda: self._propose(runtime))

    def crash(self, name: str) -> None:
        """The process dies where it is, and a new one takes its place with nothing in hand."""
        rows = [self.tables.calls[held.claim.invocation_id] for held in self._in_hand(name)]
        self.actors[name].crash()
        for row in rows:
            self.witness.crashed(row)
        self._start(name, is_worker=name in self.keepers)

    def drain(self, name: str) -> None:
        """The worker is told to stop: it sends nothing new from now on."""
        self.executions[name].drain()
        self.witness.drained(name)

    def _in_hand(self, name: str) -> Collection[Held]:
        return self.keepers[name].in_hand() if name in self.keepers else ()

    def close(self) -> None:
        for actor in self.actors.values():
            if actor.is_busy:
                actor.crash()

    # -- what `services` does

    def _propose(self, runtime: Runtime) -> None:
        step = StepDraft(
            id=self.ids.uuid(), number=1, body_hash="body", body=b"", call_count=self.call_count, context_trust=(),
            origin_trust=TrustLevel.USER, parallel_group=None, correlation_id="",
        )  # fmt: skip
        calls = [self._call(index, step, self.ids.uuid()) for index in range(self.call_count)]
        try:
            group = batches.parallel_group(calls, runtime)
        except Problem:
            return
        if group is None:
            self._run_all(calls, runtime)
            return
        found = [self._run(replace(call, step=replace(step, parallel_group=group)), runtime) for call in calls]
        self.dispositions += found
        if any(map(_is_begun, found)):
            self.bell.extend(("call", each.invocation_id) for each in found[: LIMITS.parallel_cap])

    def _advance(self, kind: str, identifier: UUID, runtime: Runtime) -> None:
        row = self.tables.calls.get(identifier) if kind == "call" else None
        (step,) = self.tables.steps.values()
        draft = StepDraft(
            id=step.id, number=step.number, body_hash=step.body_hash, body=b"", call_count=step.call_count,
            context_trust=(), origin_trust=step.origin_trust, parallel_group=step.parallel_group, correlation_id="",
        )  # fmt: skip
        first = int(row.call_id.removeprefix("call_")) if row is not None else 0
        known = {each.call_id: each.id for each in self.tables.of_step(step)}
        calls = [
            self._call(index, draft, known.get(f"call_{index}") or self.ids.uuid())
            for index in range(first, step.call_count)
        ]
        if step.parallel_group is None:
            self._run_all(calls, runtime)
        else:
            self._run_in_group(calls if row is None else calls[:1], known, runtime)

    def _run_in_group(self, calls: list[ProposedCall], known: Mapping[str, UUID], runtime: Runtime) -> None:
        found = [self._run(call, runtime) for call in calls]
        self.dispositions += found
        waiting = [each.invocation_id for each in found if _is_begun(each)]
        if len(calls) == 1:
            following = known.get(f"call_{calls[0].call_index + LIMITS.parallel_cap}")
            waiting += [following] if following is not None else []
        self.bell.extend(("call", each) for each in waiting)

    def _call(self, index: int, step: StepDraft, invocation_id: UUID) -> ProposedCall:
        return ProposedCall(
            tenant_id=self.tables.tenant_id, invocation_id=invocation_id, run_id=self.run_id, step=step,
            call_id=f"call_{index}", call_index=index, name=self.spec.name, arguments={"line": f"{index}"},
            raw_hash=None, argument_trust={}, api_key_id=self.tables.key.id,
        )  # fmt: skip

    def _run_all(self, calls: list[ProposedCall], runtime: Runtime) -> None:
        for call in calls:
            disposition = self._run(call, runtime)
            self.dispositions.append(disposition)
            if _is_begun(disposition):
                self.bell.append(("call", disposition.invocation_id))
            if not disposition.is_settled:
                return

    def _run(self, call: ProposedCall, runtime: Runtime) -> Disposition:
        for _ in range(STALE_RETRIES):
            try:
                disposition = pipeline.run(call, runtime)
            except Problem:
                return Disposition(call.invocation_id, Progress.STALE)
            if disposition.state is not Progress.STALE:
                return disposition
            call = replace(call, invocation_id=self.ids.uuid())
        return disposition
