"""Streamable HTTP: a real server, and each way of misbehaving with the error and the effect that it must become."""

import time
from collections.abc import Callable
from typing import Any

import pytest

from mcpcatalog import remote
from mcpcatalog.remote import AuthScheme, Effect, ServerConfig, Transport
from mcpcatalog.sdk.connection import Timeouts
from tests.integration.mcp.conftest import Bench, Web
from tests.spec.requirements import gate
from toolsys.departure import MAY_SEND

pytestmark = pytest.mark.slow

QUICK = Timeouts(connect=0.8, probe=0.3, idle=60.0)


def test_a_real_server_is_discovered_and_called(bench: Callable[..., Bench], excel: str) -> None:
    here, config = bench(), ServerConfig("acme", "excel", Transport.HTTP, excel)
    catalog = here.run(here.connect(config).discover())
    assert (catalog.revision, catalog.server_name, len(catalog.tools), catalog.rejected) == (
        "2026-07-28", "excel-mcp-server", 46, (),
    )  # fmt: skip
    created = here.call(config, "create_workbook", path="plan.xlsx", sheets=["Plan"], overwrite=True)
    assert (created.is_error, created.structured) == (False, {"path": "plan.xlsx"})
    listed = here.call(config, "list_workbooks")
    assert list(listed.structured) == ["plan.xlsx"]
    refused = here.call(config, "describe_workbook", path="../../etc/passwd")
    assert (refused.is_error, refused.effect) == (True, "unknown")


@pytest.mark.parametrize(("era", "revision"), [("modern", "2026-07-28"), ("legacy", "2025-11-25")])
def test_both_eras_answer_and_one_bad_tool_costs_only_itself(
    bench: Callable[..., Bench], web: Web, era: str, revision: str
) -> None:
    here, config = bench(), web.at("ok", era)
    catalog = here.run(here.connect(config).discover())
    assert (catalog.revision, [tool.name for tool in catalog.tools]) == (revision, ["t", "bad"])
    assert [rejected.remote_name for rejected in catalog.rejected] == ["worse"]
    assert here.call(config, x=1).structured["arguments"] == {"x": 1}


@pytest.mark.parametrize(
    ("scenario", "error", "effect"),
    [
        ("late401", remote.AuthExpired, "not_applied"),
        ("late403", remote.PermissionDenied, "not_applied"),
        ("e429", remote.RateLimited, "not_applied"),
        ("e500", remote.ServerUnreachable, "unknown"),
        ("late_redirect", remote.DestinationRefused, "unknown"),
        ("big_json", remote.ResponseTooLarge, "unknown"),
        ("big_sse", remote.ResponseTooLarge, "unknown"),
        ("bomb", remote.DestinationRefused, "unknown"),
        ("drop", remote.ServerUnreachable, "unknown"),
        ("input", remote.InputRequired, "unknown"),
        ("rpc_error", remote.UpstreamError, "unknown"),
    ],
)
@pytest.mark.parametrize("era", ["modern", "legacy"])
def test_a_call_that_goes_wrong_is_sent_once_and_typed(
    bench: Callable[..., Bench], web: Web, era: str, scenario: str, error: type[remote.RemoteError], effect: Effect
) -> None:
    here, config = bench(), web.at(scenario, era)
    before = web.app.calls(scenario)
    with pytest.raises(remote.RemoteError) as raised:
        here.call(config)
    assert (type(raised.value), raised.value.effect) == (error, effect)
    assert web.app.calls(scenario) == before + 1


@gate("egress.departure")
@pytest.mark.parametrize("answers", [[False], [True, False]], ids=["at_once", "when_connected"])
@pytest.mark.parametrize("era", ["modern", "legacy"])
def test_a_call_whose_lease_has_passed_is_not_sent(
    bench: Callable[..., Bench], web: Web, era: str, answers: list[bool]
) -> None:
    """Asked before the SDK is given the call, and by the transport when the connection stands."""
    here, config = bench(), web.at("ok", era)
    here.run(here.connect(config).discover())
    before, left = web.app.calls("ok"), list(answers)
    token = MAY_SEND.set(lambda: left.pop(0))
    try:
        with pytest.raises(remote.ServerUnreachable) as raised:
            here.call(config, x=1)
    finally:
        MAY_SEND.reset(token)
    assert (raised.value.effect, web.app.calls("ok") - before, left) == ("not_applied", 0, [])


def test_retry_after_is_kept(bench: Callable[..., Bench], web: Web) -> None:
    with pytest.raises(remote.RateLimited) as raised:
        bench().call(web.at("e429"))
    assert raised.value.retry_after_seconds == 7.0


