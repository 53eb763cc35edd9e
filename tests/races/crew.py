"""Two workers and a scheduler on a ground of their own, and what one call of theirs has come to."""

import json
import signal
from collections.abc import Callable
from typing import Any, Final

from django.db import connections

from tests.factories import Tenancy, make_tenancy
from tests.races import verdict
from tests.races.ground import Ground, until
from tests.races.tools import tool_name
from tests.races.verdict import TERMINAL, Found
from toolsys import queue
from toolsys.domain.calls import Disposition

ROW: Final = (
    "status", "claim_epoch", "claimed_by", "effect_sent_at", "reason_code", "completed_at", "attempt_number",
)  # fmt: skip


class Crew:
    WORKERS: Final = 2

    def __init__(self, ground: Ground) -> None:
        self.ground = ground
        self.workers: list[int] = []
        self.scheduler = 0
        self.exits = 0

    def ready(self) -> None:
        """Have everybody alive and every gate open."""
        self.ground.find_queue()
        self._open_all()
        living = [pid for pid in self.workers if self.ground.is_running(pid)]
        self.exits += len(self.workers) - len(living)
        self.workers = living + [self.ground.spawn("worker") for _ in range(self.WORKERS - len(living))]
        if not self.scheduler or not self.ground.is_running(self.scheduler):
            self.scheduler = self.ground.spawn("scheduler")
        if len(living) < self.WORKERS:
            self.wait_for_service(self.WORKERS)

    def wait_for_service(self, workers: int) -> None:
        """Each new worker has imported everything when it waits for bells."""
        connection = queue.call_queue().connection
        until(lambda: sum(each["cmd"] == "blpop" for each in connection.client_list()) >= workers, "workers")

    def leave(self) -> None:
        for pid in self.workers:
            if self.ground.is_running(pid):
                self.ground.signal(pid, signal.SIGCONT)
        self._open_all()
        connections.close_all()

    def _open_all(self) -> None:
        for gate in self.ground.gates.iterdir():
            gate.unlink()

    def living(self) -> list[bool]:
        return [self.ground.is_running(pid) for pid in self.workers]

    def deaf(self, deed: Callable[[], Any]) -> Any:
        """Do it while no worker listens: they are stopped, and the queue has forgotten that they waited."""
        for pid in self.workers:
            self.ground.signal(pid, signal.SIGSTOP)
        connection = queue.call_queue().connection
        for client in connection.client_list():
            if client["cmd"] == "blpop":
                connection.client_kill_filter(_id=client["id"])
        try:
            return deed()
        finally:
            for pid in self.workers:
                self.ground.signal(pid, signal.SIGCONT)

    # -- calls

    def tenancy(self) -> Tenancy:
        return make_tenancy("race")

    def propose(self, tenancy: Tenancy, kind: str, **arguments: Any) -> Disposition:
        (found,) = tenancy.propose((tool_name(kind), {"text": "x", **arguments}))
        return found

    def row(self, call: Disposition) -> dict[str, Any]:
        found = self.ground.ask(
            f"SELECT {', '.join(ROW)} FROM tool_invocations WHERE id = %s", call.invocation_id
        )  # fmt: skip
        return dict(zip(ROW, found[0], strict=True))

    def is_terminal(self, call: Disposition) -> bool:
        return self.row(call)["status"] in TERMINAL

    def ended(self, call: Disposition) -> dict[str, Any]:
        until(lambda: self.is_terminal(call), f"the end of {call.invocation_id}: {self.row(call)}")
        return self.row(call)

    def sends(self, call: Disposition) -> list[int]:
        """Who wrote a line for this call, in order."""
        return [line["pid"] for line in self.ground.world.of(call.invocation_id)]

    def jobs(self, call: Disposition, state: str) -> list[int]:
        """Who has popped, or done, a job for this call."""
        return self._told(state, str(call.invocation_id))

    def is_draining(self, worker: int) -> bool:
        return worker in self._told("draining", "")

    def _told(self, state: str, call: str) -> list[int]:
        if not self.ground.jobs.exists():
            return []
        lines = map(json.loads, self.ground.jobs.read_text().splitlines())
        return [line["pid"] for line in lines if (line["call"], line["state"]) == (call, state)]

    def events(self, call: Disposition) -> list[str]:
        found = self.ground.ask(
            "SELECT type FROM tool_events WHERE invocation_id = %s ORDER BY id", call.invocation_id
        )  # fmt: skip
        return [row[0] for row in found]

    def faults(self, call: Disposition, kind: str) -> list[str]:
        """What is wrong with a call that should have ended, whatever happened on the way."""
        lines = self.ground.world.of(call.invocation_id)
        return verdict.faults(Found(kind, self.row(call), lines, self.events(call)))
