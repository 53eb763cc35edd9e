"""The SDK's client in a process of its own, a served web process and a worker: both revisions, deaths, people."""

import http.client
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from django.db import connections

from tests.e2e.server import serving
from tests.effects import EffectServer
from tests.factories import Tenancy
from tests.integration.api.mcp_peer import NEW, OLD
from tests.integration.api.test_mcp_face import decide, rows
from tests.integration.processes import ROOT, child_process, eventually
from tests.spec.requirements import gate
from tests.workers import process
from toolsys import provisioning, queue
from toolsys.domain.states import InvocationStatus
from toolsys.models import McpClientSession
from toolsys.tenancy import tenant_transaction

pytestmark = pytest.mark.slow
MODES = pytest.mark.parametrize(("mode", "revision"), [("legacy", OLD), (NEW, NEW), ("auto", NEW)])
PATIENCE = 60.0


@dataclass
class World:
    """A worker and its effects; web processes come and go."""

    effects: EffectServer
    folder: Path


@pytest.fixture(scope="module")
def world(_database: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    queue.call_queue().connection.delete(queue.call_queue().key)
    with pytest.MonkeyPatch.context() as environment, EffectServer() as effects:
        environment.setenv("TOOLSYS_DEMO_EFFECTS_URL", effects.url)
        environment.setenv("TOOLSYS_EGRESS_PLAIN_HTTP_HOSTS", effects.url.split("/")[2])
        with process("worker"):
            yield World(effects, tmp_path_factory.mktemp("web"))
    connections.close_all()


@pytest.fixture(scope="module")
def web(world: World) -> Iterator[str]:
    with serving(world.folder) as address:
        yield f"{address}/mcp"


@dataclass
class Caller:
    """Who starts clients with one key."""

    tenancy: Tenancy
    key: str

    def start(self, url: str, mode: str, *calls: tuple[str, Any]) -> "subprocess.Popen[str]":
        given = [text for name, arguments in calls for text in (name, json.dumps(arguments))]
        command = [sys.executable, "-m", "tests.integration.api.mcp_client", url, self.key, mode, *given]
        return child_process(
            command, cwd=ROOT, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=dict(os.environ)
        )

    def call(self, url: str, mode: str, *calls: tuple[str, Any]) -> list[Any]:
        return self.read(self.start(url, mode, *calls))

    def read(self, client: "subprocess.Popen[str]") -> list[Any]:
        printed, errors = client.communicate(timeout=PATIENCE * 2)
        assert client.returncode == 0, errors
        return [json.loads(line) for line in printed.splitlines()]


@pytest.fixture
def caller(acme: Tenancy) -> Caller:
    return Caller(acme, provisioning.create_api_key(acme.id, "sdk", ["demo.write"])[1])


def is_held(tenancy: Tenancy) -> bool:
    return [row.status for row in rows(tenancy)] == [InvocationStatus.WAITING_FOR_APPROVAL]


def approve(tenancy: Tenancy) -> UUID:
    """Approve the only held call, and ring for it as a decision does."""
    decide(tenancy, approved=True)
    (row,) = rows(tenancy)
    queue.enqueue_call(tenancy.id, row.pk)
    return row.pk


@gate("mcp.face.clients")
@MODES
def test_the_sdk_lists_and_calls(web: str, caller: Caller, mode: str, revision: str) -> None:
    (spoken, names), echoed, wrong = caller.call(web, mode, ("demo.echo", {"text": "hello"}), ("demo.echo", {"tex": 1}))
    assert (spoken, names) == (revision, sorted(names))
    assert (echoed["isError"], echoed["structuredContent"]) == (False, {"text": "hello"})
    assert [part["text"] for part in echoed["content"]] == ["hello"]
    assert (wrong["isError"], wrong["structuredContent"]["reason_code"]) == (True, "tool.arguments_invalid")
    with tenant_transaction(caller.tenancy.id):
        closed = McpClientSession.objects.get().closed_at is not None
    assert closed is (revision == OLD), "the SDK ends its session when it goes"


@gate("mcp.face.held", "mcp.face.attach")
@pytest.mark.parametrize("mode", ["legacy", NEW])
def test_two_of_a_held_call_wait_and_both_get_the_one_outcome(
    world: World, web: str, caller: Caller, mode: str
) -> None:
    line = f"held {mode} {caller.tenancy.id}"
    client = caller.start(web, mode, *[("demo.external_write", {"line": line})] * 2)
    eventually(lambda: is_held(caller.tenancy), "the call is held", PATIENCE)
    approve(caller.tenancy)
    _, one, other = caller.read(client)
    for answer in (one, other):
        assert answer["isError"] is False, answer
        assert answer["content"][0]["text"].startswith('<external trust="external_untrusted"')
        assert answer["_meta"]["toolsys/output-trust"] == "external_untrusted"
        assert answer.get("structuredContent") is None, "what is from outside stands in its envelope only"
    assert one["_meta"]["toolsys/invocation-id"] == other["_meta"]["toolsys/invocation-id"]
    assert (world.effects.lines().count(line), len(rows(caller.tenancy))) == (1, 1)


@gate("mcp.face.crash", "mcp.face.attach")
def test_client_and_web_process_die_and_the_same_call_collects_what_was_done_once(
    world: World, caller: Caller, tmp_path: Path
) -> None:
    line = f"died {caller.tenancy.id}"
    with serving(tmp_path) as address:
        client = caller.start(f"{address}/mcp", NEW, ("demo.external_write", {"line": line}))
        eventually(lambda: is_held(caller.tenancy), "the call is held", PATIENCE)
        client.kill()
        client.communicate()
        invocation_id = approve(caller.tenancy)
        eventually(lambda: rows(caller.tenancy)[0].status == "succeeded", "the call has ended", PATIENCE)
    assert world.effects.lines().count(line) == 1
    (tmp_path / "again").mkdir()
    with serving(tmp_path / "again") as address:
        _, collected = caller.call(f"{address}/mcp", NEW, ("demo.external_write", {"line": line}))
        assert (collected["isError"], collected["_meta"]["toolsys/invocation-id"]) == (False, str(invocation_id))
        assert collected["_meta"]["toolsys/is-replay"] is True
        assert (world.effects.lines().count(line), len(rows(caller.tenancy))) == (1, 1)
        _, fresh = caller.call(f"{address}/mcp", NEW, ("demo.echo", {"text": "next"}))
        assert fresh["isError"] is False


@gate("mcp.face.attach")
def test_who_hung_up_before_the_answer_has_not_collected_it(web: str, caller: Caller) -> None:
    """A served process is needed: only a real connection can be gone."""
    host = web.split("/")[2]
    body = {
        "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {
            "name": "demo.slow", "arguments": {"seconds": 2}, "_meta": {
                "io.modelcontextprotocol/protocolVersion": NEW, "io.modelcontextprotocol/clientCapabilities": {},
            },
        },
    }  # fmt: skip
    headers = {
        "authorization": f"Bearer {caller.key}", "content-type": "application/json", "mcp-protocol-version": NEW,
        "mcp-method": "tools/call", "mcp-name": "demo.slow", "toolsys-principal": "user-1",
    }  # fmt: skip

    def send() -> http.client.HTTPConnection:
        connection = http.client.HTTPConnection(host, timeout=PATIENCE)
        connection.request("POST", "/mcp", json.dumps(body), headers)
        return connection

    gone = send()
    eventually(lambda: len(rows(caller.tenancy)) == 1, "it is proposed", PATIENCE)
    gone.close()
    eventually(lambda: rows(caller.tenancy)[0].status == "succeeded", "it has ended", PATIENCE)

    def asked() -> Any:
        with closing(send()) as connection:
            return json.loads(connection.getresponse().read())["result"]

    first, second = asked(), asked()
    assert (first["_meta"]["toolsys/is-replay"], first["isError"]) == (True, False)
    assert second["_meta"]["toolsys/invocation-id"] != first["_meta"]["toolsys/invocation-id"], "now it was collected"
    assert len(rows(caller.tenancy)) == 2
