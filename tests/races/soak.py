"""`make soak`: calls of all four classes over HTTP while workers are killed, Valkey is cut and PostgreSQL restarted.

Every 5 to 40 s, by a seed. At the end all is quiet, and each call is judged: none lost, none doubled, one row for each
submission, and web and workers hold as many open files as at the start (within 5). Writes `.data/soak/summary.json`.
"""

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from config.databases import POOL_MAXIMUM
from config.supervisor import stop_signals

if TYPE_CHECKING:
    from tests.races.ground import Ground

ROOT: Final = Path(__file__).resolve().parent.parent.parent
FOLDER: Final = ROOT / ".data" / "soak"
# Settings are read before there are servers; the ground points this process at its own.
ENVIRONMENT: Final = {
    "DATABASE_URL": "postgres://toolsys_app@/toolsys?host=/nowhere",
    "DATABASE_OPERATOR_URL": "postgres://toolsys_operator@/toolsys?host=/nowhere",
    "DATABASE_OWNER_URL": "postgres://toolsys_owner@/toolsys?host=/nowhere",
    "REDIS_URL": "unix:///nowhere", "SECRET_KEY": "for-the-soak-only-" + "0" * 40, "TOOLSYS_PLAIN_HTTP": "1",
    "MASTER_ENCRYPTION_KEY": "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=", "TOOLSYS_DEMO": "1",
    "DJANGO_SETTINGS_MODULE": "config.settings", "LOG_LEVEL": "WARNING",
}  # fmt: skip
KINDS: Final = ("read", "repeatable", "keyed", "once")
LEASE_SECONDS, SWEEP_SECONDS = 2.0, 0.5
WORKERS, CLIENTS = 2, 12
WARM_UP: Final = 60  # until every thread has had its connections
QUIET_SECONDS: Final = 300.0
FILES_TOLERATED: Final = 5
DISTURBANCES: Final = (
    "worker killed", "worker killed", "Valkey cut", "Valkey flushed", "PostgreSQL stopped fast",
    "PostgreSQL stopped immediately",
)  # fmt: skip


class Scene:
    """Web, workers and scheduler on a ground of their own. Everything here belongs to the main thread."""

    def __init__(self, ground: "Ground", seed: int) -> None:
        from tests.bench.calls import free_port
        from tests.races.ground import until

        self.random = random.Random(seed)
        self.ground = ground
        self.port = free_port()
        self.disturbances: Counter[str] = Counter()
        argv = (
            *("--interface", "wsgi", "--host", "127.0.0.1", "--port", str(self.port), "--workers", "1"),
            *("--blocking-threads", "16", "--no-ws", "--log-level", "error", "tests.races.site:application"),
        )
        self.web = self.ground.run([sys.executable, "-m", "granian", *argv], "web")
        self.workers = [self.ground.spawn("worker") for _ in range(WORKERS)]
        self.scheduler = self.ground.spawn("scheduler")
        self.ends = 0
        until(lambda: _listens(self.port), "the web process listens")

    def disturb(self) -> str:
        """Take something away and bring it back; return what it was."""
        what = self.random.choice(DISTURBANCES)
        self.disturbances[what] += 1
        away = self.random.uniform(0.0, 2.0)
        if what == "worker killed":
            self.ground.kill(self.workers.pop(self.random.randrange(len(self.workers))))
            self.workers.append(self.ground.spawn("worker"))
        elif what == "Valkey flushed":
            self.ground.lose_queue("flushed")
        elif what == "Valkey cut":
            self.ground.lose_queue("killed")
            time.sleep(away)
            self.ground.find_queue()
        else:
            self.ground.stop_postgres("fast" if what.endswith("fast") else "immediate")
            time.sleep(away)
            self.ground.start_postgres()
        return what

    def tend(self) -> None:
        """Start again whoever has ended by himself, and count it: nobody should."""
        for pid in [each for each in self.workers if not self.ground.is_running(each)]:
            self.ends += 1
            self.workers.remove(pid)
            self.workers.append(self.ground.spawn("worker"))
        if not self.ground.is_running(self.scheduler):
            self.ends += 1
            self.scheduler = self.ground.spawn("scheduler")

    def open_files(self) -> dict[str, int]:
        """How many files the web processes, and the worker that has most, hold open beside their pools of sessions.

        A pool grows to its bound when its server comes back, and shrinks after ten idle minutes: that is no leak.
        """
        web = sum(map(_files, [self.web, *_children(self.web)])) - self.ground.sessions(self.web)
        return {"web": web, "worker": max(_files(pid) - self.ground.sessions(pid) for pid in self.workers)}

    def sessions(self) -> int:
        """The largest pool of one process."""
        return max(map(self.ground.sessions, [self.web, *self.workers]))


