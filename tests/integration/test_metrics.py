"""Metrics of several processes of one machine in one answer, who may read it, and that labels stay few and plain."""

import os
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest
from django.conf import settings
from django.http import Http404
from django.test import RequestFactory
from pydantic import SecretStr

from config import metrics
from mcpcatalog import metrics as counts
from mcpcatalog.remote import AuthUnsupported, ServerConfig
from tests.factories import Tenancy
from tests.integration.mcp.conftest import Doors, House, doors, houses  # noqa: F401 - fixtures
from tests.integration.mcp.test_ladder import READ, ended, proposed
from tests.integration.processes import child_process
from tests.spec.requirements import gate
from toolsys.labels import BoundedLabel

ROOT = Path(__file__).resolve().parents[2]
COUNT = """
    import os, sys
    from mcpcatalog import metrics
    metrics.count_request("crm", "tools/call", "succeeded", 0.01)
    metrics.CONNECTIONS.labels("http").inc()
    print("counted", flush=True)
    sys.stdin.read()
"""
SHOW = """
    import django
    django.setup()
    from config import metrics
    print(metrics.exposition().decode())
"""


def dial(house: House, config: ServerConfig) -> None:
    workbench = house.provider.workbench
    assert workbench is not None
    workbench.run(workbench.connections.acquire(config, "s", workbench.credentials(config.tenant_id).resolve), 10.0)


def program(code: str, folder: Path) -> "subprocess.Popen[str]":
    environment = {**os.environ, "PROMETHEUS_MULTIPROC_DIR": str(folder)}
    return child_process(
        [sys.executable, "-c", textwrap.dedent(code)], cwd=ROOT, env=environment, text=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    )  # fmt: skip


def value(shown: str, series: str) -> float:
    (line,) = [line for line in shown.splitlines() if line.startswith(series + " ")]
    return float(line.rpartition(" ")[2])


@gate("metrics.processes")
@pytest.mark.slow
def test_whoever_is_asked_answers_for_all_processes_of_the_machine(tmp_path: Path) -> None:
    running = [program(COUNT, tmp_path) for _ in range(2)]
    try:
        for process in running:
            assert process.stdout is not None
            assert process.stdout.readline() == "counted\n"
        shown, _ = program(SHOW, tmp_path).communicate(timeout=60)
        called = 'mcp_requests_total{method="tools/call",outcome="succeeded",server="crm"}'
        assert value(shown, called) == 2
        assert value(shown, 'mcp_connections{transport="http"}') == 2
        running[0].communicate(timeout=20)
        running[0].wait(20)
        shown, _ = program(SHOW, tmp_path).communicate(timeout=60)
        assert value(shown, called) == 2, "what was counted stays counted"
        assert value(shown, 'mcp_connections{transport="http"}') == 1, "what is held goes with who held it"
    finally:
        for process in running:
            process.kill()
            process.communicate()


@gate("metrics.access")
def test_metrics_are_shown_to_who_knows_the_token(monkeypatch: pytest.MonkeyPatch) -> None:
    factory = RequestFactory()
    guarded = settings.TOOLSYS.model_copy(update={"metrics_token": SecretStr("s3cret"), "plain_http": True})
    monkeypatch.setattr(settings, "TOOLSYS", guarded)
    for wrong in ({}, {"Authorization": "Bearer no"}, {"Authorization": "Bearer "}):
        with pytest.raises(Http404):
            metrics.view(factory.get("/metrics", headers=wrong))
    assert metrics.view(factory.get("/metrics", headers={"Authorization": "Bearer s3cret"})).status_code == 200
    open_here = guarded.model_copy(update={"metrics_token": SecretStr("")})
    monkeypatch.setattr(settings, "TOOLSYS", open_here)
    assert metrics.view(factory.get("/metrics")).status_code == 200
    monkeypatch.setattr(settings, "TOOLSYS", open_here.model_copy(update={"plain_http": False}))
    with pytest.raises(Http404):
        metrics.view(factory.get("/metrics"))


@gate("metrics.labels")
def test_a_process_shows_a_bounded_number_of_servers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counts, "server_label", BoundedLabel(counts.MAXIMUM_SERVERS))
    labels = [counts.server_label(f"server_{number}") for number in range(counts.MAXIMUM_SERVERS + 50)]
    assert len(set(labels)) == counts.MAXIMUM_SERVERS + 1
    assert labels[-1] == "other"
    assert counts.server_label("server_0") == "server_0"


@gate("metrics.labels")
def test_calls_and_failures_are_counted_without_a_word_of_tenant_session_or_secret(
    acme: Tenancy, houses: Callable[[], House], doors: Doors  # noqa: F811
) -> None:  # fmt: skip
    name, _ = doors.peer(calls=["ok", "drop"])
    config = doors.at(name, acme.id, classification=READ)
    house = houses()
    acme = house.offer(acme, config)
    ended(acme, house, proposed(acme, config, n=1))
    acme.work(house.runtime, proposed(acme, config, n=2))
    closed, _ = doors.peer(accepted=set())
    with pytest.raises(AuthUnsupported):
        dial(house, doors.at(closed, acme.id))
    shown = metrics.exposition().decode()
    assert value(shown, f'mcp_connect_failures_total{{reason_code="tool.auth_unsupported",server="{closed}"}}') == 1
    assert value(shown, f'mcp_requests_total{{method="tools/call",outcome="succeeded",server="{name}"}}') >= 1
    unreachable = f'mcp_requests_total{{method="tools/call",outcome="tool.server_unreachable",server="{name}"}}'
    assert value(shown, unreachable) >= 1
    assert value(shown, f'mcp_connects_total{{server="{name}",transport="http"}}') >= 1
    assert acme.id not in shown
    assert str(acme.session.id) not in shown
