"""`make crash`: play the matrix on servers of its own, remember what is done, end with `N passed, N failed`.

PostgreSQL runs with durable commits. Finished cells are remembered by commit id and seed, so that an interrupted run
goes on where it was; `--fresh` forgets. TOOLSYS_CRASH_SCALE stretches lease and sweep on a busy machine.
"""

import argparse
import hashlib
import json
import os
import queue
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any, Final

from tests.crash import invariants, selection
from tests.crash.cell import Cell, Play, Result
from tests.crash.lane import Lane, Stopped
from tests.crash.stack import ROOT, Timing, lanes, migrated
from tests.integration.processes import be_interrupted

FOLDER: Final = ROOT / ".data" / "crash"
LEASE_SECONDS, SWEEP_SECONDS = 1.0, 0.5
LANES: Final = 6
TRIES: Final = 3
EVERY: Final = 20
SELECTIONS: Final = {"full": selection.full, "pairwise": selection.pairwise}
WATCHED: Final = ("toolsys", "approvals", "mcpcatalog", "config", "tests/crash")
SECRETS: Final = {
    "SECRET_KEY": "for-the-crash-matrix-" + "0" * 40,
    "MASTER_ENCRYPTION_KEY": "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=",
    "DJANGO_SETTINGS_MODULE": "config.settings",
}


class Memory:
    """The finished cells of this commit and seed, one JSON line each."""

    def __init__(self, path: Path, commit: str, seed: int, *, fresh: bool) -> None:
        self._key = {"commit": commit, "seed": seed}
        self._path = path
        self._lock = threading.Lock()
        self.results: dict[str, dict[str, Any]] = {}
        if fresh:
            path.unlink(missing_ok=True)
        if path.exists():
            lines = [json.loads(line) for line in path.read_text().splitlines()]
            self.results = {line["cell"]: line for line in lines if line.items() >= self._key.items()}

    def keep(self, result: Result, tries: int) -> None:
        line = self._key | result.as_line() | {"tries": tries}
        with self._lock:
            self.results[result.cell] = line
            with self._path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")


class Matrix:
    """Lanes that take cells from one list until it is empty or the time is up."""

    def __init__(self, cells: list[Cell], memory: Memory, ends: float) -> None:
        self._names = {cell.name for cell in cells}
        self._memory = memory
        self._ends = ends
        self._left: queue.SimpleQueue[Cell] = queue.SimpleQueue()
        for cell in cells:
            if cell.name not in memory.results:
                self._left.put(cell)
        self._begun = time.monotonic()
        self.late: list[str] = []
        self._lock = threading.Lock()

    def results(self) -> list[dict[str, Any]]:
        return [line for name, line in self._memory.results.items() if name in self._names]

    def left(self) -> int:
        return len(self._names) - len(self.results())

    def run(self, opened: list[Lane]) -> None:
        threads = [threading.Thread(target=self._serve, args=(lane,), name=lane.name) for lane in opened]
        for thread in threads:
            thread.start()
        try:
            for thread in threads:
                thread.join()
        except KeyboardInterrupt:
            print("stopped: the cells in hand will be played again", flush=True)
            self._ends = time.monotonic()
            for lane in opened:
                lane.stop()
            for thread in threads:
                thread.join()

    def _serve(self, lane: Lane) -> None:
        while time.monotonic() < self._ends:
            try:
                cell = self._left.get_nowait()
            except queue.Empty:
                break
            try:
                tries, result = 1, Play(cell, lane).run()
                while result.is_disturbed and tries < TRIES:
                    tries, result = tries + 1, Play(cell, lane).run()
            except Stopped:
                return
            self._memory.keep(result, tries)
            self._say(result)
        late = invariants.afterwards(lane)
        with self._lock:
            self.late += late

    def _say(self, result: Result) -> None:
        with self._lock:
            for fault in result.faults:
                print(f"FAILED {result.cell}: {fault}", flush=True)
            done = len(self.results())
            if done % EVERY == 0 or done == len(self._names):
                failed = sum(bool(line["faults"]) for line in self.results())
                seconds = time.monotonic() - self._begun
                print(f"{done:5d} of {len(self._names)} cells, {failed} failed, {seconds:.0f} s", flush=True)


