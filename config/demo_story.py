"""The demonstration: eight things that a governed tool call must do, played against what `make up` runs.

Each scene acts over HTTP as an agent runtime would, prints the curl line that does the same, and asserts. A failed
assertion is `StoryFailed` with one line that says what was expected. Run by `manage.py demo`.
"""

import json
import os
import signal
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import UUID

from approvals import services as approvals
from config.demo_seed import AGENT, PRINCIPAL, Actor
from toolsys.composition import composed
from toolsys.models import ApprovalRequest
from toolsys.tenancy import tenant_transaction

TOOL = "demo.external_write"
GATE = "before_watermark"
# How far behind the moment itself the last look may be.
POLL_SECONDS = 0.5


class StoryFailed(Exception):
    """A scene did not end as it must."""


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    body: Any
    headers: dict[str, str]

    @property
    def call(self) -> dict[str, Any]:
        found: dict[str, Any] = self.body["calls"][0]
        return found


@dataclass(slots=True)
class Stage:
    """Where the story plays: the running system's address, its folders, and the two tenants' keys."""

    base_url: str
    effects_url: str
    probe_folder: Path
    acme: Actor
    globex: Actor
    say: Callable[[str], None]
    lease_seconds: float
    sweep_seconds: float
    run_id: str = ""
    number: int = 0
    step: int = 0
    marks: dict[str, Any] = field(default_factory=dict)

    def scene(self, title: str) -> None:
        self.number += 1
        self.say(f"\n({self.number}) {title}")

    def expect(self, holds: bool, what: str) -> None:
        if not holds:
            raise StoryFailed(what)
        self.say(f"    ok   {what}")

    def request(self, method: str, path: str, body: Any = None, *, key: str = "", show: bool = True) -> Answer:
        token = key or self.acme.api_key
        if show:
            self.say(f"    {curl(method, self.base_url + path, token, body)}")
        sent = urllib.request.Request(self.base_url + path, method=method)
        sent.add_header("Authorization", f"Bearer {token}")
        if body is not None:
            sent.data = json.dumps(body).encode()
            sent.add_header("Content-Type", "application/json")
        sent.add_header("Prefer", "wait=20")
        try:
            with urllib.request.urlopen(sent, timeout=40) as answer:
                return Answer(answer.status, json.loads(answer.read()), dict(answer.headers))
        except urllib.error.HTTPError as error:
            return Answer(error.code, json.loads(error.read() or b"null"), dict(error.headers))

    def propose(self, name: str, arguments: dict[str, Any], *, step: int | None = None) -> Answer:
        if step is None:
            self.step += 1
            step = self.step
        call = {"call_id": f"call_{step}", "name": name, "arguments": arguments}
        return self.request("POST", f"/v1/runs/{self.run_id}/steps", {"step_number": step, "calls": [call]})

    def effects(self, line: str) -> int:
        """Return how often the world outside has felt this line."""
        with urllib.request.urlopen(self.effects_url, timeout=10) as answer:
            return sum(1 for effect in json.loads(answer.read())["lines"] if effect["line"] == line)

    def until(self, what: str, seconds: float, holds: Callable[[], bool]) -> None:
        end = time.monotonic() + seconds
        while not holds():
            if time.monotonic() > end:
                raise StoryFailed(f"{what} within {seconds:.0f} s")
            time.sleep(0.1)

    def digest_of(self, answer: Answer) -> str:
        """Return what the decision page shows an approver, and what they send back."""
        with tenant_transaction(self.acme.tenant_id):
            return ApprovalRequest.objects.get(pk=answer.call["approval_id"]).digest

    def approve(self, answer: Answer) -> None:
        approvals.decide(
            tenant_id=self.acme.tenant_id, request_id=UUID(answer.call["approval_id"]), user=self.acme.approver,
            is_approval=True, note="approved in the demonstration", digest=self.digest_of(answer),
            is_reauthenticated=True, sealer=composed().runtime.sealer,
        )  # fmt: skip


def curl(method: str, url: str, key: str, body: Any) -> str:
    parts = ["curl -sS", f"-H 'Authorization: Bearer {key}'"]
    if method != "GET":
        parts.append(f"-X {method}")
    if body is not None:
        text = json.dumps(body, ensure_ascii=False).replace("'", "'\\''")
        parts += ["-H 'Content-Type: application/json'", f"-d '{text}'"]
    return " ".join([*parts, f"'{url}'"])


def play(stage: Stage) -> None:
    """Play all scenes in order. Raises: StoryFailed."""
    open_run(stage)
    for scene in (read_over_stdio, read_over_http, ask_by_contract, hold_a_write, approve_the_write, submit_it_again,
                  kill_the_worker, look_from_outside):  # fmt: skip
        scene(stage)
    stage.say(f"\n{stage.number} passed, 0 failed")


def open_run(stage: Stage) -> None:
    session = stage.request("POST", "/v1/sessions", {"agent": AGENT, "principal": PRINCIPAL})
    if session.status != 201:
        raise StoryFailed(f"opening a session answered {session.status}: {session.body}")
    names = sorted(tool["name"] for tool in session.body["tools"])
    stage.say(f"    pinned {len(names)} tools: {', '.join(names[:6])}, …")
    run = stage.request("POST", f"/v1/sessions/{session.body['id']}/runs", {})
    stage.run_id = run.body["id"]
    stage.marks["names"] = names


def read_over_stdio(stage: Stage) -> None:
    stage.scene("A read through a real MCP server over stdio answers at once")
    answer = stage.propose("mcp.time.get_current_time", {"timezone": "Europe/Berlin"})
    stage.expect(answer.status == 200 and answer.call["outcome"]["status"] == "succeeded", "mcp.time answered")
    stage.expect("Europe/Berlin" in json.dumps(answer.call["content"]), "the answer names the zone that was asked for")


