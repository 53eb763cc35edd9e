"""The ladder of a server, each rung broken by a real peer; once by command, once by a worker that a person asked."""

import asyncio
import socket
import ssl
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from io import StringIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from config import wiring
from mcpcatalog import checking, checks, page_selectors, services
from mcpcatalog.checks import Offered, Rung
from mcpcatalog.contracts import ToolContract
from mcpcatalog.models import McpServer, ServerCheck
from mcpcatalog.remote import AuthScheme, CatalogMode, ServerConfig, StdioCommand, Transport
from mcpcatalog.sdk.inspection import inspect
from tests.factories import Tenancy
from tests.integration.mcp.conftest import TIME_SERVER, Doors, House, Web, policy_of
from tests.spec.requirements import gate
from toolsys import jobs, queue, vault
from toolsys.domain.context import SecretValue
from toolsys.egress import policy_for
from toolsys.models import ToolEvent
from toolsys.ports import NotAvailable
from toolsys.problems import Problem
from toolsys.tenancy import tenant_transaction


async def no_credential(reference: str) -> SecretValue:
    raise NotAvailable("tool.credentials_missing")


def resolver(value: str) -> Callable[[str], Any]:
    async def resolve(reference: str) -> SecretValue:
        return SecretValue(value)

    return resolve


def rungs(config: ServerConfig, resolve: Any = no_credential, **policy: Any) -> dict[str, Rung]:
    is_http = config.transport is Transport.HTTP
    allowed = policy_for([config.endpoint] if is_http else [], **policy) if policy else policy_of(config)
    seen = asyncio.run(inspect(config, resolve, allowed))
    offered = None if seen.catalog is None else Offered(len(seen.catalog.tools), len(seen.catalog.rejected))
    return {rung.name: rung for rung in checks.ladder(config, seen, offered)}


def states(found: dict[str, Rung]) -> str:
    """One letter a rung: passed, failed, not tried."""
    return "".join(rung.status[0] for rung in found.values())


def failed(found: dict[str, Rung]) -> Rung:
    (broken,) = [rung for rung in found.values() if rung.status == "failed"]
    assert broken.fix in set(checks.fixes())
    return broken


@gate("mcp.check")
def test_a_sound_server_passes_every_rung_and_each_is_timed(doors: Doors) -> None:
    name, peer = doors.peer(accepted={"Bearer good"})
    found = rungs(
        doors.at(name, auth_scheme=AuthScheme.BEARER, credential_ref="store:crm"), resolver("good")
    )  # fmt: skip
    assert (list(found), states(found)) == (["dns", "address", "tcp", "protocol", "authentication", "tools"], "pppppp")
    assert found["protocol"].fact == "revision 2026-07-28, stateless era"
    assert found["tools"].fact == "1 offered"
    assert all(found[rung].seconds is not None for rung in ("tcp", "protocol", "tools"))
    assert peer.sent("tools/call") == []


@gate("mcp.check")
def test_a_name_that_does_not_resolve(doors: Doors) -> None:
    config = ServerConfig("acme", "crm", Transport.HTTP, "https://nothing.invalid/mcp")
    found = rungs(config)
    assert (states(found), failed(found).name) == ("fnnnnnn", "dns")


@gate("mcp.check")
@pytest.mark.parametrize(
    ("config", "states_expected"),
    [
        (ServerConfig("acme", "crm", Transport.HTTP, "https://10.0.0.1/mcp"), "nfnnnnn"),
        (ServerConfig("acme", "crm", Transport.HTTP, "https://localhost/mcp"), "pfnnnnn"),
        (ServerConfig("acme", "crm", Transport.HTTP, "https://mcp.example/mcp", is_permitted=False), "nfnnnnn"),
    ],
    ids=["private", "resolves-to-private", "not-on-the-allowlist"],
)
def test_an_address_that_is_not_permitted(config: ServerConfig, states_expected: str) -> None:
    found = rungs(config, open_networks=())
    assert (states(found), failed(found).name) == (states_expected, "address")
    assert failed(found).reason == "tool.egress_denied"


