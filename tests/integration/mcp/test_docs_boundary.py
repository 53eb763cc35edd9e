"""Spec 003 end to end: the docs server as a process, a real worker, the real pipeline, from a call to its outcome."""

import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from mcpcatalog import services
from mcpcatalog.firstparty.docs.contracts import CONTRACTS
from mcpcatalog.models import McpServer
from mcpcatalog.remote import AuthScheme, CatalogMode, ServerConfig, Transport
from tests.factories import Tenancy
from tests.integration.mcp.conftest import _wait_for, policy_of
from tests.integration.mcp.test_affinity import in_new_session, until
from tests.integration.mcp.test_ladder import READ
from tests.integration.processes import child_process
from tests.spec.requirements import gate
from tests.workers import process
from toolsys import queue
from toolsys.domain.states import OutcomeStatus
from toolsys.models import Invocation, PolicyDecision, ToolEvent
from toolsys.selectors import CallView
from toolsys.tenancy import tenant_transaction

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[3]
TOKEN = "docs-token-" + "s3cr3t" * 4
WRONG = "wrong-token-" + "s3cr3t" * 4
QUERY = "zebra-of-the-query"


@dataclass
class Docs:
    """The docs server's process, and the words that it and the worker have written."""

    port: int
    folder: Path
    log: Path
    child: "subprocess.Popen[bytes] | None" = None

    def start(self) -> None:
        command = [sys.executable, "-m", "mcpcatalog.firstparty.docs", "--folder", str(self.folder)]
        clean = {name: value for name, value in os.environ.items() if not name.startswith(("DJANGO", "DATABASE"))}
        with self.log.open("ab") as log:
            self.child = child_process(
                [*command, "--port", str(self.port)], cwd=ROOT, stderr=log, stdout=log,
                env={**clean, "DOCS_SERVER_TOKENS": TOKEN},
            )  # fmt: skip
        _wait_for(self.port, self.child)

    def stop(self) -> None:
        if self.child is not None:
            self.child.kill()
            self.child.wait()

    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.log.read_text().splitlines() if line.startswith("{")]

    def calls(self) -> list[dict[str, Any]]:
        return [line for line in self.lines() if line["tool"]]


@pytest.fixture(scope="module")
def docs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Docs]:
    folder = tmp_path_factory.mktemp("docs")
    (folder / "index.md").write_text(f"# Guide\n\n[gone](gone.md) and [here](#guide)\n\n## {QUERY}\n\nIt is here.\n")
    many = "\n".join(f"[link {n}](missing-{n}-{'x' * 150}.md)" for n in range(200))
    (folder / "many.md").write_text(many)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    server = Docs(port, folder, tmp_path_factory.mktemp("log") / "docs.log")
    server.start()
    yield server
    server.stop()


@pytest.fixture(scope="module")
def worker(_database: None, docs: Docs) -> Iterator[None]:
    """One real worker and a scheduler, with the tokens in the worker's own environment only."""
    redis = queue.call_queue().connection
    redis.delete(queue.call_queue().key)
    environment = {
        "TOOLSYS_EGRESS_PLAIN_HTTP_HOSTS": f"127.0.0.1:{docs.port}", "TOOLSYS_CREDENTIAL_DOCS": TOKEN,
        "TOOLSYS_CREDENTIAL_WRONG": WRONG,
    }  # fmt: skip
    with ExitStack() as stack:
        stack.enter_context(process("scheduler"))
        stack.enter_context(process("worker", **environment))
        until(lambda: any(each["cmd"] == "blpop" for each in redis.client_list()), "a worker")
        yield


type Open = Callable[..., Tenancy]


@pytest.fixture
def opened(acme: Tenancy, docs: Docs, worker: None) -> Open:
    """Register the docs server as an operator does, and open a session that pins its two tools."""

    def register(credential: str = "DOCS", **changes: Any) -> Tenancy:
        config = ServerConfig(
            acme.id, "docs", Transport.HTTP, f"http://127.0.0.1:{docs.port}/mcp", auth_scheme=AuthScheme.BEARER,
            credential_ref=f"env:TOOLSYS_CREDENTIAL_{credential}", mode=CatalogMode.FIXED, fixed_tools=CONTRACTS,
            classification=READ, **changes,
        )  # fmt: skip
        services.register_server(
            config, policy=policy_of(config), stdio_names=(), output_ceiling_bytes=1_048_576, using="operator"
        )
        return in_new_session(acme)

    return register


def called(tenancy: Tenancy, tool: str, arguments: Any) -> CallView:
    (call,) = tenancy.propose((f"mcp.docs.docs_{tool}", arguments))
    until(lambda: tenancy.call(call).outcome_status, f"the end of {call}")
    return tenancy.call(call)


