"""Gate 15: what a 401 sets off, through the pipeline, against a scripted server and with real workers' connections."""

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from mcpcatalog import selectors
from mcpcatalog.ladder import Ladder
from mcpcatalog.models import McpServer
from mcpcatalog.remote import AuthExpired, AuthScheme, CallSpec, KeyPlace, ServerConfig
from mcpcatalog.tool import McpTool
from tests.factories import Tenancy, approve
from tests.integration.mcp.conftest import Doors, House, secret
from tests.integration.mcp.guarded import Peer
from tests.spec.requirements import gate
from toolsys.domain.calls import Disposition, Progress
from toolsys.domain.context import ToolExecutionContext
from toolsys.domain.spec import Classification, IdempotencyClass, RiskLevel, SideEffectClass
from toolsys.domain.states import OutcomeStatus
from toolsys.models import ToolEvent
from toolsys.tenancy import tenant_transaction

pytestmark = pytest.mark.slow

VARIABLE = "TOOLSYS_CREDENTIAL_LADDER"
UNAUTHORIZED = (OutcomeStatus.UNAVAILABLE, "tool.server_unauthorized")


def classed(side_effect: SideEffectClass, idempotency: IdempotencyClass) -> Classification:
    return Classification(side_effect=side_effect, risk=RiskLevel.LOW, idempotency=idempotency)


READ = classed(SideEffectClass.NETWORK_READ, IdempotencyClass.READ_ONLY)
KEYED = classed(SideEffectClass.EXTERNAL_WRITE, IdempotencyClass.CONDITIONALLY_IDEMPOTENT)
WRITE = classed(SideEffectClass.EXTERNAL_WRITE, IdempotencyClass.NON_IDEMPOTENT)
IDEMPOTENT = classed(SideEffectClass.EXTERNAL_WRITE, IdempotencyClass.IDEMPOTENT)

type Scene = tuple[Peer, Callable[[Classification], ServerConfig], Callable[[str, str], None]]


@pytest.fixture
def scene(doors: Doors, acme: Tenancy, monkeypatch: pytest.MonkeyPatch) -> Scene:
    """A peer that lets in who says `one`, its configuration, and a way to change locks and keys."""
    name, peer = doors.peer(accepted={"Bearer one"})
    monkeypatch.setenv(VARIABLE, "one")

    def config(classification: Classification) -> ServerConfig:
        return doors.at(
            name, acme.id, auth_scheme=AuthScheme.BEARER, credential_ref=f"env:{VARIABLE}", key_name="key",
            classification=classification, key_place=KeyPlace.META,
        )  # fmt: skip

    def change(lock: str, key: str) -> None:
        peer.accepted = {f"Bearer {lock}"}
        monkeypatch.setenv(VARIABLE, key)

    return peer, config, change


def proposed(tenancy: Tenancy, config: ServerConfig, **arguments: Any) -> Disposition:
    (call,) = tenancy.propose((f"mcp.{config.server_id}.t", arguments))
    if call.state is Progress.HELD:
        approve(tenancy, call)
    return call


def ended(tenancy: Tenancy, house: House, call: Disposition) -> tuple[OutcomeStatus | None, str | None]:
    tenancy.finish(house.runtime, call)
    found = tenancy.call(call)
    return found.outcome_status, found.reason_code


def events(tenancy: Tenancy, kind: str) -> list[dict[str, Any]]:
    with tenant_transaction(tenancy.id):
        found = [event.payload for event in ToolEvent.objects.filter(type=kind).order_by("id")]
    return [{key: value for key, value in payload.items() if key not in {"session", "server"}} for payload in found]


def keys_of(peer: Peer) -> list[str]:
    return [headers["authorization"].removeprefix("Bearer ") for headers in peer.sent("tools/call")]


