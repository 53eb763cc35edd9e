"""Fixtures: the worker's loop in a thread, a pool on it, and the peers."""

import asyncio
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
import uvicorn

from config import wiring
from mcpcatalog import services
from mcpcatalog.provider import McpProvider, open_workbench
from mcpcatalog.remote import AuthScheme, CallResult, CallSpec, ServerConfig, StdioCommand, Transport
from mcpcatalog.sdk.connection import Connection, Timeouts
from mcpcatalog.sdk.pool import ConnectionPool, PoolLimits
from mcpcatalog.selectors import Commands
from tests.factories import Tenancy
from tests.integration.mcp.guarded import Guarded, Peer
from tests.integration.mcp.misbehaving import Misbehaving
from tests.integration.mcp.offering import ANY, Offer, Offering
from tests.integration.processes import child_process
from toolsys import services as platform
from toolsys.domain.context import SecretValue
from toolsys.egress import EgressPolicy, policy_for
from toolsys.execution import LoopThread, WorkerExecution
from toolsys.leases import LeaseKeeper
from toolsys.ports import Runtime
from toolsys.registry import Registry

LOCAL = ["127.0.0.1/32"]
PEER = str(Path(__file__).with_name("stdio_peer.py"))
TIME_SERVER = (sys.executable, "-m", "mcp_server_time", "--local-timezone", "UTC")


async def secret(reference: str) -> SecretValue:
    if reference == "env:MISSING":
        raise LookupError(reference)
    return SecretValue(reference.removeprefix("env:"))


@dataclass
class Bench:
    """A pool on a loop of its own, used from the test's thread as job threads use it."""

    loop: LoopThread
    pool: ConnectionPool

    def run[T](self, work: Coroutine[Any, Any, T], seconds: float = 15.0) -> T:
        return self.loop.run(work, seconds)

    def connect(self, config: ServerConfig, session: str = "s1") -> Connection:
        return self.run(self.pool.acquire(config, session, secret))

    def call(self, config: ServerConfig, tool: str = "t", seconds: float = 5.0, **arguments: Any) -> CallResult:
        async def go() -> CallResult:
            connection = await self.pool.acquire(config, "s1", secret)
            return await connection.call(CallSpec(tool, arguments, seconds))

        return self.run(go())


@pytest.fixture
def bench() -> Iterator[Callable[..., Bench]]:
    """Make benches; each is closed, and nothing of it may be left on its loop."""
    made: list[Bench] = []

    def make(*, timeouts: Timeouts | None = None, **limits: int) -> Bench:
        loop = LoopThread()

        made.append(Bench(loop, ConnectionPool(policy_of, timeouts=timeouts, limits=PoolLimits(**limits))))
        return made[-1]

    yield make
    for used in made:
        used.run(used.pool.close_all(drain_seconds=0.2))
        left = used.run(_tasks_left())
        used.loop.stop()
        used.loop.loop.close()
        assert left == []


async def _tasks_left() -> list[str]:
    await asyncio.sleep(0.05)
    return [repr(task) for task in asyncio.all_tasks() if task is not asyncio.current_task()]


def policy_of(config: ServerConfig) -> EgressPolicy:
    if config.transport is Transport.STDIO:
        return policy_for([])
    urls = [config.endpoint, *([config.token_endpoint] if config.token_endpoint else [])]
    return policy_for(urls, open_networks=LOCAL, plain_http_hosts=[config.endpoint.split("/")[2]])


@dataclass
class House:
    """One worker process's worth: a loop, a pool, a provider, and the runtime composed over them."""

    provider: McpProvider
    runtime: Runtime
    registry: Registry
    commands: Commands = field(default_factory=dict)
    policy_of: Callable[[ServerConfig], EgressPolicy] = lambda config: policy_of(config)

    def offer(self, tenancy: Tenancy, config: ServerConfig) -> Tenancy:
        """Register a server, discover it, and return the tenancy in a new session that pinned its tools."""
        services.register_server(
            config, policy=self.policy_of(config), stdio_names=tuple(self.commands), output_ceiling_bytes=1_048_576,
            using="operator",
        )  # fmt: skip
        self.provider.refresh(tenancy.id, config.server_id)
        return self.new_session(tenancy)

    def new_session(self, tenancy: Tenancy) -> Tenancy:
        web = wiring.compose({"mcp": McpProvider(wiring.SystemClock(), self.commands, 1_048_576)}, None)
        session = platform.open_session(
            tenant_id=tenancy.id, api_key_id=tenancy.key.id, agent_name="assistant", principal_id="user-1",
            environment="production", profile=None, runtime=web.runtime, registry=self.registry,
        )  # fmt: skip
        run = platform.start_run(
            tenant_id=tenancy.id, session_id=session.id, manifest=None, deadline_seconds=600, correlation_id="",
        )  # fmt: skip
        return replace(tenancy, session=session, run=run, runtime=web.runtime)


