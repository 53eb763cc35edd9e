"""`make bench-mcp`: MCP in a worker process, against the bare SDK in the same run on the same machine.

A warm call is what step 10 does for an MCP tool (`prepare` has connected; `execute` acquires, checks the login and the
pin, sends, renders), on the worker's loop; the bare SDK calls the same tool on a warm session of its own, in turns.
Neither includes the pipeline's commits. It says which of issue 4's bounds are kept, fails where one is not, and ends
with one line of JSON; figures are medians.
"""

import asyncio
import contextlib
import json
import os
import resource
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from uuid import UUID, uuid4

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT))

from tests.bench.calls import _listens, free_port, running  # noqa: E402

CATALOGS: Final = Path(os.environ.get("MCP_CATALOGS", ROOT.parent / "shared" / "corpus" / "catalogs"))
PEER: Final = str(ROOT / "tests" / "integration" / "mcp" / "stdio_peer.py")
BLOCKS, CALLS = 12, 40
CONNECTIONS: Final = 200
IDLE_SECONDS: Final = 10.0
PATIENCE_SECONDS: Final = 240.0
# Issue 4, "Figures". Without recorded catalogs the opening of a session is not measured, and so not kept.
BOUNDS: Final = {
    "ratio_to_session": 1.3, "new_connection_ms": 10.0, "session_open_ms": 150.0, "killed_stdio_ms": 100.0,
    "killed_http_ms": 100.0,
}  # fmt: skip


def median_ms(seconds: list[float]) -> float:
    return round(statistics.median(seconds) * 1_000, 2)


@contextlib.contextmanager
def serving(module: str, port: int) -> Iterator["subprocess.Popen[bytes]"]:
    """Run a server of the bench, with patience for a machine that is busy with something else."""
    with running("-m", module, str(port)) as server:
        end = time.monotonic() + PATIENCE_SECONDS
        while not _listens(port):
            assert time.monotonic() < end, f"{module} did not start"
            assert server.poll() is None, f"{module} ended"
            time.sleep(0.1)
        yield server


@dataclass
class Taken:
    """Seconds on the wall, and of the loop's thread: what others do on the machine is only in the first."""

    wall: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)

    async def by(self, work: Coroutine[Any, Any, Any]) -> None:
        begun, used = time.perf_counter(), time.thread_time()
        await work
        self.wall.append(time.perf_counter() - begun)
        self.cpu.append(time.thread_time() - used)


@dataclass
class Nothing:
    """Stands where a call's context has what this tool does not use."""

    artifacts: Any = None
    invocation_id: UUID = field(default_factory=uuid4)
    session_id: UUID = field(default_factory=uuid4)
    idempotency_key: str = ""
    timeout_seconds: float = 30.0
    maximum_output_bytes: int = 65_536

    @property
    def credentials(self) -> "Nothing":
        return self

    async def resolve(self, reference: str) -> Any:
        raise LookupError(reference)


def adapter(url: str, pool: Any) -> Any:
    """Return the bound tool as a worker's provider makes it, with the pin that a discovery would give."""
    from config import wiring
    from mcpcatalog import mapping
    from mcpcatalog.discoveries import Discoveries
    from mcpcatalog.ladder import Ladder
    from mcpcatalog.remote import RemoteTool, ServerConfig, Transport
    from mcpcatalog.tool import McpTool

    config = ServerConfig("bench", "echo", Transport.HTTP, url)
    declared = RemoteTool("echo", "d", {"type": "object", "properties": {"text": {"type": "string"}}})
    spec, clock = mapping.spec_of(config, declared, "v"), wiring.SystemClock()
    pinned = mapping.declaration_hash(declared)
    return McpTool(spec, config, "echo", pinned, pool, Ladder(clock), Discoveries(clock, 1_048_576))