@gate("docs.boundary")
def test_the_first_audit_and_search_complete_across_processes(opened: Open, docs: Docs) -> None:
    tenancy = opened()
    assert sorted(tenancy.session.tool_set.tools) == sorted(
        [name for name in tenancy.session.tool_set.tools if not name.startswith("mcp.")]
        + ["mcp.docs.docs_audit_links", "mcp.docs.docs_search"]
    )
    audit = called(tenancy, "audit_links", {"path": "index.md"})
    assert (audit.outcome_status, audit.reason_code, audit.output_trust) == (
        OutcomeStatus.SUCCEEDED, "tool.succeeded", "external_untrusted",
    )  # fmt: skip
    assert audit.payload["structured"]["problems"] == [
        {"path": "index.md", "line": 3, "target": "gone.md", "problem": "missing_file"}
    ]
    assert audit.payload["context_content"].startswith('<external trust="external_untrusted"')
    found = called(tenancy, "search", {"query": QUERY})
    assert found.payload["structured"]["results"][0]["line"] == 5
    ids = [line["invocation_id"] for line in docs.calls()[-2:]]
    assert ids == [str(audit.id), str(found.id)], "the execution's identifier crosses, and it alone"


@gate("docs.boundary")
@pytest.mark.parametrize(
    ("tool", "arguments", "reason"),
    [
        ("delete", {}, "policy.matrix.unknown_tool"),
        ("search", {"query": ""}, "tool.arguments_invalid"),
        ("search", {"query": "x", "endpoint": "http://127.0.0.1:1/"}, "tool.arguments_invalid"),
        ("audit_links", {"limit": 201}, "tool.arguments_invalid"),
        ("audit_links", {"limit": "5"}, "tool.arguments_invalid"),
    ],
)
def test_what_the_contract_does_not_permit_causes_no_activity(
    opened: Open, docs: Docs, tool: str, arguments: Any, reason: str
) -> None:
    tenancy = opened()
    before = len(docs.lines())
    assert called(tenancy, tool, arguments).reason_code == reason
    assert len(docs.lines()) == before


@gate("docs.boundary", "docs.beneath")
@pytest.mark.parametrize("path", ["../log/docs.log", "/etc/passwd", "nothing.md"])
def test_a_path_out_of_the_folder_is_an_error_of_the_tool(opened: Open, path: str) -> None:
    failed = called(opened(), "audit_links", {"path": path})
    assert (failed.outcome_status, failed.reason_code) == (OutcomeStatus.FAILED, "tool.upstream_error")
    fields = failed.outcome_fields()
    assert fields is not None
    assert "document" not in fields["message"]
    assert "There is no such document." in failed.payload["context_content"]


@gate("docs.boundary", "docs.authenticated")
def test_a_wrong_token_is_unavailable_and_the_server_does_nothing(opened: Open, docs: Docs) -> None:
    tenancy = opened("WRONG")
    before = len(docs.calls())
    assert called(tenancy, "search", {"query": QUERY}).reason_code == "tool.auth_failed"
    assert docs.lines()[-1]["status"] == 401
    seen = len(docs.lines())
    assert called(tenancy, "search", {"query": f"{QUERY} again"}).outcome_status is OutcomeStatus.UNAVAILABLE
    assert (len(docs.calls()), len(docs.lines())) == (before, seen), "terminal: nobody dials again"


@gate("docs.boundary")
def test_an_answer_past_its_bound_is_too_large_and_one_within_it_an_excerpt(opened: Open) -> None:
    tenancy = opened(maximum_output_bytes=4_096)
    runaway = called(tenancy, "audit_links", {"path": "many.md", "limit": 200})
    assert (runaway.outcome_status, runaway.reason_code) == (OutcomeStatus.FAILED, "tool.output_too_large")
    large = called(tenancy, "audit_links", {"path": "many.md", "limit": 40})
    assert (large.outcome_status, large.truncated) == (OutcomeStatus.SUCCEEDED, True)
    assert large.artifact_id is not None
    assert len(large.payload["context_content"].encode()) <= 4_096


@gate("docs.boundary")
def test_a_server_that_is_gone_is_unavailable_and_back_when_it_is(opened: Open, docs: Docs) -> None:
    tenancy = opened()
    assert called(tenancy, "search", {"query": QUERY}).outcome_status is OutcomeStatus.SUCCEEDED
    docs.stop()
    try:
        gone = called(tenancy, "search", {"query": "while it is gone"})
        assert (gone.outcome_status, gone.reason_code) == (OutcomeStatus.UNAVAILABLE, "tool.server_unreachable")
    finally:
        docs.start()
    assert called(tenancy, "search", {"query": "now it is back"}).outcome_status is OutcomeStatus.SUCCEEDED


@gate("docs.boundary", "docs.authenticated")
def test_no_token_no_argument_and_no_answer_is_in_a_log_or_an_event(opened: Open, docs: Docs) -> None:
    tenancy = opened()
    called(tenancy, "search", {"query": QUERY})
    with tenant_transaction(tenancy.id):
        rows = [list(model.objects.values()) for model in (Invocation, ToolEvent, McpServer, PolicyDecision)]
        events = repr(list(ToolEvent.objects.values_list("payload", flat=True)))
    logged = docs.log.read_text()
    assert "docs.search" in logged
    for secret in (TOKEN, WRONG):
        assert secret not in repr(rows) + logged
    assert QUERY not in logged + events
    assert "It is here." not in logged + events
