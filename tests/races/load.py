"""The soak's runtimes: threads that submit one step after another over HTTP, and again where they were told nothing.

A step that is sent again is the same step: nothing may come of it twice. Numbers are handed out once.
"""

import http.client
import json
import threading
import time
from collections import Counter, defaultdict
from typing import Any, Final

from tests.factories import make_tenancy
from tests.races.crew import ROW
from tests.races.ground import Ground
from tests.races.tools import CLASSES, tool_name
from tests.races.verdict import Found, faults
from toolsys import provisioning

PATIENCE_SECONDS: Final = 180.0
PAUSE_SECONDS: Final = 0.25
WAIT_SECONDS: Final = 5
KINDS: Final = tuple(CLASSES)


class NotAccepted(Exception):
    """A step was refused, or nobody answered for too long."""


class Load:
    """Submits `calls` steps of one call each through `clients` threads, each with a run of its own."""

    def __init__(self, port: int, calls: int, clients: int) -> None:
        tenancy = make_tenancy("soak")
        self.tenant = tenancy.id
        self.port, self.calls = port, calls
        self.accepted: dict[str, str] = {}
        self.twice: list[int] = []
        self.refused: list[str] = []
        self.repeats = 0
        self._key = provisioning.create_api_key(tenancy.id, "soak", [])[1]
        self._numbers = iter(range(calls))
        self._limit = 0
        self._given = 0
        self._lock = threading.Condition()
        self._threads = [threading.Thread(target=self._serve, daemon=True) for _ in range(clients)]

    def begin(self, count: int) -> None:
        """Submit the first `count`, then pause."""
        self._limit = count
        for thread in self._threads:
            thread.start()

    def wait_until_submitted(self) -> None:
        end = time.monotonic() + PATIENCE_SECONDS
        while self.done() < self._limit and time.monotonic() < end:
            time.sleep(0.1)

    def go_on(self) -> None:
        with self._lock:
            self._limit = self.calls
            self._lock.notify_all()

    def is_busy(self) -> bool:
        return any(thread.is_alive() for thread in self._threads)

    def done(self) -> int:
        with self._lock:
            return len(self.accepted) + len(self.refused)

    def _next(self) -> int | None:
        with self._lock:
            self._lock.wait_for(lambda: self._given < self._limit or self._limit == self.calls)
            self._given += 1
            return next(self._numbers, None)

    def _serve(self) -> None:
        client = Client(self)
        while (number := self._next()) is not None:
            kind = KINDS[number % len(KINDS)]
            try:
                invocation = client.submit(kind, number)
            except NotAccepted as error:
                with self._lock:
                    self.refused.append(f"{number}: {error}")
                continue
            with self._lock:
                self.accepted[invocation] = kind

    def send(self, method: str, path: str, body: Any) -> tuple[int, Any]:
        """Raises: OSError, HTTPException, ValueError where no whole answer came."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            headers = {"Authorization": f"Bearer {self._key}", "Content-Type": "application/json",
                       "Prefer": f"wait={WAIT_SECONDS}"}  # fmt: skip
            connection.request(method, path, json.dumps(body), headers)
            answer = connection.getresponse()
            return answer.status, json.loads(answer.read())
        finally:
            connection.close()

    def send_until_answered(self, method: str, path: str, body: Any) -> tuple[int, Any]:
        """Send again while nobody answers, or the answer asks for it. Raises: NotAccepted."""
        end, last = time.monotonic() + PATIENCE_SECONDS, ""
        while time.monotonic() < end:
            try:
                status, found = self.send(method, path, body)
            except (OSError, http.client.HTTPException, ValueError) as error:
                last = type(error).__name__
            else:
                if status < 500:
                    return status, found
                last = str(found)
            with self._lock:
                self.repeats += 1
            time.sleep(PAUSE_SECONDS)
        raise NotAccepted(last)


class Client:
    """One runtime: a session, a run, and its steps in order. A run that was failed is left for a new one."""

    def __init__(self, load: Load) -> None:
        self._load = load
        self._run = ""
        self._step = 0

    def submit(self, kind: str, number: int) -> str:
        """Return the invocation's id. Raises: NotAccepted."""
        seconds = number * 7_919 % 200 / 100  # up to two: at every moment some are running
        call = {"call_id": "a", "name": tool_name(kind), "arguments": {"text": f"{number}", "seconds": seconds}}
        for _ in range(3):
            if not self._run:
                self._open()
            self._step += 1
            body = {"step_number": self._step, "calls": [call]}
            status, found = self._load.send_until_answered("POST", f"/v1/runs/{self._run}/steps", body)
            if status in {200, 202}:
                return str(found["calls"][0]["invocation_id"])
            if found.get("code") != "run.not_open":
                break
            self._run = ""
        raise NotAccepted(str(found))

    def _open(self) -> None:
        asked = {"agent": "assistant", "principal": "user-1"}
        session = self._load.send_until_answered("POST", "/v1/sessions", asked)[1]
        run = self._load.send_until_answered("POST", f"/v1/sessions/{session['id']}/runs", {})[1]
        self._run, self._step = run["id"], 0


def found_calls(ground: Ground, load: Load) -> dict[str, Any]:
    """Judge every row of the tenant, and compare rows with submissions."""
    names = ", ".join(("id", "tool_name", *ROW))
    rows = ground.ask(f"SELECT {names} FROM tool_invocations WHERE tenant_id = %s", load.tenant)
    events: dict[str, list[str]] = defaultdict(list)
    told = "SELECT invocation_id, type FROM tool_events WHERE tenant_id = %s ORDER BY id"
    for call, kind in ground.ask(told, load.tenant):
        events[str(call)].append(kind)
    lines: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for line in ground.world.lines():
        lines[line["call"]].append(line)
    ends: Counter[str] = Counter()
    broken: dict[str, list[str]] = {}
    for identifier, tool, *values in rows:
        call, kind = str(identifier), str(tool).removeprefix("demo.race_")
        row = dict(zip(ROW, values, strict=True))
        ends[f"{kind} {row['status']}"] += 1
        if found := faults(Found(kind, row, lines[call], events[call])):
            broken[call] = found
    known = {str(row[0]) for row in rows}
    lost = sum("lost" in fault for found in broken.values() for fault in found) + len(load.accepted.keys() - known)
    doubled = sum("doubled" in fault for found in broken.values() for fault in found)
    others = [f"{call}: {fault}" for call, found in broken.items() for fault in found
              if not fault.startswith(("lost", "doubled"))]  # fmt: skip
    return {
        "lost": lost, "doubled": doubled, "other_faults": others, "ends": dict(sorted(ends.items())),
        "sends": sum(map(len, lines.values())), "claims": sum(row[3] for row in rows),
        "rows_beyond_submissions": len(known - load.accepted.keys()), "not_accepted": len(load.refused),
        "refusals": load.refused[:20],
    }  # fmt: skip