async def warm_calls(url: str, pool: Any) -> dict[str, Taken]:
    """Take turns, block by block, so that what else this machine does falls on all of them."""
    import httpx2
    from mcp import Client, ClientSession
    from mcp.client.streamable_http import streamable_http_client

    tool, context = adapter(url, pool), Nothing()
    connection = await tool._connection(context)
    connection.declared = {"echo": tool.declaration_hash}
    found = {"adapter": Taken(), "client": Taken(), "session": Taken()}
    async with (
        Client(url) as client,
        httpx2.AsyncClient() as http,
        streamable_http_client(url, http_client=http) as (read, write),
        ClientSession(read, write) as session,
    ):
        await session.discover()
        calls: dict[str, Callable[[], Coroutine[Any, Any, Any]]] = {
            "adapter": lambda: tool.execute({"text": "hi"}, context),
            "client": lambda: client.call_tool("echo", {"text": "hi"}),
            "session": lambda: session.call_tool("echo", {"text": "hi"}),
        }
        for call in calls.values():
            for _ in range(CALLS):
                await call()
        for _ in range(BLOCKS):
            for name, call in calls.items():
                for _ in range(CALLS):
                    await found[name].by(call())
    return found


async def new_connections(url: str, pool: Any) -> tuple[Taken, Taken]:
    """Each session opens its own: as such, and as the first call of a session does, which lists it and records that.

    The first ten of each warm the path.
    """
    tool, bare, listed = adapter(url, pool), Taken(), Taken()
    for number in range(60):
        await bare.by(pool.acquire(tool.server, f"new-{number}", Nothing().resolve))
        await listed.by(tool._connection(Nothing()))
    return Taken(bare.wall[10:], bare.cpu[10:]), Taken(listed.wall[10:], listed.cpu[10:])


async def killed_over_stdio(pool: Any) -> list[float]:
    from mcpcatalog.remote import CallSpec, ServerConfig, StdioCommand, Transport

    config = ServerConfig("bench", "peer", Transport.STDIO, "peer", command=StdioCommand((sys.executable, PEER)))

    async def one(number: int) -> float:
        connection = await pool.acquire(config, f"killed-{number}", Nothing().resolve)
        pid = (await connection.call(CallSpec("environment", {}, 5.0))).structured["pid"]
        return await _reported(connection.call(CallSpec("hang", {}, 20.0)), lambda: os.kill(pid, signal.SIGKILL))

    return [await one(number) for number in range(10)]


async def killed_over_http(pool: Any) -> list[float]:
    from mcpcatalog.remote import CallSpec, ServerConfig, Transport

    async def one() -> float:
        port = free_port()
        stalling = serving("tests.bench.stalling_server", port)
        server = await asyncio.to_thread(stalling.__enter__)
        try:
            config = ServerConfig("bench", "stalls", Transport.HTTP, f"http://127.0.0.1:{port}/mcp")
            connection = await pool.acquire(config, f"killed-{port}", Nothing().resolve)
            return await _reported(connection.call(CallSpec("stall", {}, 20.0)), server.kill)
        finally:
            await asyncio.to_thread(stalling.__exit__, None, None, None)

    return [await one() for _ in range(5)]


async def _reported(call: Coroutine[Any, Any, Any], kill: Callable[[], object]) -> float:
    """Return the time from the server's death to the call's end."""
    from mcpcatalog.remote import ServerUnreachable

    task = asyncio.create_task(call)
    await asyncio.sleep(0.3)
    begun = time.perf_counter()
    kill()
    with contextlib.suppress(ServerUnreachable):
        await task
        raise AssertionError("the call ended as if nothing had happened")
    return time.perf_counter() - begun


async def idle_connections(url: str, pool: Any) -> dict[str, float]:
    """Hold 200 warm connections, one session each, and look at what they cost while nobody uses them."""
    tool, before = adapter(url, pool), _resident_kb()
    for _ in range(CONNECTIONS):
        context = Nothing()
        (await tool._connection(context)).declared = {"echo": tool.declaration_hash}
        await tool.execute({"text": "hi"}, context)
    held = len(pool.sessions())
    await asyncio.sleep(1.0)
    used = _cpu_seconds()
    await asyncio.sleep(IDLE_SECONDS)
    found = {
        "connections": held, "connections_mb": round((_resident_kb() - before) / 1024, 1),
        "worker_mb": round(_resident_kb() / 1024, 1),
        "idle_cpu_percent": round((_cpu_seconds() - used) / IDLE_SECONDS * 100, 2),
    }  # fmt: skip
    await pool.close_all(drain_seconds=0.1)
    return found