@pytest.fixture
def houses(database: None) -> Iterator[Callable[..., House]]:
    """Make workers, each with connections of its own; `commands` are the processes that their deployment defines, and
    `policy` what they may dial.
    """
    ends: list[Callable[[], None]] = []

    def make(commands: Commands | None = None, policy: Callable[[ServerConfig], EgressPolicy] = policy_of) -> House:
        loop, clock = LoopThread(), wiring.SystemClock()
        keeper = LeaseKeeper(clock, 2.0)
        keeper.start()
        workbench = open_workbench(loop.run, wiring.credentials().of, policy)
        ends.extend([loop.stop, keeper.stop, workbench.close])
        provider = McpProvider(clock, commands or {}, 1_048_576, workbench)
        composed = wiring.compose({"mcp": provider}, WorkerExecution(loop, keeper, clock))
        return House(provider, composed.runtime, composed.registry, commands or {}, policy)

    yield make
    for end in reversed(ends):
        end()


def stdio(*argv: str, name: str = "peer", **changes: Any) -> ServerConfig:
    return ServerConfig("acme", name, Transport.STDIO, name, command=StdioCommand(argv), **changes)


def peer(mode: str = "echo", **changes: Any) -> ServerConfig:
    return stdio(sys.executable, PEER, mode, **changes)


@dataclass
class Web:
    """The misbehaving server, listening."""

    app: Misbehaving
    port: int

    def at(self, scenario: str, era: str = "modern", **changes: Any) -> ServerConfig:
        url = f"http://127.0.0.1:{self.port}/{era}/{scenario}"
        return ServerConfig("acme", scenario, Transport.HTTP, url, **changes)


@dataclass
class Doors:
    """The server that asks for a login, listening; each peer has a name of its own."""

    app: Guarded
    port: int

    def peer(self, **behaviour: Any) -> tuple[str, Peer]:
        name = f"p{len(self.app.peers)}"
        self.app.peers[name] = Peer(**behaviour)
        return name, self.app.peers[name]

    def at(self, name: str, tenant_id: str = "acme", **changes: Any) -> ServerConfig:
        return ServerConfig(tenant_id, name, Transport.HTTP, f"http://127.0.0.1:{self.port}/mcp/{name}", **changes)

    def with_token(self, name: str, **changes: Any) -> ServerConfig:
        return self.at(
            name, auth_scheme=AuthScheme.OAUTH2_CLIENT, token_endpoint=f"http://127.0.0.1:{self.port}/token/{name}",
            **changes,
        )  # fmt: skip


@dataclass
class Market:
    """The server, listening; each offer has a name of its own."""

    app: Offering
    port: int

    def offer(self, tools: list[Any] | None = None, **capabilities: Any) -> tuple[str, Offer]:
        name = f"o{len(self.app.offers)}"
        listed = [{"name": "t", "description": "d", "inputSchema": ANY}] if tools is None else tools
        self.app.offers[name] = Offer({"tools/list": {"tools": listed}}, {"tools": {}, **capabilities})
        return name, self.app.offers[name]

    def at(self, name: str, tenant_id: str = "acme", era: str = "modern", **changes: Any) -> ServerConfig:
        return ServerConfig(tenant_id, name, Transport.HTTP, f"http://127.0.0.1:{self.port}/{era}/{name}", **changes)


@pytest.fixture(scope="session")
def web() -> Iterator[Web]:
    app = Misbehaving()
    with listening(app) as port:
        yield Web(app, port)


@pytest.fixture(scope="session")
def doors() -> Iterator[Doors]:
    app = Guarded()
    with listening(app) as port:
        yield Doors(app, port)


@pytest.fixture(scope="session")
def market() -> Iterator[Market]:
    app = Offering()
    with listening(app) as port:
        yield Market(app, port)


@contextmanager
def listening(app: Any, port: int = 0) -> Iterator[int]:
    settings = uvicorn.Config(app, port=0, log_level="critical", lifespan="off", timeout_graceful_shutdown=0)
    server = uvicorn.Server(settings)
    listener = socket.create_server(("127.0.0.1", port))
    thread = threading.Thread(target=server.run, args=([listener],), daemon=True)
    thread.start()
    yield listener.getsockname()[1]
    server.should_exit = server.force_exit = True
    thread.join(5)
    listener.close()


@pytest.fixture(scope="session")
def excel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A real server that nobody here wrote, over Streamable HTTP on a free port."""
    folder = tmp_path_factory.mktemp("excel")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "excel_mcp", "streamable-http", "--host", "127.0.0.1", "--port", str(port),
               "--allow-dir", str(folder)]  # fmt: skip
    process = child_process(command, cwd=folder, stderr=subprocess.DEVNULL)
    try:
        _wait_for(port, process)
        yield f"http://127.0.0.1:{port}/mcp"
    finally:
        process.kill()
        process.wait()


def _wait_for(port: int, process: "subprocess.Popen[bytes]") -> None:
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline and process.poll() is None:
        try:
            socket.create_connection(("127.0.0.1", port), 0.2).close()
        except OSError:
            time.sleep(0.05)
        else:
            return
    raise AssertionError("the server did not start")


def is_gone(pid: int, seconds: float = 5.0) -> bool:
    """Wait until a process is gone, reaped included: a zombie still has an entry."""
    deadline = time.monotonic() + seconds
    while Path(f"/proc/{pid}").exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    return not Path(f"/proc/{pid}").exists()