def commit_id() -> str:
    """Name what is tested: the commit and a digest of what differs from it; without git, a digest of the sources."""
    try:
        found = _git("rev-parse", "--short=12", "HEAD").strip()
        change = _git("diff", "HEAD", "--", *WATCHED).encode()
        new = _git("ls-files", "--others", "--exclude-standard", "--", *WATCHED).splitlines()
    except (OSError, subprocess.CalledProcessError):
        files = sorted(path for folder in WATCHED for path in (ROOT / folder).rglob("*.py"))
        return "sources-" + _digest(b"".join(path.read_bytes() for path in files))
    change += b"".join(name.encode() + (ROOT / name).read_bytes() for name in new)
    return found + (f"+{_digest(change)}" if change else "")


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:8]


def _git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=ROOT, check=True, capture_output=True, text=True).stdout


def timing() -> Timing:
    scale = float(os.environ.get("TOOLSYS_CRASH_SCALE", "1"))
    return Timing(LEASE_SECONDS * scale, SWEEP_SECONDS * scale)


def schema_files() -> list[Path]:
    return sorted([*ROOT.glob("*/migrations/*.py"), *ROOT.glob("*/sql/*.sql"), ROOT / "toolsys/rowsecurity.py"])


def play(matrix: Matrix, count: int) -> None:
    """Start the servers and the lanes, and run."""
    from config import embedded

    be_interrupted()
    shutil.rmtree(FOLDER / "files", ignore_errors=True)
    servers = embedded.start(FOLDER / "servers", durable=True)
    try:
        environment = {**os.environ, **servers.environment(), **SECRETS, "TOOLSYS_DATA_DIR": str(FOLDER / "files")}
        template = migrated(environment, "crash", schema_files())
        with lanes(FOLDER / "lanes", template, count, environment, timing()) as opened:
            matrix.run(opened)
    finally:
        servers.stop()


def summary(matrix: Matrix, options: argparse.Namespace, commit: str) -> dict[str, Any]:
    """Return what the report is written from."""
    used = timing()
    return {
        "commit": commit, "seed": options.seed, "selection": options.selection, "left": matrix.left(),
        "lease_seconds": used.lease_seconds, "sweep_seconds": used.sweep_seconds, "lanes": options.lanes,
        "late": matrix.late,
        "cells": sorted(matrix.results(), key=lambda line: line["cell"]),
    }  # fmt: skip


def parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make crash", description=__doc__)
    parser.add_argument("--selection", choices=SELECTIONS, default="full")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--lanes", type=int, choices=range(1, 14), default=LANES)
    parser.add_argument("--sample", action="store_true", help="what is left when the time is over is no failure")
    parser.add_argument("--minutes", type=float, default=44.0, help="begin no cell after this time")
    parser.add_argument("--only", default="", help="cells whose name holds this; always played")
    parser.add_argument("--fresh", action="store_true", help="forget what was played before")
    return parser.parse_args(arguments)


def main(arguments: list[str]) -> int:
    """Return 0 where every cell passed."""
    options = parse(arguments)
    FOLDER.mkdir(parents=True, exist_ok=True)
    commit = commit_id()
    cells = [cell for cell in SELECTIONS[options.selection](options.seed) if options.only in cell.name]
    memory = Memory(FOLDER / "cells.jsonl", commit, options.seed, fresh=options.fresh)
    if options.only:
        memory.results = {}
    matrix = Matrix(cells, memory, time.monotonic() + options.minutes * 60)
    print(f"{commit}, seed {options.seed}, {len(cells)} cells, {matrix.left()} to play", flush=True)
    if matrix.left():
        play(matrix, options.lanes)
    if not options.only:
        found = summary(matrix, options, commit)
        (FOLDER / f"summary-{options.selection}.json").write_text(json.dumps(found, indent=1) + "\n")
    for late in matrix.late:
        print(f"FAILED afterwards: {late}")
    if matrix.left():
        print(f"{matrix.left()} cells are left: the same command goes on with them")
    passed = sum(not line["faults"] for line in matrix.results())
    failed = len(matrix.results()) - passed + len(matrix.late)
    print(f"{passed} passed, {failed} failed")
    is_unfinished = matrix.left() > 0 and not (options.sample and matrix.left() < len(cells))
    return 1 if failed or is_unfinished or not cells else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
