"""`make bench`: the call path against its floor, in one run on one machine.

Starts a stack of its own (durable PostgreSQL, Valkey, web, one worker, scheduler), and measures: the floor; the bare
MCP SDK on a warm session; `POST …/steps` with a no-op builtin and with an MCP echo over HTTP, at 1 and 16 connections.
It ends with one line of JSON. Figures are medians; machines are noisy, ratios less so.
"""

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT))

from config.supervisor import dies_with_parent  # noqa: E402
from tests.bench.load import Figures, drive, figures  # noqa: E402

CALLS = int(os.environ.get("BENCH_CALLS", "1000"))
WARM_UP = 200


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def running(*argv: str, port: int | None = None) -> Iterator["subprocess.Popen[bytes]"]:
    child = subprocess.Popen(
        [sys.executable, *argv], cwd=ROOT, start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        preexec_fn=dies_with_parent(signal.SIGTERM),
    )  # fmt: skip
    try:
        for _ in range(300):
            if port is None or _listens(port):
                break
            time.sleep(0.1)
        yield child
    finally:
        child.terminate()
        try:
            child.wait(15)
        except subprocess.TimeoutExpired:
            child.kill()


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def cpu_seconds(group: int) -> float:
    """Return the CPU time of every process of a group, in seconds."""
    total = 0
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[2]) == group:
            total += int(fields[11]) + int(fields[12])
    return total / os.sysconf("SC_CLK_TCK")


class Runtime:
    """An agent runtime of the bench's own tenant."""

    def __init__(self, port: int, key: str) -> None:
        self.port, self.key, self._step = port, key, 0
        session = self._post("/v1/sessions", {"agent": "bench", "principal": "bench"})
        self.run = self._post(f"/v1/sessions/{session['id']}/runs", {})["id"]

    def _post(self, path: str, body: Any) -> Any:
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}{path}", json.dumps(body).encode())
        request.add_header("Authorization", f"Bearer {self.key}")
        request.add_header("Content-Type", "application/json")
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.loads(answer.read())

    def measure(self, tool: str, count: int, concurrency: int) -> Figures:
        base = self._step
        self._step += count
        head = (
            f"POST /v1/runs/{self.run}/steps HTTP/1.1\r\nAuthorization: Bearer {self.key}\r\n"
            "Content-Type: application/json\r\nPrefer: wait=30"
        )

        def request(number: int) -> tuple[str, bytes]:
            # Each call says something else: the fifth identical one of a run is not performed.
            call = {"call_id": "a", "name": tool, "arguments": {"text": f"hi {base + number}"}}
            return head, json.dumps({"step_number": base + number, "calls": [call]}).encode()

        return asyncio.run(drive(self.port, count, concurrency, request, _succeeded))


def _succeeded(status: int, body: bytes) -> bool:
    return status == 200 and b'"status":"succeeded"' in body


async def measure_sdk(url: str, count: int) -> Figures:
    from mcp import Client

    taken: list[float] = []
    async with Client(url) as client:
        begun = time.perf_counter()
        for _ in range(count):
            started = time.perf_counter()
            await client.call_tool("echo", {"text": "hi"})
            taken.append(time.perf_counter() - started)
        return figures(taken, time.perf_counter() - begun)


def seed(echo_url: str) -> str:
    """Make the bench's tenant with its echo server; return a key."""
    import django

    django.setup()
    from config import wiring
    from mcpcatalog import services as mcp
    from mcpcatalog.remote import ServerConfig, Transport
    from toolsys import provisioning
    from toolsys.domain.spec import Classification, IdempotencyClass, RiskLevel, SideEffectClass

    provisioning.create_tenant("bench", "Bench", is_tool_calling_enabled=True)
    provisioning.save_agent("bench", "bench", ["demo.*", "mcp.*"])
    provisioning.save_principal("bench", "bench", [])
    read = Classification(
        side_effect=SideEffectClass.NETWORK_READ, risk=RiskLevel.LOW, idempotency=IdempotencyClass.READ_ONLY
    )
    config = ServerConfig(
        tenant_id="bench", server_id="echo", transport=Transport.HTTP, endpoint=echo_url, classification=read,
        is_stateless=True,
    )  # fmt: skip
    mcp.register_server(
        config, policy=wiring.egress_of(config), stdio_names=(), output_ceiling_bytes=1_048_576, using="operator"
    )
    return provisioning.create_api_key("bench", "bench", [])[1]


