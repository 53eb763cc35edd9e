"""What lost attempts leave in storage goes by age; a crash between two writes leaves no row without its bytes."""

import os
import shutil
import threading
import time
import uuid
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from django.utils import timezone

from tests.factories import Tenancy
from tests.races.moments import pass_lease
from tests.spec.requirements import gate
from tests.standins import with_tool
from toolsys import orphans, sweeper
from toolsys.artifacts import DurableFiles, StoredArtifacts
from toolsys.domain.calls import Disposition
from toolsys.domain.context import ToolExecutionContext
from toolsys.domain.results import ArtifactPart, ToolResult
from toolsys.domain.spec import JsonObject
from toolsys.models import Artifact, Invocation, Run
from toolsys.orphans import OrphanCollector
from toolsys.ports import Runtime
from toolsys.probes import NoProbe
from toolsys.sweeper import Chore
from toolsys.tenancy import tenant_transaction

DAY = 86_400.0


class Crash(BaseException):
    """The process died here."""


class CrashAt:
    def __init__(self, point: str) -> None:
        self.point = point

    def reached(self, point: str, tool_name: str) -> None:
        if point == self.point:
            raise Crash(point)


class Place:
    """A storage of this test's own, with the worker and the collector that use it."""

    def __init__(self, worker: Runtime, tenancy: Tenancy, folder: Path) -> None:
        self.files = DurableFiles(folder / "artifacts")
        self.tenancy = tenancy
        self._worker = worker

    def worker(self, probe: Any = None) -> Runtime:
        store = self._worker.artifacts
        assert isinstance(store, StoredArtifacts)
        return replace(self._worker, artifacts=replace(store, storage=self.files, probe=probe or NoProbe()))

    def collect(self, probe: Any = None) -> int:
        return OrphanCollector(self.files, probe or NoProbe(), DAY).collect()

    def propose(self, probe: Any = None) -> Disposition:
        """Run a call whose tool writes one artifact and refers to it."""
        (proposed,) = self.tenancy.propose(("demo.echo", {}))
        self.tenancy.work(with_tool(self.worker(probe), _writing), proposed)
        return proposed

    def lose(self, point: str) -> Disposition:
        """Run such a call in a worker that dies at a point."""
        (proposed,) = self.tenancy.propose(("demo.echo", {"text": str(uuid.uuid4())}))
        with pytest.raises(Crash):
            self.tenancy.work(with_tool(self.worker(CrashAt(point)), _crashing_after_write(point)), proposed)
        return proposed

    def grow_old(self) -> None:
        """Let more than a day go by for everything that is stored."""
        then = time.time() - DAY - 60
        for path in Path(self.files.location).rglob("*-*-*"):
            if path.is_file():
                os.utime(path, (then, then))
        with tenant_transaction(self.tenancy.id):
            Artifact.objects.update(created_at=timezone.now() - timedelta(seconds=DAY + 60))

    def rows(self) -> set[str]:
        with tenant_transaction(self.tenancy.id):
            return set(Artifact.objects.values_list("storage_key", flat=True))

    def bytes(self) -> set[str]:
        root = Path(self.files.location)
        return {str(path.relative_to(root)) for path in root.rglob("*") if path.is_file()}

    def end_attempt(self, disposition: Disposition) -> None:
        """Another worker has claimed the call since, or it has ended."""
        with tenant_transaction(self.tenancy.id):
            Invocation.objects.filter(pk=disposition.invocation_id).update(claim_epoch=9)


async def _writing(arguments: JsonObject, context: ToolExecutionContext) -> ToolResult:
    reference = await context.artifacts.write(b"data", "image/png")
    return ToolResult(ok=True, content=(ArtifactPart(artifact=reference),))


def _crashing_after_write(point: str) -> Any:
    async def answer(arguments: JsonObject, context: ToolExecutionContext) -> ToolResult:
        if point == "in_tool":
            await context.artifacts.write(b"data", "image/png")
            raise Crash(point)
        return await _writing(arguments, context)

    return answer


@pytest.fixture
def place(worker: Runtime, acme: Tenancy, tmp_path: Path) -> Place:
    return Place(worker, acme, tmp_path)


@gate("artifact.orphans")
def test_what_a_result_stands_behind_is_never_collected(place: Place) -> None:
    place.propose()
    place.grow_old()
    assert (place.collect(), place.collect()) == (0, 0)
    assert len(place.rows()) == 1
    assert place.rows() == place.bytes()