def _listens(port: int) -> bool:
    import socket

    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _children(pid: int) -> list[int]:
    return [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def _files(pid: int) -> int:
    return len(os.listdir(f"/proc/{pid}/fd"))  # noqa: PTH208 - counted, not read


def play(scene: Scene, calls: int) -> dict[str, Any]:
    """Submit everything while disturbing; return what there is to say about it."""
    from tests.races.load import Load

    load = Load(scene.port, calls, CLIENTS)
    load.begin(min(WARM_UP, calls // 4))
    load.wait_until_submitted()
    time.sleep(2 * LEASE_SECONDS)
    before, begun = scene.open_files(), time.monotonic()
    load.go_on()
    due = time.monotonic() + scene.random.uniform(5, 40)
    said = time.monotonic()
    while load.is_busy():
        time.sleep(0.25)
        scene.tend()
        if time.monotonic() >= due:
            what, due = scene.disturb(), time.monotonic() + scene.random.uniform(5, 40)
            print(f"{time.monotonic() - begun:6.0f} s  {load.done():5d} of {calls} submitted  {what}", flush=True)
        elif time.monotonic() - said > 30:
            said = time.monotonic()
            print(f"{time.monotonic() - begun:6.0f} s  {load.done():5d} of {calls} submitted", flush=True)
    return judged(scene, load, before, time.monotonic() - begun)


def judged(scene: Scene, load: Any, before: dict[str, int], seconds: float) -> dict[str, Any]:
    from tests.races.ground import until
    from tests.races.load import found_calls

    left = "SELECT count(*) FROM tool_invocations WHERE tenant_id = %s AND completed_at IS NULL"
    quiet = time.monotonic()
    try:
        until(lambda: scene.ground.ask(left, load.tenant) == [(0,)], "the end of every call", QUIET_SECONDS)
    except AssertionError:
        print("some calls have not ended", flush=True)
    quiet = time.monotonic() - quiet
    time.sleep(2 * LEASE_SECONDS)
    after, sessions = scene.open_files(), scene.sessions()
    found = found_calls(scene.ground, load)
    return {
        "calls": len(load.accepted), "seconds": round(seconds), "seconds_to_quiet": round(quiet, 1),
        "disturbances": dict(scene.disturbances), "processes_that_ended_by_themselves": scene.ends,
        "requests_repeated": load.repeats, "open_files_at_start": before, "open_files_at_end": after,
        "sessions_of_one_process": sessions, **found,
        "files_leaked": any(abs(after[name] - before[name]) > FILES_TOLERATED for name in before),
    }  # fmt: skip


def faults(summary: dict[str, Any]) -> list[str]:
    """What the summary says that it should not."""
    wanted = {"lost": 0, "doubled": 0, "other_faults": [], "rows_beyond_submissions": 0, "files_leaked": False,
              "processes_that_ended_by_themselves": 0, "not_accepted": 0}  # fmt: skip
    found = [f"{name}: {summary[name]}" for name, value in wanted.items() if summary[name] != value]
    pool = summary["sessions_of_one_process"]
    return found + ([f"sessions_of_one_process: {pool}"] if pool > POOL_MAXIMUM else [])


@contextmanager
def on_ground() -> Iterator["Ground"]:
    """Have servers of its own, and end every process on them, however this one is told to stop."""
    from tests.integration.processes import be_interrupted
    from tests.races.ground import Ground

    be_interrupted()
    ground = Ground(LEASE_SECONDS, SWEEP_SECONDS, folder=FOLDER)
    try:
        yield ground
    finally:
        for number in stop_signals():
            signal.signal(number, signal.SIG_IGN)  # a second one must not leave the rest
        ground.close()


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="make soak", description=__doc__)
    parser.add_argument("--calls", type=int, default=5_000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args(arguments)
    os.environ.update(ENVIRONMENT)
    import django

    django.setup()
    from tests.races import actor

    os.environ.setdefault(actor.EFFECTS, os.devnull)
    actor.install()
    with on_ground() as ground:
        summary = play(Scene(ground, options.seed), options.calls)
    commit = subprocess.run(["git", "describe", "--always", "--dirty"], cwd=ROOT, capture_output=True, text=True)
    summary = {"commit": commit.stdout.strip(), "seed": options.seed, "lease_seconds": LEASE_SECONDS, **summary}
    FOLDER.mkdir(parents=True, exist_ok=True)
    (FOLDER / "summary.json").write_text(json.dumps(summary, indent=1) + "\n")
    print(json.dumps(summary, indent=1), flush=True)
    wrong = faults(summary)
    for each in wrong:
        print(f"FAILED {each}")
    failed = summary["lost"] + summary["doubled"] + len(summary["other_faults"]) + summary["not_accepted"]
    failed = max(failed, len(wrong))
    print(f"{max(summary['calls'] - failed, 0)} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(130)