@gate("gate.15")
@pytest.mark.parametrize("classification", [READ, IDEMPOTENT, KEYED], ids=["read", "idempotent", "keyed"])
def test_one_login_anew_one_more_try_then_never_again(
    acme: Tenancy, houses: Callable[[], House], scene: Scene, classification: Classification
) -> None:
    peer, config_of, change = scene
    house, config = houses(), config_of(classification)
    acme = house.offer(acme, config)
    assert ended(acme, house, proposed(acme, config, n=1))[0] is OutcomeStatus.SUCCEEDED
    change("two", "two")
    call = proposed(acme, config, n=2)
    assert acme.work(house.runtime, call)[0].state is Progress.RELEASED, "held, not failed"
    assert keys_of(peer) == ["one", "one"]
    assert ended(acme, house, call)[0] is OutcomeStatus.SUCCEEDED
    assert keys_of(peer) == ["one", "one", "two"]
    assert len({json.dumps(sent["params"]["_meta"]["key"]) for _, _, sent in peer.seen[-1:]}) == 1
    assert events(acme, "mcp.server.reauthenticated") == [{"scheme": "bearer", "outcome": "renewed"}]
    change("three", "three")
    last = ended(acme, house, proposed(acme, config, n=3))
    assert last == (UNAUTHORIZED if classification is not KEYED else (OutcomeStatus.UNCERTAIN, "tool.outcome_unknown"))
    assert keys_of(peer) == ["one", "one", "two", "two"]
    dialled = len(peer.seen)
    assert ended(acme, house, proposed(acme, config, n=4)) == UNAUTHORIZED
    assert len(peer.seen) == dialled, "given up without dialling"
    assert len(events(acme, "mcp.server.reauthenticated")) == 1
    assert events(acme, "mcp.server.disconnected") == [{"reason_code": "tool.server_unauthorized"}]
    (clock,) = acme.propose(("system.time", {}))
    assert ended(acme, house, clock)[0] is OutcomeStatus.SUCCEEDED, "the run goes on"


@gate("gate.15")
def test_a_value_that_was_just_refused_is_not_tried_again(
    acme: Tenancy, houses: Callable[[], House], scene: Scene
) -> None:
    peer, config_of, change = scene
    house, config = houses(), config_of(READ)
    acme = house.offer(acme, config)
    ended(acme, house, proposed(acme, config, n=1))
    change("two", "one")
    assert ended(acme, house, proposed(acme, config, n=2)) == UNAUTHORIZED
    assert keys_of(peer) == ["one", "one"]
    assert events(acme, "mcp.server.reauthenticated") == [{"scheme": "bearer", "outcome": "unchanged"}]
    change("one", "one")
    dialled = len(peer.seen)
    assert ended(acme, house, proposed(acme, config, n=3)) == UNAUTHORIZED
    assert len(peer.seen) == dialled
    other = house.new_session(acme)
    assert ended(other, house, proposed(other, config, n=3))[0] is OutcomeStatus.SUCCEEDED, "another session is free"


@gate("gate.15")
def test_a_non_idempotent_call_is_uncertain_and_not_sent_again(
    acme: Tenancy, houses: Callable[[], House], scene: Scene
) -> None:
    peer, config_of, change = scene
    house, config = houses(), config_of(WRITE)
    acme = house.offer(acme, config)
    assert ended(acme, house, proposed(acme, config, n=1))[0] is OutcomeStatus.SUCCEEDED
    change("two", "two")
    assert ended(acme, house, proposed(acme, config, n=2)) == (OutcomeStatus.UNCERTAIN, "tool.outcome_unknown")
    assert keys_of(peer) == ["one", "one"]
    assert ended(acme, house, proposed(acme, config, n=3))[0] is OutcomeStatus.SUCCEEDED
    assert keys_of(peer) == ["one", "one", "two"]
    assert events(acme, "mcp.server.reauthenticated") == [{"scheme": "bearer", "outcome": "renewed"}]


@gate("gate.15")
def test_what_one_worker_spent_another_does_not_have(acme: Tenancy, houses: Callable[[], House], scene: Scene) -> None:
    peer, config_of, change = scene
    here, there, config = houses(), houses(), config_of(READ)
    acme = here.offer(acme, config)
    for n, house in enumerate((here, there)):
        assert ended(acme, house, proposed(acme, config, n=n))[0] is OutcomeStatus.SUCCEEDED
    change("two", "two")
    assert ended(acme, here, proposed(acme, config, n=3))[0] is OutcomeStatus.SUCCEEDED
    assert ended(acme, there, proposed(acme, config, n=4))[0] is OutcomeStatus.SUCCEEDED
    assert keys_of(peer) == ["one", "one", "one", "two", "two"], "the other worker's old login was not used"
    change("three", "three")
    assert ended(acme, there, proposed(acme, config, n=5)) == UNAUTHORIZED
    dialled = len(peer.seen)
    assert ended(acme, here, proposed(acme, config, n=6)) == UNAUTHORIZED
    assert len(peer.seen) == dialled
    assert len(events(acme, "mcp.server.reauthenticated")) == 1