@gate("artifact.orphans", "artifact.order")
@pytest.mark.parametrize(("point", "has_bytes", "has_row"), [
    ("before_blob", False, False), ("after_blob", True, False), ("after_artifact", True, True), ("in_tool", True, True),
])  # fmt: skip
def test_whatever_a_lost_attempt_left_is_collected_when_it_is_old(
    place: Place, point: str, has_bytes: bool, has_row: bool
) -> None:
    lost = place.lose(point)
    assert (bool(place.bytes()), bool(place.rows())) == (has_bytes, has_row)
    assert place.rows() <= place.bytes(), "no row lacks its bytes"
    place.end_attempt(lost)
    assert place.collect() == 0, "it is young"
    place.grow_old()
    assert place.collect() == int(has_bytes)
    assert place.rows() == place.bytes() == set()


@gate("artifact.orphans", "artifact.own")
def test_a_result_adopts_what_its_own_attempt_wrote_and_nothing_of_an_earlier_one(place: Place) -> None:
    lost = place.lose("in_tool")
    pass_lease(place.tenancy, lost)
    place.tenancy.work(with_tool(place.worker(), _writing), lost)
    with tenant_transaction(place.tenancy.id):
        kept = Artifact.objects.filter(invocation_id=lost.invocation_id, adopted_at__isnull=False)
        assert list(kept.values_list("claim_epoch", flat=True)) == [2]
    assert len(place.rows()) == 2


@gate("artifact.orphans")
def test_a_collector_that_dies_between_row_and_bytes_leaves_no_row_without_bytes(place: Place) -> None:
    place.end_attempt(place.lose("after_artifact"))
    place.grow_old()
    with pytest.raises(Crash):
        place.collect(CrashAt("before_blob_delete"))
    assert (len(place.bytes()), place.rows()) == (1, set())
    assert place.collect() == 1
    assert place.bytes() == set()


@gate("artifact.orphans")
def test_an_attempt_that_still_runs_loses_nothing_however_old_it_is(place: Place) -> None:
    lost = place.lose("after_artifact")
    place.grow_old()
    assert place.collect() == 0
    assert len(place.rows()) == 1
    place.end_attempt(lost)
    assert place.collect() == 1


@gate("artifact.orphans")
def test_a_folder_of_a_tenant_that_this_database_does_not_know_is_left_alone(place: Place) -> None:
    key = f"somebody-else/{UUID(int=1)}/1-{UUID(int=2)}"
    path = Path(place.files.path(key))
    path.parent.mkdir(parents=True)
    path.write_bytes(b"theirs")
    place.grow_old()
    assert place.collect() == 0
    assert place.bytes() == {key}


@gate("artifact.orphans")
def test_one_tenants_orphans_are_collected_beside_anothers_artifacts(
    place: Place, globex: Tenancy, worker: Runtime, tmp_path: Path
) -> None:
    other = Place(worker, globex, tmp_path)
    other.propose()
    place.end_attempt(place.lose("after_artifact"))
    place.grow_old()
    other.grow_old()
    assert place.collect() == 1
    assert place.bytes() == other.rows()


@gate("artifact.orphans")
@pytest.mark.parametrize("of_tenant", [True, False], ids=["a tenant's", "a call's"])
def test_a_folder_that_goes_away_during_a_pass_costs_the_others_nothing(
    place: Place, globex: Tenancy, monkeypatch: pytest.MonkeyPatch, of_tenant: bool
) -> None:
    """An operator removes files, or another scheduler does: what was named need not be there any more."""
    place.lose("after_blob")
    place.grow_old()
    gone = globex.id if of_tenant else f"{globex.id}/{UUID(int=1)}"
    Path(place.files.path(f"{globex.id}/{UUID(int=1)}")).mkdir(parents=True)
    listed = place.files.listdir

    def listing(path: str) -> tuple[list[str], list[str]]:
        if path == gone:
            shutil.rmtree(place.files.path(gone))
        return listed(path)

    monkeypatch.setattr(place.files, "listdir", listing)
    assert place.collect() == 1
    assert place.bytes() == set()


