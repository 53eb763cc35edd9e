"""The settings of what may leave: what they take, and that a mistake stops the start instead of allowing more."""

import pytest
from pydantic import ValidationError

from config.env import Toolsys
from tests.spec.requirements import gate


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
