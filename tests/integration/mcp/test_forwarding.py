"""Servers behind the operator's forward proxy: one that opens no way is an absence, felt by nobody, and is named."""

import asyncio
import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from io import StringIO
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from config import wiring
from mcpcatalog import checks, remote, services
from mcpcatalog.checks import Offered, Rung
from mcpcatalog.models import McpServer
from mcpcatalog.remote import AuthScheme, KeyPlace, ServerConfig, Transport
from mcpcatalog.sdk.inspection import inspect
from tests.egress.proxies import ANSWERS, Proxy, standing
from tests.factories import Tenancy
from tests.integration.mcp.conftest import Bench, Doors, House, policy_of, secret
from tests.integration.mcp.guarded import Peer
from tests.integration.mcp.test_checks import failed, states
from tests.integration.mcp.test_gates import CLASSES, ends_unsent
from tests.integration.mcp.test_ladder import READ, ended, proposed
from tests.spec.requirements import gate
from toolsys import dialling
from toolsys.domain.spec import Classification
from toolsys.domain.states import OutcomeStatus
from toolsys.egress import EgressCounts, EgressPolicy, ForwardProxy, policy_for
from toolsys.tenancy import tenant_transaction

# Private and opened: the proxy, which leads elsewhere, is the only way to it that there is.
THERE, TOKENS = "10.1.2.3:8080", "10.1.2.4:8080"
CLIENT = "env:" + json.dumps({"client_id": "ours", "client_secret": "sentinel:4711/+"})
SAYS = {name: f"the forward proxy answered {name}" for name in ("407", "403", "502")}
SAYS |= {"away": "the forward proxy cannot be reached", "stalls": "the forward proxy opened no tunnel in time"}


@dataclass
class Way:
    """A proxy, what it leads to, and how it can be made to lead nowhere."""

    proxy: Proxy
    setting: ForwardProxy
    port: int
    leave: Callable[[], None]

    def policy_of(self, config: ServerConfig) -> EgressPolicy:
        urls = [config.endpoint, *([config.token_endpoint] if config.token_endpoint else [])]
        return policy_for(
            urls, open_networks=["10.1.2.0/24"], plain_http_hosts=[THERE, TOKENS], proxy=self.setting
        )  # fmt: skip

    def is_closed(self, how: str) -> None:
        if how == "away":
            self.leave()
        self.proxy.answer, self.proxy.habit = ANSWERS.get(how), how


@pytest.fixture
def way(doors: Doors) -> Iterator[Way]:
    with ExitStack() as stack:
        proxy = Proxy({THERE: doors.port})
        setting = stack.enter_context(standing(proxy))
        yield Way(proxy, setting, doors.port, stack.close)


def at(name: str, tenant_id: str = "acme", **changes: Any) -> ServerConfig:
    return ServerConfig(tenant_id, name, Transport.HTTP, f"http://{THERE}/mcp/{name}", **changes)


def offered(tenancy: Tenancy, house: House, doors: Doors, classification: Classification) -> tuple[Tenancy, Any, Peer]:
    name, peer = doors.peer()
    config = at(name, tenancy.id, classification=classification, key_place=KeyPlace.META, key_name="key")
    return house.offer(tenancy, config), config, peer


@gate("egress.proxy")
def test_a_call_goes_through_the_proxy_to_the_address_that_was_checked(
    acme: Tenancy, houses: Callable[..., House], doors: Doors, way: Way
) -> None:
    house = houses(policy=way.policy_of)
    tenancy, config, peer = offered(acme, house, doors, READ)
    assert ended(tenancy, house, proposed(tenancy, config))[0] is OutcomeStatus.SUCCEEDED
    assert (set(way.proxy.asked), len(peer.sent("tools/call"))) == ({THERE}, 1)


@gate("egress.proxy", "gate.12")
@pytest.mark.parametrize("classification", CLASSES.values(), ids=list(CLASSES))
@pytest.mark.parametrize("how", ["407", "403", "502", "away"])
def test_a_proxy_that_opens_no_way_is_unavailable_for_every_class_and_nothing_was_sent(
    acme: Tenancy, houses: Callable[..., House], doors: Doors, way: Way, how: str, classification: Classification
) -> None:
    house = houses(policy=way.policy_of)
    tenancy, config, peer = offered(acme, house, doors, classification)
    way.is_closed(how)
    before = len(peer.seen)
    ends_unsent(tenancy, house, config)
    assert peer.seen[before:] == [], "it is not gone around"
    with tenant_transaction(acme.id):
        server = McpServer.objects.get(server_id=config.server_id)
    assert (server.last_failure_code, server.last_failure_detail) == ("tool.server_unreachable", SAYS[how])