def read_over_http(stage: Stage) -> None:
    stage.scene("A tool of a real MCP server over Streamable HTTP answers")
    book = f"demo-{int(time.time() * 1000)}.xlsx"
    answer = stage.propose("mcp.excel.create_workbook", {"path": book, "sheets": ["Plan"]})
    stage.expect(answer.status == 200 and answer.call["outcome"]["status"] == "succeeded", "mcp.excel made a workbook")


def ask_by_contract(stage: Stage) -> None:
    stage.scene("A server of ours is asked through the contract that is declared here, and through nothing else")
    answer = stage.propose("mcp.docs.docs_search", {"query": "docs server", "limit": 1})
    stage.expect(answer.status == 200 and answer.call["outcome"]["status"] == "succeeded", "mcp.docs found something")
    wrong = stage.propose("mcp.docs.docs_search", {"query": "x", "endpoint": "http://127.0.0.1/"})
    stage.expect(wrong.call["outcome"]["reason_code"] == "tool.arguments_invalid", "another argument goes nowhere")


def hold_a_write(stage: Stage) -> None:
    stage.scene("A write waits for a person")
    line = stage.marks["line"] = f"invoice {int(time.time() * 1000)} paid"
    answer = stage.propose(TOOL, {"line": line})
    stage.expect(answer.status == 202 and answer.call["status"] == "waiting_for_approval", "the call is held")
    stage.expect(stage.effects(line) == 0, "nothing was sent")
    stage.marks["held"] = answer


def approve_the_write(stage: Stage) -> None:
    stage.scene("It is approved through the service that the console uses, and the outcome arrives")
    held: Answer = stage.marks["held"]
    stage.say(f"    open {stage.base_url}/admin/ as {stage.acme.approver_login} to decide one yourself")
    stage.approve(held)
    answer = stage.request("GET", f"/v1/invocations/{held.call['invocation_id']}")
    stage.expect(answer.body["outcome"]["status"] == "succeeded", "the write succeeded")
    stage.expect(stage.effects(stage.marks["line"]) == 1, "the effect log has its line once")


def submit_it_again(stage: Stage) -> None:
    stage.scene("The same submission again gives the same outcome and no second effect")
    held: Answer = stage.marks["held"]
    answer = stage.propose(TOOL, {"line": stage.marks["line"]}, step=stage.step)
    stage.expect(answer.call["invocation_id"] == held.call["invocation_id"], "it is the same invocation")
    stage.expect(
        answer.call["is_replay"] and answer.call["outcome"]["status"] == "succeeded", "its outcome is replayed"
    )
    stage.expect(stage.effects(stage.marks["line"]) == 1, "the effect log still has one line")


def kill_the_worker(stage: Stage) -> None:
    """One SIGKILL hits two calls: one past its watermark, one just before."""
    stage.scene("The worker is killed in the middle of two writes")
    past, before = (f"{name} {int(time.time() * 1000)}" for name in ("past the watermark", "before the watermark"))
    sent = stage.propose(TOOL, {"line": past, "hold": True})
    waiting = stage.propose(TOOL, {"line": before})
    stage.approve(sent)
    stage.until("the first write reaches the world", 20, lambda: stage.effects(past) == 1)
    gate, mark = stage.probe_folder / GATE, stage.probe_folder / f"{GATE}.pid"
    mark.unlink(missing_ok=True)
    gate.write_text(TOOL)
    try:
        stage.approve(waiting)
        stage.until("the second write stands before its watermark", 20, mark.exists)
        os.kill(int(mark.read_text()), signal.SIGKILL)
        killed = time.monotonic()
        stage.say(f"    kill -9 {mark.read_text()}")
    finally:
        gate.unlink()
        _release(stage)
    bound = stage.lease_seconds + 2 * stage.sweep_seconds
    first = _settled(stage, sent, bound + 15)
    stage.expect(
        time.monotonic() - killed <= bound + POLL_SECONDS, f"settled within lease and two sweeps ({bound:.0f} s)"
    )
    stage.expect(first["outcome"]["status"] == "uncertain", "past the watermark: uncertain, for a person to resolve")
    second = _settled(stage, waiting, bound + 15)
    stage.expect(second["outcome"]["status"] == "succeeded", "before the watermark: executed again, and it succeeded")
    stage.expect((stage.effects(past), stage.effects(before)) == (1, 1), "each line is in the effect log once")


def look_from_outside(stage: Stage) -> None:
    stage.scene("The second tenant sees none of it")
    key = stage.globex.api_key
    held: Answer = stage.marks["held"]
    for path in (f"/v1/runs/{stage.run_id}", f"/v1/invocations/{held.call['invocation_id']}"):
        answer = stage.request("GET", path, key=key)
        stage.expect((answer.status, answer.body["code"]) == (404, "request.not_found"), f"{path.split('/')[2]}: 404")


def _settled(stage: Stage, proposed: Answer, seconds: float) -> dict[str, Any]:
    found: dict[str, Any] = {}

    def is_terminal() -> bool:
        path = f"/v1/invocations/{proposed.call['invocation_id']}"
        found.update(stage.request("GET", path, show=False).body)
        return found.get("outcome") is not None

    stage.until("the call of the killed worker is settled", seconds, is_terminal)
    return found


def _release(stage: Stage) -> None:
    request = urllib.request.Request(f"{stage.effects_url.rstrip('/')}/release", data=b"{}", method="POST")
    urllib.request.urlopen(request, timeout=10).close()
