"""Servers that nobody here wrote, from PyPI and npm: listed, mapped and called, over pipes and where they can HTTP.

Those from npm are installed by `tests/npm/install.sh`, which `make test` runs.
"""

import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from mcpcatalog.mapping import map_catalog
from mcpcatalog.remote import ServerConfig, StdioCommand, Transport
from mcpcatalog.sdk.connection import Timeouts
from tests.catalogs.real import FROM_NPM, NODE, NPM, PYPI, Real, placed, script
from tests.integration.mcp.conftest import Bench
from tests.integration.processes import child_process
from tests.spec.requirements import gate

pytestmark = pytest.mark.slow

needs_npm = pytest.mark.skipif(NODE is None, reason=f"nothing is installed at {NPM}: sh tests/npm/install.sh")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder that is a repository with one commit."""
    git = ("git", "-C", str(tmp_path), "-c", "user.name=a", "-c", "user.email=a@example.org")
    subprocess.run([*git, "init", "-q"], check=True)
    (tmp_path / "file").write_text("text")
    subprocess.run([*git, "add", "."], check=True)
    subprocess.run([*git, "commit", "-qm", "first words"], check=True)
    return tmp_path


def used(here: Bench, real: Real, config: ServerConfig, folder: Path) -> None:
    catalog = here.run(here.connect(config).discover(), 60.0)
    generation = map_catalog(config, catalog, output_ceiling_bytes=1_048_576)
    rejected = tuple(bad.remote_name for bad in generation.rejected)
    assert (catalog.revision, len(catalog.tools), rejected, generation.conflicts) == (
        real.revision, real.tools, real.rejected, (),
    )  # fmt: skip
    answers = [here.call(config, name, 30.0, **placed(arguments, folder)) for name, arguments in real.calls]
    assert [answer.is_error for answer in answers] == [False] * len(answers)
    assert real.holds in str([(answer.content, answer.structured) for answer in answers])
    name, arguments = real.refused
    refused = here.call(config, name, 30.0, **placed(arguments, folder))
    assert (refused.is_error, refused.effect) == (True, "unknown")


def over_stdio(bench: Callable[..., Bench], name: str, real: Real, folder: Path) -> None:
    command = StdioCommand(tuple(placed(real.argv, folder)), placed(real.environment, folder))
    config = ServerConfig("acme", name.replace("-", "_"), Transport.STDIO, name, command=command)
    used(bench(timeouts=Timeouts(connect=60, probe=20, request=30)), real, config, folder)


@gate("mcp.real_servers")
@pytest.mark.parametrize("name", PYPI)
def test_a_server_of_pypi_is_called_over_a_pipe(bench: Callable[..., Bench], folder: Path, name: str) -> None:
    over_stdio(bench, name, PYPI[name], folder)


@needs_npm
@gate("mcp.real_servers")
@pytest.mark.parametrize("name", FROM_NPM)
def test_a_server_of_npm_is_called_over_a_pipe(bench: Callable[..., Bench], folder: Path, name: str) -> None:
    over_stdio(bench, name, FROM_NPM[name], folder)


@contextmanager
def serving_everything() -> Iterator[str]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    process = child_process(
        script("server-everything", "streamableHttp"), env={"PORT": str(port), "PATH": "/usr/bin:/bin"},
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline and process.poll() is None:
            try:
                socket.create_connection(("127.0.0.1", port), 0.2).close()
                break
            except OSError:
                time.sleep(0.05)
        yield f"http://127.0.0.1:{port}/mcp"
    finally:
        process.kill()
        process.wait()


@needs_npm
@gate("mcp.real_servers")
def test_a_server_of_npm_is_called_over_http(bench: Callable[..., Bench], folder: Path) -> None:
    with serving_everything() as url:
        config = ServerConfig("acme", "everything", Transport.HTTP, url)
        here = bench(timeouts=Timeouts(connect=60, probe=20, request=30))
        used(here, FROM_NPM["everything"], config, folder)
        here.run(here.pool.close_all())
