"""The catalog over the real database: who may write what, what discovery leaves behind, and a call end to end."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from django.db import DatabaseError, connections

from config import wiring
from mcpcatalog import mapping, selectors, services
from mcpcatalog.drafts import columns_of
from mcpcatalog.models import CatalogTool, McpServer, ToolOverride
from mcpcatalog.provider import McpProvider, open_workbench
from mcpcatalog.remote import Catalog, RemoteTool, ServerConfig, StdioCommand, Transport
from mcpcatalog.validators import InvalidConfiguration
from tests.factories import Tenancy
from tests.integration.mcp.conftest import TIME_SERVER
from tests.spec.requirements import gate
from toolsys import services as platform
from toolsys.domain.canonical import canonical_bytes, sha256_hex
from toolsys.domain.spec import Classification, IdempotencyClass, RiskLevel, SideEffectClass
from toolsys.domain.states import OutcomeStatus
from toolsys.egress import policy_for
from toolsys.execution import LoopThread, WorkerExecution
from toolsys.leases import LeaseKeeper
from toolsys.models import AgentSession, Tenant, ToolEvent, ToolSet
from toolsys.ports import NotAvailable
from toolsys.selectors import read_pin
from toolsys.tenancy import tenant_transaction

COMMANDS = {"time": StdioCommand(TIME_SERVER), "nothing": StdioCommand(("/nonexistent/server",))}
READ = Classification(
    side_effect=SideEffectClass.NETWORK_READ, risk=RiskLevel.LOW, idempotency=IdempotencyClass.READ_ONLY
)
NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)


def http_server(tenancy: Tenancy, **changes: Any) -> ServerConfig:
    return replace(ServerConfig(tenancy.id, "crm", Transport.HTTP, "https://mcp.example/mcp"), **changes)


def stdio_server(tenancy: Tenancy, **changes: Any) -> ServerConfig:
    clock = ServerConfig(tenancy.id, "clock", Transport.STDIO, "time", classification=READ, command=COMMANDS["time"])
    return replace(clock, **changes)


def register(config: ServerConfig, using: str = "default") -> McpServer:
    return services.register_server(
        config, policy=policy_for(["https://mcp.example/"]), stdio_names=COMMANDS, output_ceiling_bytes=1_048_576,
        using=using,
    )  # fmt: skip


def discovered(config: ServerConfig, *names: str, at: datetime = NOW, bad: bool = False) -> str:
    tools = [RemoteTool(name, "d", {"type": "object"}) for name in names]
    if bad:
        tools.append(RemoteTool("bad", "d", {"type": "array"}))
    catalog = Catalog(tuple(tools), (), "2026-07-28", "crm", "1")
    generation = mapping.map_catalog(config, catalog, output_ceiling_bytes=1_048_576)
    services.record_discovery(config, catalog, generation, at=at)
    return generation.catalog_hash


def epoch(tenancy: Tenancy) -> int:
    with tenant_transaction(tenancy.id):
        return Tenant.objects.get(pk=tenancy.id).authz_epoch


def events(tenancy: Tenancy, kind: str) -> list[dict[str, Any]]:
    with tenant_transaction(tenancy.id):
        return list(ToolEvent.objects.filter(type=kind).order_by("id").values_list("payload", flat=True))


def withdrawn(tenancy: Tenancy, generation: str, tool: str) -> bool:
    found = selectors.pinned_tool(tenancy.id, "crm", generation, f"mcp.crm.{tool}")
    assert found is not None
    assert found.remote_name == tool
    return found.is_withdrawn


def names(provider: McpProvider, tenancy: Tenancy) -> list[str]:
    return [spec.name for spec in provider.specs(tenancy.id)]


@pytest.fixture
def provider() -> McpProvider:
    return McpProvider(wiring.SystemClock(), COMMANDS, 1_048_576)


def test_a_configuration_comes_back_as_it_was_written(acme: Tenancy) -> None:
    config = http_server(acme, required_scopes=frozenset({"mcp.crm.read"}), is_stateless=True)
    register(config, using="operator")
    state = selectors.server(acme.id, "crm", COMMANDS)
    assert state is not None
    assert state.config == config


def test_a_configuration_with_problems_writes_nothing(acme: Tenancy) -> None:
    with pytest.raises(InvalidConfiguration) as raised:
        register(http_server(acme, endpoint="https://evil.example/"))
    assert [problem.code for problem in raised.value.problems] == ["egress_not_allowed"]
    assert selectors.server(acme.id, "crm", COMMANDS) is None


@gate("mcp.programs")
def test_only_the_operators_role_writes_a_stdio_server(acme: Tenancy) -> None:
    with pytest.raises(InvalidConfiguration, match="transport: operators_only"):
        register(stdio_server(acme))
    with pytest.raises(DatabaseError, match="configured by operators"), tenant_transaction(acme.id):
        McpServer.objects.create(tenant_id=acme.id, **columns_of(stdio_server(acme)))
    register(stdio_server(acme), using="operator")
    register(http_server(acme))
    for column, value in (("endpoint", "other"), ("side_effect", "none"), ("enabled", False)):
        with pytest.raises(DatabaseError, match="configured by operators"), tenant_transaction(acme.id):
            McpServer.objects.filter(server_id="clock").update(**{column: value})
    with pytest.raises(DatabaseError, match="configured by operators"), tenant_transaction(acme.id):
        McpServer.objects.filter(server_id="crm").update(transport="stdio")
    with pytest.raises(DatabaseError, match="configured by operators"), tenant_transaction(acme.id):
        McpServer.objects.filter(server_id="clock").delete()
    discovered(stdio_server(acme), "a")  # what a worker observes is no configuration
    services.record_failure(stdio_server(acme), "tool.server_unreachable", "x\0y", at=NOW)


@gate("rls.isolates")
def test_servers_and_catalogs_of_another_tenant_do_not_exist(
    acme: Tenancy, globex: Tenancy, provider: McpProvider
) -> None:
    register(http_server(acme))
    discovered(http_server(acme), "a")
    assert (names(provider, acme), names(provider, globex)) == (["mcp.crm.a"], [])
    assert selectors.server(globex.id, "crm", COMMANDS) is None
    with pytest.raises(DatabaseError), tenant_transaction(globex.id):
        McpServer.objects.create(tenant_id=acme.id, server_id="x", transport="http", endpoint="https://mcp.example/")


@gate("catalog.history")
def test_the_catalog_is_a_history(acme: Tenancy) -> None:
    config = http_server(acme)
    register(config)
    first = discovered(config, "a", "b")
    second = discovered(config, "b", "c")
    assert withdrawn(acme, first, "a") is True
    assert withdrawn(acme, first, "b") is False
    assert discovered(config, "a", "b") == first
    assert withdrawn(acme, first, "a") is False
    assert withdrawn(acme, second, "c") is True
    with tenant_transaction(acme.id):
        assert CatalogTool.objects.count() == 4
    with pytest.raises(DatabaseError), tenant_transaction(acme.id):
        CatalogTool.objects.update(input_schema={})
    with pytest.raises(DatabaseError), tenant_transaction(acme.id):
        CatalogTool.objects.all().delete()


def test_a_discovery_raises_the_epoch_only_where_something_changed(acme: Tenancy) -> None:
    config = http_server(acme)
    register(config)
    discovered(config, "a")
    before = epoch(acme)
    discovered(config, "a")
    assert (epoch(acme), events(acme, "mcp.catalog.changed")) == (before, [])
    old, new = discovered(config, "a"), discovered(config, "b", bad=True)
    assert epoch(acme) == before + 1
    assert events(acme, "mcp.catalog.changed") == [{"server": "crm", "old_hash": old, "new_hash": new}]
    discovered(config, "b", bad=True)
    rejection = {"server": "crm", "remote_name": "bad", "reason": "schema.input"}
    assert events(acme, "mcp.tool.rejected") == [rejection]
    with tenant_transaction(acme.id):
        McpServer.objects.filter(server_id="crm").update(timeout_seconds=31)
    assert epoch(acme) == before + 2


def test_a_pinned_tool_is_bound_under_the_live_classification_or_not_at_all(
    acme: Tenancy, provider: McpProvider
) -> None:
    register(http_server(acme, classification=READ), using="operator")
    discovered(http_server(acme), "a", "b")
    pinned = {spec.name: spec for spec in provider.specs(acme.id)}
    bound = provider.bind(acme.id, pinned["mcp.crm.a"], epoch(acme), acme.session.id)
    assert (bound.spec, bound.remote_name) == (pinned["mcp.crm.a"], "a")
    with tenant_transaction(acme.id, "operator"):
        of_operators = McpServer.objects.using("operator").filter(tenant_id=acme.id, server_id="crm")
        of_operators.update(side_effect="external_write", required_scopes=["mcp.crm.x"])
    stricter = provider.bind(acme.id, pinned["mcp.crm.a"], epoch(acme), acme.session.id).spec
    assert (stricter.side_effect, sorted(stricter.required_scopes)) == (SideEffectClass.EXTERNAL_WRITE, ["mcp.crm.x"])
    assert stricter.input_schema == pinned["mcp.crm.a"].input_schema
    discovered(http_server(acme), "b")
    assert provider.bind(acme.id, pinned["mcp.crm.b"], epoch(acme), acme.session.id).remote_name == "b"
    with pytest.raises(NotAvailable, match=r"tool\.withdrawn"):
        provider.bind(acme.id, pinned["mcp.crm.a"], epoch(acme), acme.session.id)
    with tenant_transaction(acme.id):
        McpServer.objects.filter(server_id="crm").update(enabled=False)
    with pytest.raises(NotAvailable, match=r"tool\.withdrawn"):
        provider.bind(acme.id, pinned["mcp.crm.b"], epoch(acme), acme.session.id)
    assert provider.specs(acme.id) == []


def test_a_server_that_begins_to_keep_state_is_known_to_every_worker(acme: Tenancy, provider: McpProvider) -> None:
    config = http_server(acme)
    register(config)
    catalog = Catalog((RemoteTool("a", "d", {"type": "object"}),), (), "2026-07-28")
    generation = mapping.map_catalog(config, catalog, output_ceiling_bytes=1_048_576)
    found = []
    for revision in ("2026-07-28", "2025-11-25"):
        services.record_discovery(config, replace(catalog, revision=revision), generation, at=NOW)
        (spec,) = provider.specs(acme.id)
        found.append(provider.bind(acme.id, spec, epoch(acme), acme.session.id).server.keeps_state)
    assert found == [False, True]


@gate("registry.kept_offers")
def test_what_is_said_of_a_server_shows_in_the_next_pin_of_a_process_that_knows_it(
    acme: Tenancy, provider: McpProvider
) -> None:
    register(http_server(acme, classification=READ), using="operator")
    discovered(http_server(acme), "a")
    first = provider.specs(acme.id)
    assert [id(spec) for spec in provider.specs(acme.id)] == [id(spec) for spec in first]
    with tenant_transaction(acme.id, "operator"):
        McpServer.objects.using("operator").filter(tenant_id=acme.id, server_id="crm").update(risk="high")
    assert [spec.risk for spec in provider.specs(acme.id)] == [RiskLevel.HIGH]
    with tenant_transaction(acme.id):
        ToolOverride.objects.create(tenant_id=acme.id, server_id="crm", remote_name="a", side_effect="external_write")
    assert [spec.side_effect for spec in provider.specs(acme.id)] == [SideEffectClass.EXTERNAL_WRITE]
    register(http_server(acme, server_id="erp"))
    assert provider.refresh_keys(acme.id) == ["crm", "erp"]
    discovered(http_server(acme, server_id="erp"), "b")
    assert names(provider, acme) == ["mcp.crm.a", "mcp.erp.b"]
    services.record_failure(http_server(acme), "tool.auth_failed", "", at=NOW)
    assert names(provider, acme) == ["mcp.erp.b"]
    with tenant_transaction(acme.id):
        McpServer.objects.filter(server_id="erp").update(enabled=False)
    assert (names(provider, acme), provider.sources(acme.id)) == ([], frozenset())


@gate("registry.kept_offers")
def test_a_catalog_that_is_read_while_another_one_comes_is_not_kept_by_halves(
    acme: Tenancy, provider: McpProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = http_server(acme)
    register(config)
    discovered(config, "a", "b")
    read = selectors.generations

    def overtaken(*asked: Any) -> Any:
        discovered(config, "a")
        return read(*asked)

    with monkeypatch.context() as meanwhile:
        meanwhile.setattr(selectors, "generations", overtaken)
        assert names(provider, acme) == ["mcp.crm.a", "mcp.crm.b"], "as it was before"
    assert names(provider, acme) == ["mcp.crm.a"]
    discovered(config, "a", "b")
    assert names(provider, acme) == ["mcp.crm.a", "mcp.crm.b"]


@gate("registry.shared_sets")
def test_sessions_with_the_same_tools_share_one_set_that_nobody_changes(acme: Tenancy, globex: Tenancy) -> None:
    web = wiring.compose({"mcp": McpProvider(wiring.SystemClock(), COMMANDS, 1_048_576, reuse_seconds=10**9)}, None)

    def open_one(tenancy: Tenancy) -> AgentSession:
        return platform.open_session(
            tenant_id=tenancy.id, api_key_id=tenancy.key.id, agent_name="assistant", principal_id="user-1",
            environment="production", profile=None, runtime=web.runtime, registry=web.registry,
        )  # fmt: skip

    register(http_server(acme))
    discovered(http_server(acme), "a")
    with ThreadPoolExecutor(4) as threads:
        opened = [done.result() for done in [threads.submit(_closing, open_one, acme) for _ in range(8)]]
    sets = {session.tool_set_id for session in opened}
    other = open_one(globex)
    assert (len(sets), other.tool_set_id in sets) == (1, False)
    discovered(http_server(acme), "a", "b")
    changed = open_one(acme)
    assert changed.tool_set_id not in sets
    for session in (opened[0], changed):
        stored = read_pin(acme.id, session.id)
        assert sha256_hex(canonical_bytes(stored)) == session.tool_schema_sha256
        assert stored == session.tool_set.tools
    assert read_pin(globex.id, changed.id) == {}
    with tenant_transaction(globex.id):
        assert not ToolSet.objects.filter(pk__in=sets).exists()
    with pytest.raises(DatabaseError), tenant_transaction(globex.id):
        AgentSession.objects.filter(pk=other.pk).update(tool_set_id=changed.tool_set_id)


def _closing(open_one: Callable[[Tenancy], AgentSession], tenancy: Tenancy) -> AgentSession:
    try:
        return open_one(tenancy)
    finally:
        connections.close_all()


@pytest.fixture
def house(database: None) -> Iterator[tuple[McpProvider, Any]]:
    """A worker with a real pool, and what a web process would compose beside it."""
    loop, clock = LoopThread(), wiring.SystemClock()
    keeper = LeaseKeeper(clock, 2.0)
    keeper.start()
    workbench = open_workbench(loop.run, wiring.credentials().of, lambda config: policy_for([config.endpoint]))
    provider = McpProvider(clock, COMMANDS, 1_048_576, workbench)
    yield provider, wiring.compose({"mcp": provider}, WorkerExecution(loop, keeper, clock))
    workbench.close()
    keeper.stop()
    loop.stop()


def test_a_call_of_a_real_server_goes_through_the_pipeline(acme: Tenancy, house: tuple[McpProvider, Any]) -> None:
    provider, worker = house
    register(stdio_server(acme), using="operator")
    assert provider.refresh_keys(acme.id) == ["clock"]
    provider.refresh(acme.id, "clock")
    assert provider.refresh_keys(acme.id) == []
    tools = ["mcp.clock.convert_time", "mcp.clock.get_current_time", "mcp.clock.read_resource"]
    assert names(provider, acme) == tools
    web = wiring.compose({"mcp": McpProvider(wiring.SystemClock(), COMMANDS, 1_048_576)}, None)
    session = platform.open_session(
        tenant_id=acme.id, api_key_id=acme.key.id, agent_name="assistant", principal_id="user-1",
        environment="production", profile=None, runtime=web.runtime, registry=web.registry,
    )  # fmt: skip
    run = platform.start_run(
        tenant_id=acme.id, session_id=session.id, manifest=None, deadline_seconds=600, correlation_id="",
    )  # fmt: skip
    acme = replace(acme, session=session, run=run, runtime=web.runtime)
    (handed_off,) = acme.propose(("mcp.clock.get_current_time", {"timezone": "Europe/Paris"}))
    acme.finish(worker.runtime, handed_off)
    settled = acme.call(handed_off)
    assert (settled.outcome_status, settled.reason_code) == (OutcomeStatus.SUCCEEDED, "tool.succeeded")
    assert settled.payload["structured"]["timezone"] == "Europe/Paris"
    assert settled.output_trust == "external_untrusted"
    (invalid,) = acme.propose(("mcp.clock.get_current_time", {"timezone": 7}))
    assert acme.call(invalid).reason_code == "tool.arguments_invalid"
    (wrong,) = acme.propose(("mcp.clock.get_current_time", {"timezone": "No/Where"}))
    acme.work(worker.runtime, wrong)
    failed = acme.call(wrong)
    assert (failed.outcome_status, failed.reason_code) == (OutcomeStatus.FAILED, "tool.upstream_error")


def test_a_server_that_is_down_is_recorded_and_left_alone_for_a_while(
    acme: Tenancy, house: tuple[McpProvider, Any]
) -> None:
    provider, _ = house
    register(stdio_server(acme, endpoint="nothing"), using="operator")
    provider.refresh(acme.id, "clock")
    with tenant_transaction(acme.id):
        row = McpServer.objects.get(server_id="clock")
    assert (row.last_failure_code, row.consecutive_failures) == ("tool.server_unreachable", 1)
    assert (provider.refresh_keys(acme.id), provider.specs(acme.id)) == ([], [])
    provider.refresh(acme.id, "no_such_server")