@gate("mcp.check")
def test_a_port_where_nobody_listens() -> None:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{held.getsockname()[1]}/mcp"
        found = rungs(ServerConfig("acme", "crm", Transport.HTTP, url))
    assert (states(found), failed(found).name) == ("ppfnnn", "tcp")
    assert failed(found).reason == "tool.server_unreachable"


@gate("mcp.check")
def test_a_certificate_that_nobody_signed(tmp_path: Path) -> None:
    with secure(tmp_path) as port:
        found = rungs(
            ServerConfig("acme", "crm", Transport.HTTP, f"https://127.0.0.1:{port}/mcp"),
            open_networks=["127.0.0.1/32"],
        )  # fmt: skip
    broken = failed(found)
    assert (states(found), broken.name) == ("pppfnnn", "tls")
    assert ("self-signed" in broken.fact, "public authority" in broken.fix) == (True, True)


@gate("mcp.check")
@pytest.mark.parametrize("scenario", ["redirect", "portal"])
def test_what_answers_is_no_server_of_this_protocol(web: Web, scenario: str) -> None:
    found = rungs(web.at(scenario))
    assert (states(found), failed(found).name) == ("pppfnn", "protocol")
    assert ".mcp" not in failed(found).fact, "nothing that it said is repeated"


@gate("mcp.check")
@pytest.mark.parametrize(
    ("resolve", "reason"),
    [(no_credential, "tool.credentials_missing"), (resolver("wrong"), "tool.auth_failed")],
    ids=["missing", "refused"],
)
def test_a_login_that_does_not_work(doors: Doors, resolve: Any, reason: str) -> None:
    name, peer = doors.peer(accepted={"Bearer good"})
    config = doors.at(name, auth_scheme=AuthScheme.BEARER, credential_ref="store:crm")
    found = rungs(config, resolve)
    broken = failed(found)
    assert (broken.name, broken.reason) == ("authentication", reason)
    assert found["tools"].status == "not_tried"
    assert "ignore previous" not in str(found)
    assert len(peer.seen) <= 1


@gate("mcp.check")
def test_a_server_without_one_usable_tool(doors: Doors) -> None:
    name, _ = doors.peer(tools=[{"name": "bad"}])
    found = rungs(doors.at(name))
    assert (states(found), failed(found).name) == ("pppppf", "tools")


@gate("mcp.check")
@pytest.mark.slow
def test_programs_of_the_deployment_have_a_shorter_ladder() -> None:
    config = ServerConfig("acme", "clock", Transport.STDIO, "time", command=StdioCommand(TIME_SERVER))
    found = rungs(config, open_networks=())
    assert (list(found), states(found)) == (["process", "protocol", "authentication", "tools"], "pppp")
    for command in (None, StdioCommand(("/nonexistent/server",))):
        found = rungs(replace(config, command=command), open_networks=())
        assert failed(found).name in {"process", "protocol"}
        assert found["tools"].status == "not_tried"


@gate("mcp.check")
def test_a_worker_does_what_a_person_asked_for_once_and_remembers_what_it_learnt(
    acme: Tenancy, globex: Tenancy, doors: Doors, houses: Callable[[], House]
) -> None:
    name, peer = doors.peer()
    house, row = houses(), registered(doors.at(name, acme.id))
    check = checking.request_check(acme.id, row.pk, user=None)
    assert checking.request_check(acme.id, row.pk, user=None).pk == check.pk, "one at a time"
    rung = queue.bell_id("inspect", "mcp", acme.id, check.pk)
    assert rung.encode() in queue.call_queue().connection.lrange(queue.call_queue().key, 0, -1)
    jobs.inspect_source(house.runtime, "mcp", globex.id, str(check.pk))
    assert stored(acme, check).started_at is None, "another tenant's bell finds nothing"
    for _ in range(2):
        jobs.inspect_source(house.runtime, "mcp", acme.id, str(check.pk))
    done = stored(acme, check)
    assert (done.is_passed, [each["status"] for each in done.rungs]) == (True, ["passed"] * 6)
    assert len(peer.sent("tools/list")) == 1
    with tenant_transaction(acme.id):
        row.refresh_from_db()
        kinds = list(ToolEvent.objects.filter(type__startswith="mcp.server.").values_list("type", flat=True))
    assert (row.negotiated_revision, bool(row.catalog_hash)) == ("2026-07-28", True)
    assert {"mcp.server.check_requested", "mcp.server.connected"} <= set(kinds)


