"""The composition root: what is plugged into what. The only module that knows every room of the house.

`compose_web` builds what the web process and the scheduler need (the pipeline hands off there), `compose_worker` adds
execution. Real clock, ids and randomness enter here; tests build their own.
"""

import os
import secrets
import socket
import time
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from functools import cache, partial
from pathlib import Path
from uuid import UUID

from django.conf import settings
from django.core.mail import send_mail
from django.urls import reverse

from approvals.courier import Courier
from approvals.gate import RuleGate, SeatDesk
from approvals.policy_selectors import Rulesets, usable_grants
from config.metrics import MeteredEgress
from mcpcatalog.provider import Lease, McpProvider, Workbench, open_workbench
from mcpcatalog.remote import ServerConfig, StdioCommand
from mcpcatalog.rules import Rules
from mcpcatalog.upkeep import Upkeep, Warming
from toolsys import selectors
from toolsys.artifacts import DurableFiles, StoredArtifacts
from toolsys.builtin.artifact_export import ArtifactExport
from toolsys.builtin.demo import DemoEcho, DemoExternalWrite
from toolsys.builtin.demo_flaky import DemoFlaky
from toolsys.builtin.demo_large_output import DemoLargeOutput
from toolsys.builtin.demo_slow import DemoSlow
from toolsys.builtin.math_evaluate import MathEvaluate
from toolsys.builtin.system_time import SystemTime
from toolsys.builtin.web_fetch import WebFetch
from toolsys.builtin.workspace_list import WorkspaceList
from toolsys.builtin.workspace_read_text import WorkspaceReadText
from toolsys.builtin.workspace_write_text import WorkspaceWriteText
from toolsys.composition import Composition
from toolsys.control.skill_load import SkillLoad
from toolsys.credentials import Credentials
from toolsys.domain.capture import hard_ceiling
from toolsys.domain.offering import Limit
from toolsys.domain.schemas import SchemaCaps
from toolsys.egress import EgressClient, EgressCounts, EgressPolicy, EgressRefused, ForwardProxy, policy_for
from toolsys.envelope import Envelope
from toolsys.execution import LoopThread, WorkerExecution
from toolsys.ids import uuid7
from toolsys.orphans import OrphanCollector
from toolsys.ports import Clock, Execution, Limits, Probe, Runtime, SkillReader, Tool, ToolProvider
from toolsys.probes import NoProbe, PausingProbe
from toolsys.registry import Registry
from toolsys.store import SqlStore
from toolsys.workspace import Workspaces