@gate("gate.15")
def test_a_401_while_connecting_ends_the_server_for_the_session_at_once(
    acme: Tenancy, houses: Callable[[], House], scene: Scene
) -> None:
    peer, config_of, change = scene
    house, config = houses(), config_of(READ)
    acme = house.offer(acme, config)
    change("two", "one")
    before = len(peer.seen)
    assert ended(acme, house, proposed(acme, config, n=1)) == (OutcomeStatus.UNAVAILABLE, "tool.auth_failed")
    assert len(peer.seen) == before + 1, "one attempt, never a second"
    change("two", "two")
    assert ended(acme, house, proposed(acme, config, n=2)) == (OutcomeStatus.UNAVAILABLE, "tool.auth_failed")
    assert (len(peer.seen), peer.sent("tools/call")) == (before + 1, [])
    assert events(acme, "mcp.server.disconnected") == [{"reason_code": "tool.auth_failed"}]
    assert events(acme, "mcp.server.reauthenticated") == []


@gate("gate.15")
def test_a_server_that_refuses_us_at_discovery_offers_nothing(
    acme: Tenancy, houses: Callable[[], House], scene: Scene
) -> None:
    _, config_of, change = scene
    house, config = houses(), config_of(READ)
    acme = house.offer(acme, config)
    assert [spec.name for spec in house.provider.specs(acme.id)] == [f"mcp.{config.server_id}.t"]
    change("two", "one")
    with tenant_transaction(acme.id, "operator"):
        McpServer.objects.using("operator").filter(tenant_id=acme.id).update(last_discovered_at=None)
    house.provider.refresh(acme.id, config.server_id)
    assert house.provider.specs(acme.id) == []
    assert events(acme, "mcp.server.disconnected") == [{"reason_code": "tool.auth_failed"}]


@gate("gate.15")
def test_a_refused_token_is_discarded_and_exchanged_again(
    acme: Tenancy, houses: Callable[[], House], doors: Doors, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, json.dumps({"client_id": "a", "client_secret": "b"}))
    tokens = [(200, {"access_token": value, "token_type": "bearer"}) for value in ("t1", "t2", "t3")]
    name, peer = doors.peer(tokens=tokens)
    config = doors.with_token(name, tenant_id=acme.id, credential_ref=f"env:{VARIABLE}", classification=READ)
    house = houses()
    acme = house.offer(acme, config)
    assert ended(acme, house, proposed(acme, config, n=1))[0] is OutcomeStatus.SUCCEEDED
    peer.accepted = {"Bearer t3"}
    assert ended(acme, house, proposed(acme, config, n=2))[0] is OutcomeStatus.SUCCEEDED
    assert keys_of(peer) == ["t2", "t2", "t3"]
    assert (len(peer.exchanges), len(events(acme, "mcp.server.reauthenticated"))) == (3, 1)


@gate("gate.15")
def test_calls_that_were_under_way_when_their_login_ended_try_what_one_of_them_obtained(
    acme: Tenancy, houses: Callable[[], House], scene: Scene
) -> None:
    _, config_of, change = scene
    house, config = houses(), replace(config_of(READ), is_stateless=True)
    acme = house.offer(acme, config)
    other, workbench = house.new_session(acme), house.provider.workbench
    state = selectors.server(acme.id, config.server_id, {})
    assert workbench is not None
    assert state is not None
    assert ended(acme, house, proposed(acme, config, n=1))[0] is OutcomeStatus.SUCCEEDED
    config = state.config
    shared = workbench.run(workbench.connections.acquire(config, str(acme.session.id), secret), 5.0)

    def refused() -> AuthExpired:
        with pytest.raises(AuthExpired) as raised:
            workbench.run(shared.call(CallSpec("t", {}, 5.0)), 5.0)
        return raised.value

    def goes_on(tenancy: Tenancy, error: AuthExpired) -> bool:
        climb = Ladder(house.provider.clock).climb(config, tenancy.session.id, shared, error)
        return workbench.run(climb, 5.0)

    change("two", "two")
    first = refused()
    assert ended(acme, house, proposed(acme, config, n=2))[0] is OutcomeStatus.SUCCEEDED
    assert goes_on(other, first), "another session's call, with the same login"
    assert goes_on(acme, first), "another call of the session that has logged in"
    assert events(acme, "mcp.server.reauthenticated") == [{"scheme": "bearer", "outcome": "renewed"}] * 2
    assert events(acme, "mcp.server.disconnected") == []
    change("three", "three")
    assert not goes_on(other, refused()), "what was obtained anew is refused: it has had its turn"


