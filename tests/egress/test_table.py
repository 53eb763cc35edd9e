"""The egress table in the suite, and that it can fail: the same rows as `make egress`."""

import asyncio
from dataclasses import replace

import pytest

from tests.egress import run
from tests.egress.table import ANSWERED, API, Row, rows
from tests.spec.requirements import gate


@gate("egress.destinations", "egress.addresses", "egress.pinned", "egress.redirects", "egress.ambient",
      "egress.bounded", "egress.counted")  # fmt: skip
def test_nothing_hostile_is_dialled_and_nobody_reaches_the_sink() -> None:
    found = asyncio.run(run.play(rows()))
    assert {name: faults for name, faults in found.items() if faults} == {}
    assert len(found) == len(list(rows())), "two rows have one name"


def test_the_table_is_hostile_and_covers_every_reason() -> None:
    hostile = [row for row in rows() if row.expected != ANSWERED]
    assert len(hostile) >= 100
    assert {row.expected for row in rows()} == {
        ANSWERED, "malformed", "userinfo", "not_allowed", "denied", "plain_http", "address", "unreachable", "timeout",
        "redirect", "encoding", "too_large", "connection_lost",
    }  # fmt: skip


@gate("egress.once")
def test_a_request_that_was_executed_and_then_dropped_is_sent_once() -> None:
    """Corpus B33: the server acts on the request and loses the answer."""
    row = Row("dropped", "https://api.example/drop", "connection_lost", requests=1)
    assert asyncio.run(run.play([row])) == {"dropped": []}


@gate("egress.default_deny")
@pytest.mark.parametrize("url", ["http://127.0.0.1:{sink}/", "http://localhost:{sink}/", "https://8.8.8.8/", API])
def test_without_a_policy_nothing_is_dialled(url: str) -> None:
    """Corpus B53: any signed-in user could aim a server's URL at internal addresses."""
    row = Row("default", url, "not_allowed", (("127.0.0.1",),), allowed=())
    assert asyncio.run(run.play([row])) == {"default": []}


def test_a_row_that_holds_no_longer_is_a_fault_and_an_exit_code(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    good = Row("sound", "http://127.0.0.1:{sink}/", "address")
    # The sink is reached where the network is opened, and the row says that it must not be.
    bad = replace(good, name="reached", opened=("127.0.0.1/32",))
    monkeypatch.setattr(run, "rows", lambda: iter([good, bad]))
    assert run.main() == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1] == "1 passed, 1 failed"
    assert "reached the sink 1 times" in lines[-2]
    monkeypatch.setattr(run, "rows", lambda: iter([good]))
    assert run.main() == 0