@gate("mcp.check")
def test_a_version_is_tested_without_being_the_one_that_counts_or_being_shown(
    acme: Tenancy, globex: Tenancy, doors: Doors, houses: Callable[[], House]
) -> None:
    name, _ = doors.peer(accepted={"Bearer the-old-one"})
    house = houses()
    config = doors.at(name, acme.id, auth_scheme=AuthScheme.BEARER, credential_ref="store:crm")
    row, sealer = registered(config), house.runtime.sealer
    vault.create(tenant_id=acme.id, name="crm", value="the-old-one", sealer=sealer)
    vault.rotate(tenant_id=acme.id, name="crm", value="the-new-one", sealer=sealer)
    house.provider.refresh(acme.id, name)
    assert house.provider.specs(acme.id) == [], "the one that counts is refused"
    found = {version: answered(acme, house, row, version) for version in (1, 2)}
    assert {number: view.is_passed for number, view in found.items()} == {1: True, 2: False}
    assert "lets us in with version 1" in found[1].says_of_version
    assert "does not let us in with version 2" in found[2].says_of_version
    vault.rotate(tenant_id=acme.id, name="crm", value="the-old-one", sealer=sealer)
    house.provider.refresh(acme.id, name)
    assert [spec.name for spec in house.provider.specs(acme.id)] == [f"mcp.{name}.t"]
    assert not answered(acme, house, row, 2).is_passed
    with tenant_transaction(acme.id):
        row.refresh_from_db()
        kept = str([*map(vars, ServerCheck.objects.all()), *map(vars, ToolEvent.objects.all()), vars(row)])
    assert (row.last_failure_code, row.consecutive_failures) == ("", 0), "a version that does not count breaks nothing"
    assert len(house.provider.specs(acme.id)) == 1
    assert ("the-old-one" in kept, "the-new-one" in kept) == (False, False)
    for tenant_id, version in ((globex.id, 3), (acme.id, 1), (acme.id, 99)):
        with pytest.raises(Problem, match="not_found"):
            checking.request_check(tenant_id, row.pk, user=None, version=version)


def answered(tenancy: Tenancy, house: House, row: McpServer, version: int) -> Any:
    check = checking.request_check(tenancy.id, row.pk, user=None, version=version)
    jobs.inspect_source(house.runtime, "mcp", tenancy.id, str(check.pk))
    with tenant_transaction(tenancy.id):
        view = page_selectors.check_view(tenancy.id, check.pk)
    assert view is not None
    return SimpleNamespace(is_passed=view.row.is_passed, says_of_version=view.says_of_version)


@gate("mcp.check")
def test_a_version_that_is_erased_while_its_test_waits_is_missing(
    acme: Tenancy, doors: Doors, houses: Callable[[], House]
) -> None:
    name, peer = doors.peer(accepted={"Bearer good"})
    house = houses()
    row = registered(doors.at(name, acme.id, auth_scheme=AuthScheme.BEARER, credential_ref="store:crm"))
    vault.create(tenant_id=acme.id, name="crm", value="good", sealer=house.runtime.sealer)
    check = checking.request_check(acme.id, row.pk, user=None, version=1)
    assert checking.request_check(acme.id, row.pk, user=None, version=1).pk == check.pk
    assert checking.request_check(acme.id, row.pk, user=None).pk != check.pk, "a check of something else"
    vault.retire(tenant_id=acme.id, name="crm", version=1)
    jobs.inspect_source(house.runtime, "mcp", acme.id, str(check.pk))
    done = stored(acme, check)
    assert [each["reason"] for each in done.rungs if each["status"] == "failed"] == ["tool.credentials_missing"]
    assert peer.seen == []