@gate("gate.15")
def test_a_login_that_is_refused_after_the_call_was_prepared_ends_the_server_as_well(
    acme: Tenancy, houses: Callable[[], House], scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    peer, config_of, change = scene
    house, config = houses(), config_of(WRITE)
    acme = house.offer(acme, config)
    pool, prepare = house.provider.workbench.connections, McpTool.prepare  # type: ignore[union-attr]

    async def lost_since(tool: McpTool, context: ToolExecutionContext) -> None:
        await prepare(tool, context)
        change("two", "one")
        await pool.close_session(str(context.session_id))

    monkeypatch.setattr(McpTool, "prepare", lost_since)
    assert ended(acme, house, proposed(acme, config, n=1)) == (OutcomeStatus.UNCERTAIN, "tool.outcome_unknown")
    dialled = len(peer.seen)
    assert ended(acme, house, proposed(acme, config, n=2)) == (OutcomeStatus.UNAVAILABLE, "tool.auth_failed")
    assert (len(peer.seen), peer.sent("tools/call")) == (dialled, [])


@gate("connections.resolved_anew", "gate.15")
def test_a_session_that_was_let_go_of_connects_with_the_key_of_then_and_keeps_what_it_spent(
    acme: Tenancy, houses: Callable[[], House], scene: Scene
) -> None:
    peer, config_of, change = scene
    house, config = houses(), config_of(READ)
    acme = house.offer(acme, config)

    def after(lock: str, key: str, *, is_let_go: bool) -> tuple[OutcomeStatus | None, str | None]:
        change(lock, key)
        if is_let_go and house.provider.workbench is not None:
            house.provider.workbench.release_session(acme.id, acme.session.id)
        return ended(acme, house, proposed(acme, config, n=len(peer.seen)))

    fine = (OutcomeStatus.SUCCEEDED, "tool.succeeded")
    assert after("one", "one", is_let_go=False) == fine
    assert after("two", "two", is_let_go=True) == fine
    assert keys_of(peer) == ["one", "two"]
    assert events(acme, "mcp.server.reauthenticated") == [], "a new connection is no re-authentication"
    assert after("three", "three", is_let_go=False) == fine
    assert after("four", "four", is_let_go=True) == fine
    assert after("five", "five", is_let_go=False) == UNAUTHORIZED, "what was spent before the release stays spent"
    dialled = len(peer.seen)
    assert after("five", "five", is_let_go=True) == UNAUTHORIZED
    assert len(peer.seen) == dialled, "a terminal end is no matter of a connection"
    assert len(events(acme, "mcp.server.reauthenticated")) == 1


@gate("gate.15")
def test_a_call_that_was_under_way_while_its_session_logged_in_on_another_worker_catches_up_once(
    acme: Tenancy, houses: Callable[[], House], scene: Scene
) -> None:
    _, config_of, change = scene
    here, there, config = houses(), houses(), replace(config_of(READ), is_stateless=True)
    acme = here.offer(acme, config)
    for n, house in enumerate((here, there)):
        assert ended(acme, house, proposed(acme, config, n=n))[0] is OutcomeStatus.SUCCEEDED
    state, workbench = selectors.server(acme.id, config.server_id, {}), there.provider.workbench
    assert state is not None
    assert workbench is not None
    connection = workbench.run(workbench.connections.acquire(state.config, str(acme.session.id), secret), 5.0)

    def goes_on() -> bool:
        with pytest.raises(AuthExpired) as raised:
            workbench.run(connection.call(CallSpec("t", {}, 5.0)), 5.0)
        climb = Ladder(there.provider.clock).climb(state.config, acme.session.id, connection, raised.value)
        return workbench.run(climb, 5.0)

    change("two", "two")
    assert ended(acme, here, proposed(acme, config, n=3))[0] is OutcomeStatus.SUCCEEDED
    assert goes_on(), "what was refused is older than the session's new login"
    assert len(events(acme, "mcp.server.reauthenticated")) == 1
    change("three", "three")
    assert not goes_on()
    assert events(acme, "mcp.server.disconnected") == [{"reason_code": "tool.server_unauthorized"}]
