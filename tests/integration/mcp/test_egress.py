"""A server's URL that leads inside: refused where it is written and again where it is dialled, without a connection."""

import socket
from collections.abc import Iterator
from dataclasses import replace

import pytest
from django.conf import settings

from config import wiring
from mcpcatalog import remote
from mcpcatalog.remote import ServerConfig, Transport
from mcpcatalog.sdk.pool import ConnectionPool
from mcpcatalog.validators import problems
from tests.integration.mcp.conftest import Bench, secret
from tests.spec.requirements import gate
from toolsys.egress import EgressCounts
from toolsys.execution import LoopThread

HTTP = ServerConfig("acme", "inside", Transport.HTTP, "https://mcp.example/mcp")


@pytest.fixture
def inside() -> Iterator[socket.socket]:
    """Somebody who listens on this machine and hears of every connection."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setblocking(False)
        yield listener


@pytest.fixture
def strict(monkeypatch: pytest.MonkeyPatch) -> EgressCounts:
    """Operators opened no network and no plain HTTP: the default."""
    changes = {"egress_private_cidrs": (), "egress_plain_http_hosts": ()}
    monkeypatch.setattr(settings, "TOOLSYS", settings.TOOLSYS.model_copy(update=changes))
    return EgressCounts()


@gate("egress.default_deny", "egress.addresses")
@pytest.mark.parametrize(
    ("endpoint", "code"),
    [
        ("https://127.0.0.1/mcp", "egress_address"),
        ("https://[::ffff:10.0.0.1]/mcp", "egress_address"),
        ("https://169.254.169.254/latest", "egress_address"),
        ("http://mcp.example/mcp", "egress_plain_http"),
        ("https://2130706433/mcp", "egress_malformed"),
        ("https://user:word@mcp.example/mcp", "egress_userinfo"),
        ("gopher://mcp.example/", "egress_not_allowed"),
        ("", "egress_malformed"),
    ],
)
def test_an_address_inside_is_refused_when_it_is_written(strict: EgressCounts, endpoint: str, code: str) -> None:
    server = replace(HTTP, endpoint=endpoint)
    found = problems(server, policy=wiring.egress_of(server), stdio_names=(), output_ceiling_bytes=1_048_576)
    assert [(problem.field, problem.code) for problem in found] == [("endpoint", code)]


@gate("egress.default_deny", "egress.pinned", "egress.counted")
@pytest.mark.parametrize(("url", "reason"), [
    ("https://localhost:{}/mcp", "address"), ("https://127.0.0.1:{}/mcp", "address"),
    ("http://localhost:{}/mcp", "plain_http"),
])  # fmt: skip
def test_a_name_that_leads_inside_is_refused_when_it_is_dialled(
    strict: EgressCounts, inside: socket.socket, url: str, reason: str
) -> None:
    """Corpus B53: judged after resolution, by the address, also for a connection that is only a test."""
    server = replace(HTTP, endpoint=url.format(inside.getsockname()[1]))
    here = Bench(LoopThread(), ConnectionPool(wiring.egress_of, counts=strict))
    try:
        with pytest.raises(remote.DestinationRefused) as refused:
            here.run(here.pool.acquire(server, "s1", secret))
    finally:
        here.run(here.pool.close_all(drain_seconds=0.2))
        here.loop.stop()
    assert refused.value.effect == "not_applied"
    assert strict.read().keys() == {reason}
    with pytest.raises(BlockingIOError):
        inside.accept()
