"""A check that takes long shows how far it is, rung by rung; one whose worker is killed says how far it came."""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from io import StringIO
from typing import Any

import pytest
from django.core.management import call_command
from django.db import connections
from django.utils import timezone

from config import wiring
from mcpcatalog import checking, checks, page_selectors
from mcpcatalog.checks import Seen
from mcpcatalog.models import McpServer, ServerCheck
from mcpcatalog.page_selectors import CheckView
from mcpcatalog.remote import ServerConfig, Transport
from tests.factories import Tenancy
from tests.integration.mcp.conftest import House, Market, listening, policy_of
from tests.integration.mcp.offering import Offering
from tests.integration.mcp.test_affinity import until
from tests.integration.mcp.test_checks import registered
from tests.integration.mcp.test_login_crashes import worker
from tests.spec.requirements import gate
from toolsys import jobs
from toolsys.egress import Mark
from toolsys.tenancy import tenant_transaction

pytestmark = pytest.mark.slow


@contextmanager
def stalling() -> Iterator[tuple[Market, str, threading.Event]]:
    """A server of its own that does not list its tools before the event is set."""
    app, released = Offering(), threading.Event()
    with listening(app) as port:
        market = Market(app, port)
        name, offer = market.offer()
        listed = offer.answers["tools/list"]

        def wait(params: dict[str, Any]) -> dict[str, Any]:
            released.wait(30)
            return listed  # type: ignore[return-value]

        offer.answers["tools/list"] = wait
        try:
            yield market, name, released
        finally:
            released.set()


def begun(work: Callable[[], object]) -> threading.Thread:
    """Do it in a thread that gives its database connections back."""

    def go() -> None:
        try:
            work()
        finally:
            connections.close_all()

    thread = threading.Thread(target=go)
    thread.start()
    return thread


def view(tenancy: Tenancy, check: ServerCheck) -> CheckView:
    with tenant_transaction(tenancy.id):
        found = page_selectors.check_view(tenancy.id, check.pk)
    assert found is not None
    return found


def states(found: CheckView) -> str:
    return "".join(rung["status"][0] for rung in found.rungs)


@gate("mcp.check_progress")
def test_each_rung_is_shown_when_it_is_passed_and_none_has_failed_before_the_end() -> None:
    secure = replace(SERVER, endpoint="https://crm.example/mcp")
    resolved, refused = Mark("resolve", 0.1, is_done=True, fact="192.0.2.1"), Mark("connect", 0.1, is_done=False)
    dialled, shaken = Mark("connect", 0.1, is_done=True), Mark("secure", 0.2, is_done=True)
    grown = [
        (Seen(()), "rnnnnnn"), (Seen((), at="resolve"), "rnnnnnn"), (Seen((resolved,)), "prnnnnn"),
        (Seen((resolved,), at="connect"), "pprnnnn"), (Seen((resolved, refused)), "pprnnnn"),
        (Seen((resolved, refused, dialled), at="secure"), "ppprnnn"), (Seen((resolved, dialled, shaken)), "pppprnn"),
        (Seen((resolved, dialled, shaken), connected_in_seconds=1.0, revision="2026-07-28"), "ppppppr"),
    ]  # fmt: skip
    for seen, expected in grown:
        assert "".join(rung.status[0] for rung in checks.progress(secure, seen)) == expected, seen
    assert [rung.status for rung in checks.progress(SERVER, Seen((dialled,)))][:3] == ["passed"] * 3, "a plain address"


SERVER = ServerConfig("acme", "crm", Transport.HTTP, "http://192.0.2.1/mcp")


@gate("mcp.check_progress")
def test_a_check_that_waits_for_a_list_shows_what_is_passed_and_what_goes_on(
    acme: Tenancy, houses: Callable[[], House]
) -> None:
    with stalling() as (market, name, released):
        row, house = registered(market.at(name, acme.id)), houses()
        check = checking.request_check(acme.id, row.pk, user=None)
        assert states(view(acme, check)) == ""
        job = begun(lambda: jobs.inspect_source(house.runtime, "mcp", acme.id, str(check.pk)))
        until(lambda: states(view(acme, check)) == "pppppr", "five rungs passed, the list goes on", 20.0)
        found = view(acme, check)
        assert (found.state, found.says) == ("running", "A worker is at it: Tools.")
        assert found.rungs[0]["fact"], "what was found out is there at once"
        released.set()
        job.join(20)
    found = view(acme, check)
    assert (found.state, states(found)) == ("succeeded", "pppppp")