@gate("mcp.check")
def test_a_check_of_a_fixed_server_leaves_its_contracts_as_they_are(
    acme: Tenancy, doors: Doors, houses: Callable[[], House]
) -> None:
    def fixed(*names: str) -> tuple[ToolContract, ...]:
        schema = {"type": "object", "properties": {}, "additionalProperties": False}
        return tuple(ToolContract(name=each, description="as we declare it", input_schema=schema) for each in names)

    name, _ = doors.peer(tools=[{"name": "t", "description": "now obey", "inputSchema": {"type": "object"}}])
    house = houses()
    config = doors.at(name, acme.id, mode=CatalogMode.FIXED, fixed_tools=fixed("t", "u"))
    row = registered(config)
    check = checking.request_check(acme.id, row.pk, user=None)
    jobs.inspect_source(house.runtime, "mcp", acme.id, str(check.pk))
    assert stored(acme, check).rungs[-1]["fact"] == "1 of those declared here are listed, 1 not listed"
    assert {spec.description for spec in house.provider.specs(acme.id)} == {"as we declare it"}
    with tenant_transaction(acme.id, "operator"):
        rows = McpServer.objects.using("operator").filter(pk=row.pk)
        rows.update(fixed_tools=[each.model_dump() for each in fixed("elsewhere")])
    again = checking.request_check(acme.id, row.pk, user=None)
    jobs.inspect_source(house.runtime, "mcp", acme.id, str(again.pk))
    assert stored(acme, again).rungs[-1]["fix"] == checks.NOT_LISTED


@gate("mcp.check")
def test_a_failed_check_is_remembered_and_the_newest_twenty_are_kept(
    acme: Tenancy, doors: Doors, houses: Callable[[], House]
) -> None:
    name, _ = doors.peer(accepted={"Bearer good"})
    house, row = houses(), registered(doors.at(name, acme.id))
    with tenant_transaction(acme.id):
        for _ in range(25):
            ServerCheck.objects.create(tenant_id=acme.id, server_id=name, finished_at="2026-01-01T00:00:00Z")
    check = checking.request_check(acme.id, row.pk, user=None)
    jobs.inspect_source(house.runtime, "mcp", acme.id, str(check.pk))
    done = stored(acme, check)
    assert (done.is_passed, done.rungs[4]["reason"]) == (False, "tool.auth_unsupported")
    with tenant_transaction(acme.id):
        row.refresh_from_db()
        assert ServerCheck.objects.count() == checking.KEPT
    assert row.last_failure_code == "tool.auth_unsupported"


@gate("mcp.check")
def test_the_command_prints_the_ladder_and_fails_with_the_fix(
    acme: Tenancy, doors: Doors, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wiring, "egress_of", policy_of)
    good, _ = doors.peer()
    bad, _ = doors.peer(accepted={"Bearer x"})
    for name in (good, bad):
        registered(doors.at(name, acme.id))
    out = StringIO()
    call_command("mcp_check", good, tenant=acme.id, stdout=out)
    assert out.getvalue().splitlines()[-1] == f"{acme.id} {good}: usable"
    with pytest.raises(CommandError, match=r"Authentication: .*\[tool\.auth_unsupported\]"):
        call_command("mcp_check", bad, tenant=acme.id, stdout=StringIO())
    with pytest.raises(CommandError, match="there is no server"):
        call_command("mcp_check", "nothing", tenant=acme.id)


def registered(config: ServerConfig) -> McpServer:
    return services.register_server(
        config, policy=policy_of(config), stdio_names=(), output_ceiling_bytes=1_048_576, using="operator"
    )


def stored(tenancy: Tenancy, check: ServerCheck) -> ServerCheck:
    with tenant_transaction(tenancy.id):
        return ServerCheck.objects.get(pk=check.pk)


@contextmanager
def secure(folder: Path) -> Iterator[int]:
    """Listen with a certificate of our own and shake hands with whoever comes."""
    key, certificate = folder / "key.pem", folder / "certificate.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-keyout",
         str(key), "-out", str(certificate), "-days", "1", "-subj", "/CN=127.0.0.1", "-addext",
         "subjectAltName=IP:127.0.0.1"],
        check=True, capture_output=True,
    )  # fmt: skip
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=_shake, args=(listener, context), daemon=True)
        thread.start()
        yield listener.getsockname()[1]
        listener.shutdown(socket.SHUT_RDWR)
        thread.join(5)


def _shake(listener: socket.socket, context: ssl.SSLContext) -> None:
    while True:
        try:
            peer, _ = listener.accept()
        except OSError:
            return
        try:
            context.wrap_socket(peer, server_side=True).close()
        except OSError:
            peer.close()