@pytest.mark.parametrize(
    ("scenario", "error"),
    [
        ("login", remote.AuthUnsupported),
        ("key", remote.AuthFailed),
        ("forbidden", remote.AuthFailed),
        ("redirect", remote.DestinationRefused),
        ("same_origin", remote.DestinationRefused),
        ("portal", remote.ProtocolViolation),
        ("silent", remote.ServerUnreachable),
    ],
)
def test_a_handshake_that_fails_sends_nothing_of_a_call(
    bench: Callable[..., Bench], web: Web, scenario: str, error: type[remote.RemoteError]
) -> None:
    started, before = time.monotonic(), web.app.calls(scenario)
    with pytest.raises(remote.RemoteError) as raised:
        bench(timeouts=QUICK).call(web.at(scenario))
    assert (type(raised.value), raised.value.effect) == (error, "not_applied")
    assert web.app.calls(scenario) == before
    assert time.monotonic() - started < 3


def test_a_forgotten_session_is_not_resent_and_the_next_call_opens_a_new_one(
    bench: Callable[..., Bench], web: Web
) -> None:
    here, config = bench(), web.at("gone", "legacy")
    first = here.connect(config)
    with pytest.raises(remote.ServerUnreachable) as raised:
        here.call(config)
    assert raised.value.effect == "not_applied"
    assert web.app.calls("gone") == 1
    assert here.connect(config) is not first


def test_a_hanging_call_times_out_and_the_server_stays_usable(bench: Callable[..., Bench], web: Web) -> None:
    here = bench()
    with pytest.raises(remote.RequestTimeout) as raised:
        here.call(web.at("hang"), seconds=0.3)
    assert raised.value.effect == "unknown"
    assert not here.call(web.at("ok")).is_error


def test_a_cancelled_caller_does_not_wait_for_the_server(bench: Callable[..., Bench], web: Web) -> None:
    here = bench()
    connection = here.connect(web.at("hang"))
    started = time.monotonic()
    with pytest.raises(TimeoutError):
        here.run(connection.call(remote.CallSpec("t", {}, 20.0)), 0.3)
    assert time.monotonic() - started < 1


@gate("auth.applied")
@pytest.mark.parametrize(
    ("changes", "header", "value"),
    [
        ({"auth_scheme": AuthScheme.BEARER, "credential_ref": "env:good"}, "authorization", "Bearer good"),
        ({"auth_scheme": AuthScheme.HEADER, "credential_ref": "env:k", "auth_name": "X-Key"}, "x-key", "k"),
    ],
)
def test_the_credential_travels_as_the_configured_header(
    bench: Callable[..., Bench], web: Web, changes: dict[str, Any], header: str, value: str
) -> None:
    config = web.at("key" if header == "authorization" else "ok", **changes)
    assert not bench().call(config).is_error
    assert web.app.seen[-1][3][header] == value


@gate("auth.applied")
@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"auth_scheme": AuthScheme.BEARER, "credential_ref": "env:MISSING"}, remote.CredentialMissing),
        ({"auth_scheme": AuthScheme.ENV, "credential_ref": "env:x", "auth_name": "X"}, remote.AuthUnsupported),
        ({"auth_scheme": AuthScheme.BEARER, "credential_ref": "env:a\nb"}, remote.CredentialMissing),
        ({"auth_scheme": AuthScheme.OAUTH2_CLIENT, "credential_ref": "env:x"}, remote.CredentialMissing),
    ],
)
def test_without_a_usable_credential_nobody_is_dialled(
    bench: Callable[..., Bench], web: Web, changes: dict[str, Any], error: type[remote.RemoteError]
) -> None:
    before = len(web.app.seen)
    with pytest.raises(error):
        bench().call(web.at("ok", **changes))
    assert len(web.app.seen) == before


def test_ambient_proxies_and_foreign_hosts_are_out_of_reach(
    bench: Callable[..., Bench], web: Web, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    assert not bench().call(web.at("ok")).is_error
    assert web.app.seen[-1][3]["accept-encoding"] == "identity"


def test_a_stream_that_ends_at_once_is_not_reopened_for_ever(bench: Callable[..., Bench], web: Web) -> None:
    here = bench()
    connection = here.connect(web.at("spin", "legacy"))
    time.sleep(0.5)
    assert connection.is_alive
    assert web.app.gets("spin") <= 1


def test_a_list_without_end_is_refused(bench: Callable[..., Bench], web: Web) -> None:
    here = bench()
    with pytest.raises(remote.ProtocolViolation):
        here.run(here.connect(web.at("endless")).discover())


@gate("connections.idle")
def test_an_unused_connection_closes_itself_and_says_goodbye(bench: Callable[..., Bench], web: Web) -> None:
    here, config = bench(timeouts=Timeouts(idle=0.2)), web.at("ok", "legacy")
    connection, before = here.connect(config), web.app.deletes
    deadline = time.monotonic() + 5
    while (connection.is_alive or web.app.deletes == before) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert (connection.is_alive, web.app.deletes) == (False, before + 1)
    assert not here.call(config).is_error