class SystemClock:
    def now(self) -> datetime:
        return datetime.now(UTC)

    def boottime(self) -> float:
        return time.clock_gettime(time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic()


class RandomIds:
    def uuid(self) -> UUID:
        return uuid7()

    def nonce(self) -> str:
        return secrets.token_hex(8)


def limits() -> Limits:
    numbers = settings.TOOLSYS
    return Limits(
        lease_seconds=numbers.lease_seconds,
        max_claims=numbers.max_claims,
        claim_cap_per_tenant=numbers.claim_cap_per_tenant,
        parallel_cap=numbers.parallel_cap,
        max_attempts=numbers.max_attempts,
        inline_maximum_bytes=numbers.inline_maximum_bytes,
        output_ceiling_bytes=numbers.global_output_ceiling_bytes,
    )


def builtins(clock: Clock) -> list[Tool]:
    """The tools of this build; `demo.*` only where the demo is switched on."""
    tools: list[Tool] = [
        SystemTime(clock), MathEvaluate(), WorkspaceReadText(), WorkspaceWriteText(), WorkspaceList(), ArtifactExport(),
    ]  # fmt: skip
    numbers = settings.TOOLSYS
    if numbers.demo:
        tools += [DemoEcho(), DemoFlaky(), DemoSlow(), DemoLargeOutput()]
    if numbers.demo and numbers.demo_effects_url:
        tools.append(DemoExternalWrite(numbers.demo_effects_url, egress_policy([numbers.demo_effects_url])))
    if numbers.web_fetch_hosts:
        tools.append(web_fetch(clock))
    return tools


def web_fetch(clock: Clock) -> WebFetch:
    hosts = settings.TOOLSYS.web_fetch_hosts
    policy = egress_policy(f"{scheme}://{host}" for host in hosts for scheme in ("https", "http"))
    return WebFetch(EgressClient(policy, counts=egress_counts()), clock, hosts)


def skill_load(providers: Mapping[str, ToolProvider]) -> SkillLoad:
    """The control tool over every provider whose sources offer skills."""
    readers = {domain: provider for domain, provider in providers.items() if isinstance(provider, SkillReader)}
    return SkillLoad(partial(selectors.offered_skill, limits=tool_limits()), readers)


def tool_limits() -> list[Limit]:
    """Where the deployment lets the tools of a glob be offered."""
    return [Limit(found.tools, found.environments, found.profiles) for found in settings.TOOLSYS.tool_limits]


@cache
def egress_counts() -> EgressCounts:
    """How everything that left this process ended."""
    return MeteredEgress()


def egress_policy(urls: Iterable[str]) -> EgressPolicy:
    """Exactly the origins of these URLs, under what the operator opened and denied, by the operator's way out."""
    numbers = settings.TOOLSYS
    proxy = numbers.egress_proxy.get_secret_value()
    return policy_for(
        urls,
        open_networks=numbers.egress_private_cidrs,
        plain_http_hosts=numbers.egress_plain_http_hosts,
        denied_hosts=numbers.egress_denied_hosts,
        denied_networks=numbers.egress_denied_cidrs,
        proxy=ForwardProxy.of(proxy) if proxy else None,
    )


def probe() -> Probe:
    folder = settings.TOOLSYS.probe_dir
    return PausingProbe(Path(folder)) if folder else NoProbe()


def artifact_files() -> DurableFiles:
    return DurableFiles(settings.TOOLSYS.data_dir / "artifacts")


def artifact_bytes() -> int:
    """The bound on one artifact: a whole capture must always fit."""
    numbers = settings.TOOLSYS
    return max(numbers.artifact_maximum_bytes, hard_ceiling(numbers.global_output_ceiling_bytes))


def orphan_collector() -> OrphanCollector:
    numbers = settings.TOOLSYS
    days = numbers.artifact_retention_days
    return OrphanCollector(artifact_files(), probe(), numbers.orphan_age_seconds, days * 86_400.0 if days else None)


def worker_name() -> str:
    return f"{socket.gethostname()}:{os.getpid()}"


def compose(providers: dict[str, ToolProvider], execution: Execution | None) -> Composition:
    clock, ids = SystemClock(), RandomIds()
    sealer = Envelope(settings.MASTER_ENCRYPTION_KEYS)
    bounds, crash_probe, rulesets = limits(), probe(), Rulesets(sealer)
    registry = Registry(
        [*builtins(clock), skill_load(providers)], providers, selectors.read_pin,
        output_ceiling_bytes=bounds.output_ceiling_bytes, limits=tool_limits(),
    )  # fmt: skip
    runtime = Runtime(
        store=SqlStore(sealer, clock, ids, bounds, crash_probe, worker_name()),
        registry=registry,
        policy=RuleGate(rulesets, usable_grants),
        desk=SeatDesk(rulesets, settings.TOOLSYS.approval_expiry_seconds, settings.TOOLSYS.approval_consume_seconds),
        sealer=sealer,
        artifacts=StoredArtifacts(artifact_files(), sealer, ids, crash_probe, artifact_bytes()),
        credentials=Credentials(sealer, settings.TOOLSYS.secrets_dir),
        clock=clock,
        ids=ids,
        probe=crash_probe,
        limits=bounds,
        providers=providers,
        execution=execution,
        workspace_for=Workspaces(settings.TOOLSYS.data_dir / "workspaces"),
    )
    return Composition(runtime, registry)


def credentials() -> Credentials:
    return Credentials(Envelope(settings.MASTER_ENCRYPTION_KEYS), settings.TOOLSYS.secrets_dir)


def stdio_commands() -> dict[str, StdioCommand]:
    """What a stdio server's row may name: deployment configuration, which no tenant can write."""
    servers = settings.TOOLSYS.stdio_servers
    return {name: StdioCommand(server.argv, server.environment) for name, server in servers.items()}


def egress_of(config: ServerConfig) -> EgressPolicy:
    """A server may be dialled at its own origin and its token endpoint's, where its tenant's allowlist has both.

    Addresses are checked all the same.
    """
    if not config.is_permitted:
        return EgressPolicy()
    try:
        return egress_policy([config.endpoint, *([config.token_endpoint] if config.token_endpoint else [])])
    except EgressRefused:
        return EgressPolicy()  # it has no origin: nothing is allowed, and the validators say why


def mcp_rules() -> Rules:
    """What a server's configuration is judged by before it is written."""
    numbers = settings.TOOLSYS
    caps = {(found.tenant, found.server): SchemaCaps(found.depth, found.bytes) for found in numbers.mcp_schema_limits}
    return Rules(frozenset(stdio_commands()), numbers.global_output_ceiling_bytes, egress_policy, caps)


def webhook_policy(url: str) -> EgressPolicy:
    """A webhook may be called at its own origin only. Raises: EgressRefused for a URL that has none."""
    return egress_policy([url])


def courier() -> Courier:
    """What delivers notifications; mail only where the deployment names a server."""
    return Courier(
        sealer=Envelope(settings.MASTER_ENCRYPTION_KEYS),
        policy_for=webhook_policy,
        link_of=page_link,
        mailer=_mail if "default" in settings.MAILERS else None,
        counts=egress_counts(),
    )


def page_link(approval_id: UUID | None, invocation_id: UUID | None) -> str:
    """Return the address of a page of the console: it asks who one is, and opens then."""
    if approval_id is not None:
        return settings.TOOLSYS.public_url + reverse("admin:toolsys_approvalrequest_change", args=[approval_id])
    if invocation_id is not None:
        return settings.TOOLSYS.public_url + reverse("admin:toolsys_invocation_change", args=[invocation_id])
    return settings.TOOLSYS.public_url + reverse("admin:index")


def _mail(address: str, subject: str, text: str) -> None:
    send_mail(subject, text, None, [address], using="default")


def mcp_provider(workbench: Workbench | None = None) -> McpProvider:
    numbers = settings.TOOLSYS
    return McpProvider(
        SystemClock(),
        stdio_commands(),
        numbers.global_output_ceiling_bytes,
        workbench,
        numbers.mcp_discovery_reuse_seconds,
        numbers.mcp_request_timeout_seconds,
    )


def compose_web() -> Composition:
    return compose({"mcp": mcp_provider()}, None)


def compose_worker(execution: WorkerExecution, workbench: Workbench) -> Composition:
    return compose({"mcp": mcp_provider(workbench)}, execution)


def open_mcp(loop: LoopThread, worker: str = "") -> Workbench:
    """Import the SDK and make the pool of connections; once, before the worker takes work.

    `worker` is the name under which others find what this process holds; without one it is the only worker.
    """
    numbers = settings.TOOLSYS
    lease = Lease(worker, SystemClock(), numbers.lease_seconds) if worker else None
    seconds = {
        "connect": numbers.mcp_connect_timeout_seconds, "request": float(numbers.mcp_request_timeout_seconds),
        "idle": numbers.mcp_idle_timeout_seconds,
    }  # fmt: skip
    return open_workbench(loop.run, credentials().of, egress_of, egress_counts(), lease, seconds)


def mcp_upkeep(workbench: Workbench) -> Upkeep:
    numbers = settings.TOOLSYS
    warming = Warming(
        numbers.mcp_warmup_attempts, numbers.mcp_warmup_retry_seconds, numbers.mcp_warmup_connect_timeout_seconds
    )
    return Upkeep(mcp_provider(workbench), workbench, warming, numbers.mcp_idle_timeout_seconds)