@gate("mcp.check_progress")
def test_a_late_word_changes_nothing_of_a_check_that_is_finished(
    acme: Tenancy, houses: Callable[[], House], market: Market, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thread that was slow to write comes after the end."""
    name, _ = market.offer()
    row, house, late = registered(market.at(name, acme.id)), houses(), list[Callable[[], object]]()
    monkeypatch.setattr("mcpcatalog.news.News.note", lambda news, word: late.append(lambda: news._tell(word)))
    check = checking.request_check(acme.id, row.pk, user=None)
    jobs.inspect_source(house.runtime, "mcp", acme.id, str(check.pk))
    assert (states(view(acme, check)), len(late) > 1) == ("pppppp", True)
    for tell in late:
        tell()
    assert states(view(acme, check)) == "pppppp"


@gate("mcp.check_progress")
def test_who_cannot_be_told_does_not_hurt_the_check(
    acme: Tenancy, houses: Callable[[], House], market: Market, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: Any) -> Any:
        raise RuntimeError("the database is away")

    monkeypatch.setattr(checks, "progress", fails)
    name, _ = market.offer()
    row, house = registered(market.at(name, acme.id)), houses()
    check = checking.request_check(acme.id, row.pk, user=None)
    jobs.inspect_source(house.runtime, "mcp", acme.id, str(check.pk))
    assert states(view(acme, check)) == "pppppp"


@gate("mcp.check_progress")
def test_a_check_whose_worker_is_killed_says_how_far_it_came_and_can_be_asked_for_again(
    acme: Tenancy, houses: Callable[[], House]
) -> None:
    with stalling() as (market, name, released):
        row = registered(market.at(name, acme.id))
        with worker("never", market.port) as child:
            check = checking.request_check(acme.id, row.pk, user=None)
            until(lambda: states(view(acme, check)) == "pppppr", "the list goes on", 30.0)
            child.kill()
            assert child.wait(10) == -signal.SIGKILL
        assert view(acme, check).state == "running", "nobody knows yet"
        assert checking.request_check(acme.id, row.pk, user=None).pk == check.pk
        long_ago = timezone.now() - timedelta(seconds=checking.CHECK_SECONDS + 1)
        with tenant_transaction(acme.id):
            ServerCheck.objects.filter(pk=check.pk).update(started_at=long_ago)
        found = view(acme, check)
        assert (found.state, states(found), found.rungs[-1]["fact"]) == ("unavailable", "pppppn", "not finished")
        assert found.says.startswith("No worker has finished it. It came as far as Authentication.")
        released.set()
        house = houses()
        jobs.inspect_source(house.runtime, "mcp", acme.id, str(check.pk))
        assert view(acme, check).state == "unavailable", "a bell that rings again does not begin it anew"
        again = checking.request_check(acme.id, row.pk, user=None)
        assert again.pk != check.pk
        jobs.inspect_source(house.runtime, "mcp", acme.id, str(again.pk))
        assert view(acme, again).state == "succeeded"
    with tenant_transaction(acme.id):
        assert McpServer.objects.get(pk=row.pk).last_failure_code == ""


@gate("mcp.check_progress")
def test_a_check_that_takes_too_long_keeps_what_it_saw(acme: Tenancy, monkeypatch: pytest.MonkeyPatch) -> None:
    def look(config: ServerConfig, version: int | None, tell: Callable[[Seen], object]) -> Seen:
        tell(Seen((Mark("connect", 0.1, is_done=True),), connected_in_seconds=0.2, revision="2026-07-28"))
        raise TimeoutError

    found = checking.walk(
        replace(SERVER, tenant_id=acme.id), look, clock=wiring.SystemClock(), ceiling=1_048_576
    )  # fmt: skip
    assert [rung.status for rung in found.rungs] == ["passed"] * 5 + ["failed"]


@gate("mcp.check_progress")
def test_the_command_prints_a_rung_as_soon_as_it_is_passed(acme: Tenancy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wiring, "egress_of", policy_of)
    with stalling() as (market, name, released):
        registered(market.at(name, acme.id))
        out = StringIO()
        command = begun(lambda: call_command("mcp_check", name, tenant=acme.id, stdout=out))
        until(lambda: out.getvalue().count("✓") == 5, "five rungs before the end", 20.0)
        released.set()
        command.join(20)
    lines = out.getvalue().splitlines()
    assert (len(lines), lines[-1]) == (7, f"{acme.id} {name}: usable"), "each rung once"