@gate("egress.proxy", "oauth.refused")
@pytest.mark.parametrize("how", ["407", "403", "502", "away"])
def test_a_token_that_the_proxy_opens_no_way_to_is_the_proxys_failure(
    bench: Callable[..., Bench], doors: Doors, way: Way, how: str
) -> None:
    here, (name, peer) = bench(), doors.peer()
    here.pool._policy_for = way.policy_of
    counts = here.pool._counts = EgressCounts()
    way.is_closed(how)
    with pytest.raises(remote.ServerUnreachable) as raised:
        here.connect(with_token(name))
    assert raised.value.detail == f"token endpoint: {SAYS[how]}"
    assert (raised.value.reason_code, raised.value.effect) == ("tool.server_unreachable", "not_applied")
    assert (counts.read(), peer.seen, peer.exchanges) == ({"proxy": 1}, [], [])


def with_token(name: str, tenant_id: str = "acme") -> ServerConfig:
    return at(
        name, tenant_id, auth_scheme=AuthScheme.OAUTH2_CLIENT, token_endpoint=f"http://{TOKENS}/token/{name}",
        credential_ref=CLIENT,
    )  # fmt: skip


def looked(config: ServerConfig, way: Way) -> dict[str, Rung]:
    seen = asyncio.run(inspect(config, secret, way.policy_of(config)))
    offered = None if seen.catalog is None else Offered(len(seen.catalog.tools), len(seen.catalog.rejected))
    return {rung.name: rung for rung in checks.ladder(config, seen, offered)}


@gate("egress.proxy", "mcp.check")
@pytest.mark.parametrize("how", SAYS)
def test_the_check_speaks_of_the_proxy_and_not_of_the_servers_port(
    monkeypatch: pytest.MonkeyPatch, doors: Doors, way: Way, how: str
) -> None:
    monkeypatch.setattr(dialling, "CONNECT_SECONDS", 0.5)
    config = at(doors.peer()[0])
    sound = looked(config, way)
    assert (states(sound), sound["tcp"].fact) == ("pppppp", "10.1.2.3 port 8080, by the forward proxy")
    way.is_closed(how)
    found = looked(config, way)
    broken = failed(found)
    assert (states(found), broken.name, broken.reason) == ("ppfnnn", "tcp", "tool.server_unreachable")
    assert (broken.fact, broken.fix) == (f"10.1.2.3 port 8080, by the forward proxy: {SAYS[how]}", checks.NO_WAY)


@gate("egress.proxy", "mcp.check")
def test_the_check_of_a_login_speaks_of_the_proxy_where_the_token_endpoint_is_behind_it(doors: Doors, way: Way) -> None:
    way.is_closed("403")
    broken = failed(looked(with_token(doors.peer()[0]), way))
    assert (broken.name, broken.fix) == ("authentication", checks.NO_WAY)
    assert broken.fact == f"token endpoint: {SAYS['403']}"


@gate("egress.proxy", "mcp.check")
def test_what_is_dialled_past_the_proxy_is_not_laid_at_its_door(way: Way) -> None:
    """This machine itself is dialled directly: there the port is what is wrong."""
    own = ServerConfig("acme", "crm", Transport.HTTP, "http://127.0.0.1:1/mcp")
    policy = replace(policy_of(own), proxy=way.setting)
    seen = asyncio.run(inspect(own, secret, policy))
    broken = failed({rung.name: rung for rung in checks.ladder(own, seen, None)})
    assert (broken.name, broken.fact) == ("tcp", "127.0.0.1 port 1")
    assert broken.fix != checks.NO_WAY


@gate("egress.proxy", "mcp.check")
def test_the_command_fails_with_the_proxys_fix(
    acme: Tenancy, doors: Doors, way: Way, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wiring, "egress_of", way.policy_of)
    config = at(doors.peer()[0], acme.id)
    services.register_server(
        config, policy=way.policy_of(config), stdio_names=(), output_ceiling_bytes=1_048_576, using="operator"
    )
    way.is_closed("407")
    out = StringIO()
    with pytest.raises(CommandError) as told:
        call_command("mcp_check", config.server_id, tenant=acme.id, stdout=out)
    assert str(told.value) == f"TCP: {checks.NO_WAY} [tool.server_unreachable]"
    assert SAYS["407"] in out.getvalue()