@gate("artifact.orphans")
def test_passes_are_bounded_and_go_round_until_nothing_is_left(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(orphans, "FOLDERS_A_PASS", 2)
    monkeypatch.setattr(orphans, "ROWS_A_PASS", 1)
    for point in ("after_blob", "after_blob", "after_artifact", "after_artifact", "after_blob"):
        place.end_attempt(place.lose(point))
    place.grow_old()
    collector = OrphanCollector(place.files, NoProbe(), DAY)
    passes = [collector.collect() for _ in range(4)]
    assert (sum(passes), max(passes) <= 3, place.bytes(), place.rows()) == (5, True, set(), set())


YEAR = 365 * DAY


def after_a_year(place: Place, **changes: Any) -> None:
    """Let a call, its run and its artifact have ended more than a year ago, unless something else is said of one."""
    past = timezone.now() - timedelta(seconds=YEAR + 60)
    with tenant_transaction(place.tenancy.id):
        Artifact.objects.filter(adopted_at__isnull=False).update(adopted_at=changes.get("adopted_at", past))
        Invocation.objects.update(completed_at=changes.get("completed_at", past))
        Run.objects.update(ended_at=changes.get("ended_at", past), deadline_at=changes.get("deadline_at", past))


@gate("artifact.retention")
def test_what_was_kept_long_enough_goes_with_its_bytes_where_an_operator_says_so(
    place: Place, globex: Tenancy, worker: Runtime, tmp_path: Path
) -> None:
    other = Place(worker, globex, tmp_path)
    place.propose()
    other.propose()
    after_a_year(place)
    place.grow_old()
    assert place.collect() == 0, "without a retention, files stay as long as their run"
    assert OrphanCollector(place.files, NoProbe(), DAY, YEAR).collect() == 1
    assert (place.rows(), place.bytes()) == (set(), other.rows())
    assert len(other.rows()) == 1


@gate("artifact.retention")
@pytest.mark.parametrize("changes", [
    {"ended_at": "now"}, {"ended_at": None, "deadline_at": "now"}, {"completed_at": None}, {"completed_at": "now"},
    {"adopted_at": "now"},
], ids=["run ended lately", "run is open", "call is open", "call ended lately", "adopted lately"])  # fmt: skip
def test_a_file_stays_while_its_run_or_its_call_has_not_been_over_for_so_long(
    place: Place, changes: dict[str, Any]
) -> None:
    place.propose()
    after_a_year(place, **{name: value and timezone.now() for name, value in changes.items()})
    place.grow_old()
    assert OrphanCollector(place.files, NoProbe(), DAY, YEAR).collect() == 0
    assert place.rows() == place.bytes() != set()


@gate("artifact.retention")
def test_a_run_that_nobody_ended_has_ended_at_its_deadline(place: Place) -> None:
    place.propose()
    after_a_year(place, ended_at=None)
    assert OrphanCollector(place.files, NoProbe(), DAY, YEAR).collect() == 1


@gate("artifact.retention")
def test_who_dies_between_the_row_and_the_bytes_of_an_old_file_leaves_no_row_without_bytes(place: Place) -> None:
    place.propose()
    after_a_year(place)
    place.grow_old()
    with pytest.raises(Crash):
        OrphanCollector(place.files, CrashAt("before_blob_delete"), DAY, YEAR).collect()
    assert (len(place.bytes()), place.rows()) == (1, set())
    assert OrphanCollector(place.files, NoProbe(), DAY, YEAR).collect() == 1
    assert place.bytes() == set()


def test_where_nothing_was_ever_stored_there_is_nothing_to_do(place: Place, tmp_path: Path) -> None:
    assert OrphanCollector(DurableFiles(tmp_path / "never"), NoProbe(), DAY).collect() == 0


@gate("artifact.orphans")
def test_the_scheduler_does_its_chores_when_they_are_due(database: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sweeper, "_is_leader", lambda: True)
    stopping, done = threading.Event(), []

    def work() -> None:
        done.append("often")
        if len(done) > 3:
            stopping.set()

    rare: list[str] = []
    chores = [Chore(0.0, work), Chore(3_600.0, lambda: rare.append("once"))]
    sweeper.serve(0.01, 0.5, stopping, chores)
    assert (len(done), rare) == (4, ["once"])


@gate("artifact.orphans")
def test_a_chore_that_fails_does_not_stop_the_sweeps(database: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sweeper, "_is_leader", lambda: True)
    stopping, tries = threading.Event(), []

    def work() -> None:
        tries.append(1)
        if len(tries) > 2:
            stopping.set()
        raise OSError("the disk is gone")

    sweeper.serve(0.01, 0.5, stopping, [Chore(0.0, work)])
    assert len(tries) == 3
