"""The composition root: what is plugged into what. The only module that knows every room of the house.

`compose_web` builds what the web process and the scheduler need (the pipeline hands off there), `compose_worker` adds
execution. Real clock, ids and randomness enter here; tests build their own.
"""

import os
import secrets
import socket
import time
from datetime import UTC, datetime
from pathlib import Path
from uuid import UUID

from django.conf import settings
from django.core.files.storage import FileSystemStorage

from approvals.gate import MatrixGate, SeatDesk
from mcpcatalog.provider import McpProvider, Workbench, open_workbench
from mcpcatalog.remote import ServerConfig, StdioCommand
from toolsys import selectors
from toolsys.artifacts import StoredArtifacts
from toolsys.builtin.demo import DemoEcho, DemoExternalWrite
from toolsys.builtin.math_evaluate import MathEvaluate
from toolsys.builtin.system_time import SystemTime
from toolsys.composition import Composition
from toolsys.credentials import Credentials
from toolsys.egress import EgressPolicy, policy_for
from toolsys.envelope import Envelope
from toolsys.execution import LoopThread, WorkerExecution
from toolsys.ids import uuid7
from toolsys.ports import Clock, Execution, Limits, Probe, Runtime, Tool, ToolProvider
from toolsys.probes import NoProbe, PausingProbe
from toolsys.registry import Registry
from toolsys.store import SqlStore


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
    tools: list[Tool] = [SystemTime(clock), MathEvaluate()]
    numbers = settings.TOOLSYS
    if numbers.demo:
        tools.append(DemoEcho())
    if numbers.demo and numbers.demo_effects_url:
        policy = policy_for(
            [numbers.demo_effects_url],
            open_networks=numbers.egress_private_cidrs,
            plain_http_hosts=numbers.egress_plain_http_hosts,
        )
        tools.append(DemoExternalWrite(numbers.demo_effects_url, policy))
    return tools


def probe() -> Probe:
    folder = settings.TOOLSYS.probe_dir
    return PausingProbe(Path(folder)) if folder else NoProbe()


def worker_name() -> str:
    return f"{socket.gethostname()}:{os.getpid()}"


def compose(providers: dict[str, ToolProvider], execution: Execution | None) -> Composition:
    clock, ids = SystemClock(), RandomIds()
    sealer = Envelope(settings.MASTER_ENCRYPTION_KEYS)
    bounds, crash_probe = limits(), probe()
    registry = Registry(
        builtins(clock), providers, selectors.read_pin, output_ceiling_bytes=bounds.output_ceiling_bytes
    )
    runtime = Runtime(
        store=SqlStore(sealer, clock, ids, bounds, crash_probe, worker_name()),
        registry=registry,
        policy=MatrixGate(),
        desk=SeatDesk(settings.TOOLSYS.approval_expiry_seconds, settings.TOOLSYS.approval_consume_seconds),
        sealer=sealer,
        artifacts=StoredArtifacts(FileSystemStorage(settings.TOOLSYS.data_dir / "artifacts"), sealer, ids),
        credentials=Credentials(sealer, settings.TOOLSYS.secrets_dir),
        clock=clock,
        ids=ids,
        probe=crash_probe,
        limits=bounds,
        providers=providers,
        execution=execution,
    )
    return Composition(runtime, registry)


def credentials() -> Credentials:
    return Credentials(Envelope(settings.MASTER_ENCRYPTION_KEYS), settings.TOOLSYS.secrets_dir)


def stdio_commands() -> dict[str, StdioCommand]:
    """What a stdio server's row may name: deployment configuration, which no tenant can write."""
    servers = settings.TOOLSYS.stdio_servers
    return {name: StdioCommand(server.argv, server.environment) for name, server in servers.items()}


def egress_of(config: ServerConfig) -> EgressPolicy:
    """A server may be dialled at its own origin and its token endpoint's; addresses are checked all the same."""
    numbers = settings.TOOLSYS
    return policy_for(
        [config.endpoint, *([config.token_endpoint] if config.token_endpoint else [])],
        open_networks=numbers.egress_private_cidrs,
        plain_http_hosts=numbers.egress_plain_http_hosts,
    )


def mcp_provider(workbench: Workbench | None = None) -> McpProvider:
    numbers = settings.TOOLSYS
    return McpProvider(
        SystemClock(),
        stdio_commands(),
        numbers.global_output_ceiling_bytes,
        workbench,
        numbers.mcp_discovery_reuse_seconds,
    )


def compose_web() -> Composition:
    return compose({"mcp": mcp_provider()}, None)


def compose_worker(execution: WorkerExecution, workbench: Workbench) -> Composition:
    return compose({"mcp": mcp_provider(workbench)}, execution)


def open_mcp(loop: LoopThread) -> Workbench:
    """Import the SDK and make the pool of connections; once, before the worker takes work."""
    return open_workbench(loop.run, credentials().of, egress_of)