def main() -> None:
    from config import embedded

    with tempfile.TemporaryDirectory(prefix="toolsys-bench-") as folder:
        data = Path(folder)
        data.chmod(0o755)
        web_port, echo_port = free_port(), free_port()
        servers = embedded.start(data / "data", durable=True)
        try:
            os.environ.update({
                **servers.environment(), "SECRET_KEY": "bench-" + "0" * 44, "TOOLSYS_DEMO": "1", "LOG_LEVEL": "ERROR",
                "MASTER_ENCRYPTION_KEY": "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=",
                "DJANGO_SETTINGS_MODULE": "config.settings", "TOOLSYS_DATA_DIR": str(data / "files"),
                "TOOLSYS_EGRESS_PRIVATE_CIDRS": "127.0.0.1/32",
                "TOOLSYS_EGRESS_PLAIN_HTTP_HOSTS": f"127.0.0.1:{echo_port}",
            })  # fmt: skip
            subprocess.run(
                [sys.executable, "manage.py", "migrate", "--database", "owner", "-v", "0"], cwd=ROOT, check=True
            )
            bench(web_port, echo_port)
        finally:
            servers.stop()


def bench(web_port: int, echo_port: int) -> None:
    from tests.bench import floor

    echo_url = f"http://127.0.0.1:{echo_port}/mcp"
    web_argv = (
        *("-m", "granian", "--interface", "wsgi", "--host", "127.0.0.1", "--port", str(web_port), "--workers", "1"),
        *("--blocking-threads", "32", "--no-ws", "--log-level", "error", "config.wsgi:application"),
    )
    floor.prepare()
    key = seed(echo_url)
    with (
        running("-m", "tests.bench.echo_server", str(echo_port), port=echo_port),
        running(*web_argv, port=web_port) as web,
        running("manage.py", "worker") as worker,
        running("manage.py", "scheduler"),
        running("-m", "tests.bench.floor", "serve"),
    ):
        at_floor, floor_16 = floor.measure(web_port, CALLS), floor.measure(web_port, CALLS * 2, 16)
        sdk = asyncio.run(measure_sdk(echo_url, CALLS))
        runtime = Runtime(web_port, key)
        runtime.measure("demo.echo", WARM_UP, 4)
        time.sleep(6)  # autovacuum gives the fresh tables their statistics
        runtime.measure("demo.echo", WARM_UP, 16)
        before = cpu_seconds(web.pid), cpu_seconds(worker.pid)
        builtin_1 = runtime.measure("demo.echo", CALLS, 1)
        after = cpu_seconds(web.pid), cpu_seconds(worker.pid)
        builtin_16 = runtime.measure("demo.echo", CALLS * 2, 16)
        runtime.measure("mcp.echo.echo", WARM_UP, 4)
        mcp_1 = runtime.measure("mcp.echo.echo", CALLS, 1)
        mcp_16 = runtime.measure("mcp.echo.echo", CALLS, 16)
    for name, found in (
        ("floor, 1", at_floor), ("floor, 16", floor_16), ("sdk, warm", sdk), ("builtin, 1", builtin_1),
        ("builtin, 16", builtin_16), ("mcp echo, 1", mcp_1), ("mcp echo, 16", mcp_16),
    ):  # fmt: skip
        print(f"{name:14s} {found}")
    print(json.dumps({
        "floor_p50_ms": round(at_floor.p50_ms, 2), "sdk_p50_ms": round(sdk.p50_ms, 2),
        "builtin_p50_ms": round(builtin_1.p50_ms, 2), "builtin_p99_ms": round(builtin_1.p99_ms, 2),
        "builtin_calls_per_s": round(builtin_16.per_second, 1), "mcp_p50_ms": round(mcp_1.p50_ms, 2),
        "mcp_calls_per_s": round(mcp_16.per_second, 1),
        "ratio_to_floor": round(builtin_1.p50_ms / at_floor.p50_ms, 2),
        "floor_calls_per_s": round(floor_16.per_second, 1),
        "ratio_to_floor_per_s": round(floor_16.per_second / builtin_16.per_second, 2),
        "web_cpu_ms_per_call": round((after[0] - before[0]) / CALLS * 1000, 2),
        "worker_cpu_ms_per_call": round((after[1] - before[1]) / CALLS * 1000, 2),
    }))  # fmt: skip


if __name__ == "__main__":
    main()