def _resident_kb() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * (os.sysconf("SC_PAGE_SIZE") // 1024)


def _cpu_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def remember_catalogs() -> int:
    """Have a tenant with every recorded server as discovered just now; return the number of its tools."""
    from config import wiring
    from mcpcatalog import mapping, services
    from mcpcatalog.remote import Catalog, ServerConfig, Transport
    from mcpcatalog.sdk import listing
    from toolsys import provisioning
    from toolsys.egress import policy_for

    provisioning.create_tenant("bench", "Bench", is_tool_calling_enabled=True)
    provisioning.save_agent("bench", "bench", ["*"])
    provisioning.save_principal("bench", "bench", [])
    count, now = 0, wiring.SystemClock().now()
    for path in sorted(CATALOGS.glob("*.json")):
        tools, rejected = listing.sorted_out(json.loads(path.read_text())["tools"], checks_headers=False)
        slug = path.stem.lower().replace("-", "_")
        config = ServerConfig("bench", slug, Transport.HTTP, f"https://{path.stem}.example/mcp")
        services.register_server(
            config, policy=policy_for([config.endpoint]), stdio_names=(), output_ceiling_bytes=1_048_576,
            using="operator",
        )  # fmt: skip
        catalog = Catalog(tools, rejected, "2026-07-28")
        generation = mapping.map_catalog(config, catalog, output_ceiling_bytes=1_048_576)
        services.record_discovery(config, catalog, generation, at=now)
        count += len(generation.tools)
    return count


def session_opens() -> dict[str, float]:
    """Open sessions: again with what a process knows, after a change of every server, and first in a process."""
    from django.db.models import F

    from config import wiring
    from mcpcatalog.models import McpServer
    from toolsys import provisioning, services
    from toolsys.tenancy import tenant_transaction

    tools = remember_catalogs()
    key = provisioning.create_api_key("bench", "bench", [])[0]
    house = wiring.compose_web()

    def open_many(count: int, before: Callable[[], object] = lambda: None) -> tuple[Taken, Any]:
        taken = Taken()
        for _ in range(count):
            before()
            begun, used = time.perf_counter(), time.thread_time()
            session = services.open_session(
                tenant_id="bench", api_key_id=key.id, agent_name="bench", principal_id="bench",
                environment="production", profile=None, runtime=house.runtime, registry=house.registry,
            )  # fmt: skip
            taken.wall.append(time.perf_counter() - begun)
            taken.cpu.append(time.thread_time() - used)
        return taken, session

    def classify() -> None:
        """Every server counts as something else: all specs, the pin and the stored set are new."""
        with tenant_transaction("bench", "operator"):
            servers = McpServer.objects.using("operator").filter(tenant_id="bench")
            servers.update(timeout_seconds=F("timeout_seconds") + 1)

    first, session = open_many(1)
    taken, _ = open_many(25)
    changed, _ = open_many(9, classify)
    pinned = len([name for name in json.dumps(session.tool_set.tools).split('"mcp.') if name]) - 1
    assert pinned >= tools, (pinned, tools)
    return {
        "session_open_ms": median_ms(taken.wall[3:]), "session_open_cpu_ms": median_ms(taken.cpu[3:]),
        "session_changed_ms": median_ms(changed.wall), "session_changed_cpu_ms": median_ms(changed.cpu),
        "session_first_ms": median_ms(first.wall), "tools": tools,
    }  # fmt: skip


def bench() -> dict[str, float]:
    from mcpcatalog.sdk.pool import ConnectionPool
    from toolsys.egress import policy_for
    from toolsys.execution import LoopThread

    port = free_port()
    url = f"http://127.0.0.1:{port}/mcp"
    loop = LoopThread()

    def policy(config: Any) -> Any:
        return policy_for(
            [config.endpoint], open_networks=["127.0.0.1/32"], plain_http_hosts=[config.endpoint.split("/")[2]]
        )  # fmt: skip

    pool = ConnectionPool(policy)
    with serving("tests.bench.echo_server", port):
        calls = loop.run(warm_calls(url, pool), PATIENCE_SECONDS * 4)
        from_threads = _from_thread(loop, adapter(url, pool))
        fresh, listed = loop.run(new_connections(url, pool), PATIENCE_SECONDS)
        loop.run(pool.close_all(drain_seconds=0.1), PATIENCE_SECONDS)
        idle = loop.run(idle_connections(url, ConnectionPool(policy)), PATIENCE_SECONDS)
    pool = ConnectionPool(policy)
    stdio = loop.run(killed_over_stdio(pool), PATIENCE_SECONDS)
    http = loop.run(killed_over_http(pool), PATIENCE_SECONDS * 2)
    loop.run(pool.close_all(drain_seconds=0.1), 60)
    loop.stop()
    return {
        **{f"{name}_call_ms": median_ms(taken.wall) for name, taken in calls.items()},
        **{f"{name}_call_cpu_ms": median_ms(taken.cpu) for name, taken in calls.items()},
        "cpu_ratio_to_session": _ratio(calls["adapter"].cpu, calls["session"].cpu),
        "ratio_to_session": _ratio(calls["adapter"].wall, calls["session"].wall),
        "ratio_to_client": _ratio(calls["adapter"].wall, calls["client"].wall),
        "adapter_from_job_thread_ms": median_ms(from_threads),
        "new_connection_ms": median_ms(fresh.wall), "new_connection_cpu_ms": median_ms(fresh.cpu),
        "listed_connection_ms": median_ms(listed.wall),
        "killed_stdio_ms": median_ms(stdio), "killed_http_ms": median_ms(http), **idle,
    }  # fmt: skip


def _ratio(ours: list[float], bare: list[float]) -> float:
    """The median over the blocks of one block's median over the other's: what comes in bursts cancels out."""
    blocks = [slice(at, at + CALLS) for at in range(0, BLOCKS * CALLS, CALLS)]
    return round(statistics.median(statistics.median(ours[b]) / statistics.median(bare[b]) for b in blocks), 2)


def _from_thread(loop: Any, tool: Any) -> list[float]:
    """As job threads do it: with the way to the loop and back."""
    context, taken = Nothing(), []

    async def ready() -> None:
        (await tool._connection(context)).declared = {"echo": tool.declaration_hash}

    loop.run(ready(), 10)
    for _ in range(CALLS * 4):
        begun = time.perf_counter()
        loop.run(tool.execute({"text": "hi"}, context), 10)
        taken.append(time.perf_counter() - begun)
    return taken[CALLS:]


@contextlib.contextmanager
def servers() -> Iterator[None]:
    from config import embedded

    with tempfile.TemporaryDirectory(prefix="toolsys-bench-") as folder:
        data = Path(folder)
        data.chmod(0o755)
        running_servers = embedded.start(data / "data", durable=True)
        try:
            os.environ.update({
                **running_servers.environment(), "SECRET_KEY": "bench-" + "0" * 44, "TOOLSYS_DEMO": "1",
                "MASTER_ENCRYPTION_KEY": "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=", "LOG_LEVEL": "ERROR",
                "DJANGO_SETTINGS_MODULE": "config.settings", "TOOLSYS_DATA_DIR": str(data / "files"),
            })  # fmt: skip
            subprocess.run(
                [sys.executable, "manage.py", "migrate", "--database", "owner", "-v", "0"], cwd=ROOT, check=True
            )
            yield
        finally:
            running_servers.stop()


def main() -> int:
    with servers():
        import django

        django.setup()
        found = bench()
        if CATALOGS.is_dir():
            found |= session_opens()
        else:
            print(f"no recorded catalogs in {CATALOGS}: the opening of a session was not measured")
    for name, value in found.items():
        print(f"{name:28s} {value}")
    passed = [said(name, bound, found) for name, bound in BOUNDS.items()]
    print(f"load average {' '.join(f'{load:.1f}' for load in os.getloadavg())}")
    print(json.dumps(found))
    return 0 if all(passed) else 1


def said(name: str, bound: float, found: dict[str, float]) -> bool:
    """Print whether a bound is kept."""
    is_kept = name in found and found[name] <= bound
    print(f"{'kept' if is_kept else 'NOT KEPT':8s} {name:28s} {found.get(name, 'not measured')} of {bound}")
    return is_kept


if __name__ == "__main__":
    sys.exit(main())
