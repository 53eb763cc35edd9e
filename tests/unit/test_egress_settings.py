"""The settings of what may leave: what they take, and that a mistake stops the start instead of allowing more."""

import traceback

import pytest
from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from pydantic import ValidationError

from config.env import Toolsys, load
from tests.spec.requirements import gate
from toolsys.egress import ForwardProxy


@gate("web.hosts")
@pytest.mark.parametrize(
    ("value", "hosts"),
    [
        ("", ()),
        ("docs.example", ("docs.example",)),
        (" Docs.Example , wiki.example:8443,", ("docs.example", "wiki.example:8443")),
        ("10.0.0.1,[2001:db8::1]:8080,localhost", ("10.0.0.1", "[2001:db8::1]:8080", "localhost")),
        ("xn--bcher-kva.example:443", ("xn--bcher-kva.example:443",)),
    ],
)
def test_hosts_are_read_as_a_url_would_read_them(
    monkeypatch: pytest.MonkeyPatch, value: str, hosts: tuple[str, ...]
) -> None:
    monkeypatch.setenv("TOOLSYS_WEB_FETCH_HOSTS", value)
    assert Toolsys().web_fetch_hosts == hosts


@gate("web.hosts")
@pytest.mark.parametrize(
    "value",
    ["*", "*.example", "https://docs.example", "docs.example/path", "docs.example/", "user@docs.example",
     "docs.example?", "docs.example#x", "docs.example.", "bücher.example", "2130706433", "docs.example:0",
     "docs.example:443:443", "a b", "[2001:db8:0::1]"],
)  # fmt: skip
def test_what_is_no_host_stops_the_start(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv("TOOLSYS_WEB_FETCH_HOSTS", f"docs.example,{value}")
    with pytest.raises(ValidationError, match="hosts"):
        Toolsys()


@gate("egress.destinations")
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("TOOLSYS_EGRESS_DENIED_HOSTS", "evil.example:443"),
        ("TOOLSYS_EGRESS_DENIED_HOSTS", "*.evil.example"),
        ("TOOLSYS_EGRESS_DENIED_HOSTS", "[::1]"),
        ("TOOLSYS_EGRESS_DENIED_CIDRS", "10.0.0.1/8"),
        ("TOOLSYS_EGRESS_PRIVATE_CIDRS", "everything"),
    ],
)
def test_a_denial_that_would_never_match_stops_the_start(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(ValidationError):
        Toolsys()


@gate("egress.proxy")
@pytest.mark.parametrize(
    ("value", "proxy"),
    [
        ("", None),
        ("http://proxy.internal:3128", ForwardProxy("proxy.internal", 3128)),
        ("HTTP://10.0.0.9:8080/", ForwardProxy("10.0.0.9", 8080)),
        ("http://[fd00::9]:3128", ForwardProxy("fd00::9", 3128)),
        ("http://me:p%40ss%3Aw%2F@proxy:1", ForwardProxy("proxy", 1, "me", "p@ss:w/")),
    ],
)
def test_the_proxy_that_is_set_is_every_policy_s_way_out(
    monkeypatch: pytest.MonkeyPatch, value: str, proxy: ForwardProxy | None
) -> None:
    monkeypatch.setenv("TOOLSYS_EGRESS_PROXY", value)
    monkeypatch.setattr(settings, "TOOLSYS", Toolsys())
    from config import wiring

    policy = wiring.egress_policy(["https://api.example/"])
    assert policy.proxy == proxy
    assert "p@ss" not in repr(policy) + repr(settings.TOOLSYS) + str(settings.TOOLSYS)


@gate("egress.proxy")
@pytest.mark.parametrize(
    "value",
    ["proxy:3128", "https://secret@proxy:3128", "http://secret@proxy", "http://secret@proxy:0", "http://secret@proxy:99999",
     "http://secret@proxy:1/path", "http://secret:1/x@proxy:2", "http://secret%0d%0ax@proxy:1", "http://secret%3A@proxy:1",
     "http://secret@proxy:1?x", "http://secret@@proxy:1", "http://secret@2130706433:1", "socks5://secret@proxy:1"],
)  # fmt: skip
def test_what_is_no_proxy_stops_the_start_without_being_repeated(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv("TOOLSYS_EGRESS_PROXY", value)
    with pytest.raises(ImproperlyConfigured) as refused:
        load()
    assert "TOOLSYS_EGRESS_PROXY: must be http://host:port" in str(refused.value)
    assert "secret" not in str(refused.value) + "".join(traceback.format_exception(refused.value))
