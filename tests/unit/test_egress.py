"""What may be dialled: addresses, origins, and the transport's refusals without a network."""

import asyncio
import ssl

import httpcore2
import pytest

from toolsys import egress
from toolsys.egress import EgressError, EgressFailed, EgressPolicy, EgressRefused, Origin, policy_for

CLOSED = EgressPolicy(frozenset())


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1", "10.0.0.1", "172.16.0.1", "192.168.1.1", "100.64.0.1", "169.254.169.254", "0.0.0.0",
        "255.255.255.255", "192.0.2.1", "224.0.0.1", "::", "::1", "fe80::1", "fe80::1%eth0", "fec0::1", "fd00::1",
        "ff02::1", "::ffff:127.0.0.1", "::ffff:169.254.169.254", "::7f00:1", "64:ff9b::7f00:1", "64:ff9b:1::1",
        "2002:7f00:1::", "2002:808:808::", "2001::1", "2001:db8::1",
    ],
)  # fmt: skip
def test_an_address_that_is_not_public_is_refused_however_it_is_wrapped(address: str) -> None:
    with pytest.raises(EgressRefused) as refused:
        CLOSED.check_address(address)
    assert (refused.value.reason, refused.value.was_sent) == ("address", False)


@pytest.mark.parametrize("address", ["8.8.8.8", "2001:4860:4860::8888", "::ffff:8.8.8.8", "64:ff9b::808:808"])
def test_a_public_address_may_be_dialled(address: str) -> None:
    CLOSED.check_address(address)


@pytest.mark.parametrize("address", ["10.1.2.3", "::ffff:10.1.2.3", "64:ff9b::a01:203"])
def test_an_opened_network_admits_its_addresses_and_no_others(address: str) -> None:
    policy = policy_for([], open_networks=["10.1.2.0/24"])
    policy.check_address(address)
    with pytest.raises(EgressRefused):
        policy.check_address("10.1.3.1")


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("https://other.example/", "not_allowed"),
        ("https://api.example:8443/", "not_allowed"),
        ("https://api.example.:443/", "malformed"),
        ("https://user:word@api.example/", "userinfo"),
        ("ftp://api.example/", "not_allowed"),
        ("/relative", "malformed"),
        ("https://[::1", "malformed"),
        ("http://api.example/", "plain_http"),
    ],
)
def test_a_url_outside_the_allowlist_is_refused(url: str, reason: str) -> None:
    policy = policy_for(["https://api.example/mcp", "http://api.example/", "http://local:8080/"],
                        plain_http_hosts=["local:8080"])  # fmt: skip
    assert policy.check_url("https://API.example/any/path?x=1") == Origin("https", "api.example", 443)
    assert policy.check_url("http://local:8080/x") == Origin("http", "local", 8080)
    with pytest.raises(EgressRefused) as refused:
        policy.check_url(url)
    assert refused.value.reason == reason


def test_one_bad_address_refuses_the_whole_name() -> None:
    async def resolver(_host: str, _port: int) -> list[str]:
        return ["8.8.8.8", "127.0.0.1"]

    transport = egress.PinnedTransport(
        policy_for(["https://api.example/"]), maximum_bytes=100, resolver=resolver, tls=ssl.create_default_context()
    )
    assert _outcome(transport, "https://api.example/") == ("address", False)


def test_a_name_that_does_not_resolve_was_provably_not_sent() -> None:
    async def resolver(_host: str, _port: int) -> list[str]:
        raise OSError(-2, "Name or service not known")

    transport = egress.PinnedTransport(policy_for(["https://api.example/"]), maximum_bytes=100, resolver=resolver)
    assert _outcome(transport, "https://api.example/") == ("unreachable", False)


def test_the_checked_address_is_dialled_and_resolved_once(monkeypatch: pytest.MonkeyPatch) -> None:
    dialled, resolved = [], []

    async def resolver(host: str, _port: int) -> list[str]:
        resolved.append(host)
        return ["8.8.8.8", "8.8.4.4"]

    async def connect_tcp(_self: object, host: str, port: int, *_rest: object) -> None:
        dialled.append((host, port))
        raise httpcore2.ConnectError("no network in tests")

    monkeypatch.setattr(httpcore2.AnyIOBackend, "connect_tcp", connect_tcp)
    transport = egress.PinnedTransport(policy_for(["https://api.example/"]), maximum_bytes=100, resolver=resolver)
    assert _outcome(transport, "https://api.example/") == ("unreachable", False)
    assert dialled == [("8.8.8.8", 443), ("8.8.4.4", 443)]
    assert resolved == ["api.example"]


def test_the_ssl_context_is_shared_by_the_process() -> None:
    assert egress.ssl_context() is egress.ssl_context()


def test_a_post_that_finds_nobody_says_that_nothing_was_sent() -> None:
    policy = policy_for(["http://127.0.0.1:9"], open_networks=["127.0.0.1/32"], plain_http_hosts=["127.0.0.1:9"])
    with pytest.raises(EgressFailed) as failed:
        asyncio.run(egress.post_json("http://127.0.0.1:9/x", {}, policy=policy, timeout_seconds=2, maximum_bytes=100))
    assert (failed.value.reason, failed.value.was_sent) == ("unreachable", False)


def _outcome(transport: egress.PinnedTransport, url: str) -> tuple[str, bool]:
    import httpx2

    async def go() -> tuple[str, bool]:
        try:
            async with transport:
                await transport.handle_async_request(httpx2.Request("GET", url))
        except EgressError as error:
            return error.reason, error.was_sent
        raise AssertionError("it answered")

    return asyncio.run(go())
