"""Servers as child processes: the environment they get, how they end, and that nothing of them stays behind."""

import asyncio
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from mcpcatalog import remote
from mcpcatalog.remote import AuthScheme, StdioCommand
from mcpcatalog.sdk.connection import Timeouts
from tests.integration.mcp.conftest import PEER, TIME_SERVER, Bench, is_gone, peer, stdio
from tests.integration.processes import child_process, eventually, is_alive
from tests.spec.requirements import gate

pytestmark = pytest.mark.slow


def test_a_real_server_is_discovered_and_called(bench: Callable[..., Bench]) -> None:
    here, config = bench(), stdio(*TIME_SERVER, name="time")
    catalog = here.run(here.connect(config).discover())
    assert (catalog.revision, catalog.server_name, [tool.name for tool in catalog.tools]) == (
        "2026-07-28", "mcp-time", ["get_current_time", "convert_time"],
    )  # fmt: skip
    answer = here.call(config, "get_current_time", timezone="Europe/Paris")
    assert (answer.is_error, answer.structured["timezone"]) == (False, "Europe/Paris")
    assert here.call(config, "get_current_time", timezone="No/Where").is_error


@gate("gate.16")
def test_the_environment_is_constructed_and_the_credential_is_its_one_variable(
    bench: Callable[..., Bench], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SENTINEL", "of the worker")
    monkeypatch.setenv("DATABASE_URL", "of the worker")
    here = bench()
    found = here.call(
        peer(auth_scheme=AuthScheme.ENV, credential_ref="env:s3cret", auth_name="API_KEY"), "environment"
    ).structured
    environment = found["environment"]
    assert environment.pop("API_KEY") == "s3cret"
    environment.pop("LC_CTYPE", None)  # set by the child's own interpreter
    home = environment.pop("HOME")
    assert environment == {
        "PATH": "/usr/local/bin:/usr/bin:/bin", "LANG": "C.UTF-8", "TZ": "UTC", "TMPDIR": f"{home}/tmp",
    }  # fmt: skip
    assert (found["cwd"], Path(home).stat().st_mode & 0o777) == (home, 0o700)
    assert "s3cret" not in Path(f"/proc/{found['pid']}/cmdline").read_text()
    here.run(here.pool.close_all())
    assert not Path(home).exists()
    assert is_gone(found["pid"])


def test_what_the_deployment_declares_for_a_command_is_added(bench: Callable[..., Bench]) -> None:
    config = peer()
    command = StdioCommand((sys.executable, PEER), {"TIMEZONES": "all"})
    config = remote.ServerConfig("acme", "peer", remote.Transport.STDIO, "peer", command=command)
    assert bench().call(config, "environment").structured["environment"]["TIMEZONES"] == "all"


def test_a_killed_child_is_noticed_reaped_and_replaced(bench: Callable[..., Bench]) -> None:
    here, config = bench(), peer()
    first = here.call(config, "environment").structured["pid"]
    os.kill(first, signal.SIGKILL)
    assert is_gone(first)
    second = None
    for _ in range(5):
        try:
            second = here.call(config, "environment").structured["pid"]
            break
        except remote.ServerUnreachable as lost:
            # Gone, and its end not yet read whole: such a call was never sent, and is one that a worker repeats.
            if lost.effect != "not_applied":
                raise
    assert second is not None
    assert second != first


def test_a_child_that_dies_during_a_call_leaves_the_outcome_unknown(bench: Callable[..., Bench]) -> None:
    here = bench()
    started = time.monotonic()
    with pytest.raises(remote.ServerUnreachable) as raised:
        here.call(peer(), "die")
    assert raised.value.effect == "unknown"
    assert time.monotonic() - started < 4


@pytest.mark.parametrize(("tool", "error"), [("hang", remote.RequestTimeout), ("flood", remote.ResponseTooLarge)])
def test_a_child_that_hangs_or_floods_is_bounded(
    bench: Callable[..., Bench], tool: str, error: type[remote.RemoteError]
) -> None:
    here = bench(message_bytes=1_000_000)
    with pytest.raises(error) as raised:
        here.call(peer(), tool, seconds=0.5 if tool == "hang" else 10.0)
    assert raised.value.effect == "unknown"


def test_a_child_that_ignores_the_end_of_its_input_and_the_term_signal_is_killed(
    bench: Callable[..., Bench], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mcpcatalog.sdk.stdio.GRACE_SECONDS", 0.2)
    here = bench()
    pid = here.call(peer("stubborn"), "environment").structured["pid"]
    here.run(here.pool.close_all(drain_seconds=0.1))
    assert is_gone(pid)


@pytest.mark.parametrize("kind", ["child", "daemon"])
def test_a_childs_own_children_end_with_it(bench: Callable[..., Bench], kind: str) -> None:
    here = bench()
    sleeper = here.call(peer(), kind).structured["pid"]
    here.run(here.pool.close_all(drain_seconds=0.1))
    assert is_gone(sleeper), "and nobody is left to reap it"


@pytest.mark.parametrize("kind", ["child", "daemon"])
def test_a_child_that_dies_takes_its_own_children_along(bench: Callable[..., Bench], kind: str) -> None:
    """One of them holds the child's standard output open: the end is noticed all the same."""
    here = bench()
    sleeper, pid = (here.call(peer(), name).structured["pid"] for name in (kind, "environment"))
    os.kill(pid, signal.SIGKILL)
    assert is_gone(sleeper)
    assert is_gone(pid)
    assert here.call(peer(), "environment").structured["pid"] != pid


@pytest.mark.parametrize("argv", [("/nonexistent/server",), (sys.executable, "-c", "raise SystemExit(3)")])
def test_a_command_that_does_not_start_is_unreachable(bench: Callable[..., Bench], argv: tuple[str, ...]) -> None:
    with pytest.raises(remote.ServerUnreachable) as raised:
        bench().connect(stdio(*argv))
    assert raised.value.effect == "not_applied"


def test_a_child_that_never_speaks_is_given_up_at_the_connect_time_out(bench: Callable[..., Bench]) -> None:
    here = bench(timeouts=Timeouts(connect=0.6, probe=0.2))
    started = time.monotonic()
    with pytest.raises(remote.ServerUnreachable):
        here.connect(peer("silent"))
    assert time.monotonic() - started < 6


def test_a_modern_server_that_is_slow_to_start_is_not_taken_for_an_old_one(bench: Callable[..., Bench]) -> None:
    slow = stdio(sys.executable, "-m", "mcp_server_time")
    connection = bench(timeouts=Timeouts(connect=20, probe=0.05)).connect(slow)
    assert connection.revision == "2026-07-28"


@gate("mcp.programs")
def test_a_name_that_the_deployment_does_not_define_starts_nothing(bench: Callable[..., Bench]) -> None:
    config = remote.ServerConfig("acme", "x", remote.Transport.STDIO, "/bin/sh -c id")
    with pytest.raises(remote.ProtocolViolation):
        bench().connect(config)


def test_force_close_ends_calls_and_processes_at_once(bench: Callable[..., Bench]) -> None:
    here = bench()
    connection = here.connect(peer())
    pid = here.call(peer(), "environment").structured["pid"]
    call = asyncio.run_coroutine_threadsafe(connection.call(remote.CallSpec("hang", {}, 20.0)), here.loop.loop)
    time.sleep(0.1)
    started = time.monotonic()
    here.loop.loop.call_soon_threadsafe(connection.force_close)
    with pytest.raises(remote.ServerUnreachable):
        call.result(5)
    assert time.monotonic() - started < 1
    assert is_gone(pid)


def test_a_killed_worker_leaves_nothing_of_its_servers(tmp_path: Path) -> None:
    script = f"""
        import asyncio
        from mcpcatalog.remote import CallSpec, ServerConfig, StdioCommand, Transport
        from mcpcatalog.sdk.pool import ConnectionPool

        async def main():
            command = StdioCommand(({sys.executable!r}, {PEER!r}))
            config = ServerConfig("acme", "peer", Transport.STDIO, "peer", command=command)
            connection = await ConnectionPool(lambda _config: None).acquire(config, "s", None)
            pids = [connection._child.process.pid]
            for tool in ("environment", "child", "daemon"):
                pids.append((await connection.call(CallSpec(tool, {{}}, 5.0))).structured["pid"])
            print(*pids, flush=True)
            await asyncio.sleep(60)

        asyncio.run(main())
    """
    command = [sys.executable, "-c", textwrap.dedent(script)]
    worker = child_process(command, stdout=subprocess.PIPE, env={**os.environ, "TMPDIR": str(tmp_path)})
    try:
        assert worker.stdout is not None
        pids = list(map(int, worker.stdout.readline().split()))
        # A server that has hung does not see its input end: only the keeper can end it.
        os.kill(pids[1], signal.SIGSTOP)
    finally:
        worker.kill()
        worker.wait()
    worker.stdout.close()
    keeper, *others = pids
    assert len(others) == 3
    assert all(map(is_gone, others)), "reaped, too"
    eventually(lambda: not is_alive(keeper), "the end of the keeper")
