"""Guesses at passwords are bounded, by the same count in every process, and not at all where nobody can count."""

import multiprocessing
import uuid
from typing import Any

import pytest
import redis
from django.test import Client

from approvals import reauthentication
from config import admin_site
from tests.factories import Tenancy
from tests.integration.console.people import LOGIN, PASSWORD, Person, person
from tests.spec.requirements import gate
from toolsys import guesses, queue
from toolsys.domain.states import Role
from toolsys.guesses import Bound
from toolsys.problems import Problem


def bound(limit: int = 2, seconds: int = 900) -> Bound:
    return Bound(uuid.uuid4().hex, limit, seconds)


def stored(found: Bound) -> Any:
    connection: redis.Redis = queue.call_queue().connection
    return connection.get(found.key), connection.ttl(found.key)


@gate("passwords.bounded")
def test_attempts_beyond_the_bound_wait_for_the_end_of_the_window() -> None:
    found = [bound()]
    assert [guesses.wait_before(found) for _ in range(2)] == [0, 0]
    assert 890 <= guesses.wait_before(found) <= 900
    guesses.forget(found)
    assert guesses.wait_before(found) == 0


@gate("passwords.bounded")
def test_a_window_ends_by_itself_whenever_its_process_died() -> None:
    """A counter without an end, as a process leaves it that died in between, gets one at the next attempt."""
    found = bound()
    connection: redis.Redis = queue.call_queue().connection
    connection.set(found.key, 7)
    assert guesses.wait_before([found]) == 900
    assert 0 < stored(found)[1] <= 900


def _guess(found: Bound, told: Any) -> None:
    told.put(guesses.wait_before([found]))


@gate("passwords.bounded")
def test_another_process_counts_the_same_guesses() -> None:
    found, context = bound(limit=1), multiprocessing.get_context("fork")
    told = context.Queue()
    child = context.Process(target=_guess, args=(found, told))
    child.start()
    assert told.get(timeout=60) == 0
    child.join(60)
    assert guesses.wait_before([found]) > 0


@gate("passwords.bounded")
def test_nobody_guesses_where_nobody_can_count(acme: Tenancy, monkeypatch: pytest.MonkeyPatch) -> None:
    def gone(*_: object) -> None:
        raise redis.ConnectionError("it is gone")

    approver = person((acme, Role.EXPERT_APPROVER), signed_in=False)
    monkeypatch.setattr("toolsys.valkey.command", gone)
    with pytest.raises(Problem, match=r"request\.throttled"):
        reauthentication.is_confirmed(approver.user, PASSWORD)
    assert "Try again in 1 minute" in sign_in(approver, PASSWORD)


def sign_in(who: Person, password: str, browser: Client | None = None, **extra: Any) -> str:
    """Return the page that says why not; empty, where they are in."""
    answer: Any = (browser or who.browser).post(
        LOGIN, {"username": who.user.username, "password": password, "next": "/admin/"}, **extra
    )
    return "" if answer.status_code == 302 else answer.content.decode()


@gate("passwords.bounded")
def test_signing_in_is_bounded_and_says_how_long_to_wait(acme: Tenancy) -> None:
    approver = person((acme, Role.EXPERT_APPROVER), signed_in=False)
    for _ in range(admin_site.LOGIN_LIMIT):
        assert "Too many" not in sign_in(approver, "guess", Client())
    told = sign_in(approver, PASSWORD, Client())
    assert "Too many attempts. Try again in 15 minutes." in told
    elsewhere = sign_in(approver, PASSWORD, Client(), REMOTE_ADDR="192.0.2.7")
    assert elsewhere == "", "who guesses from one address locks nobody out elsewhere"


@gate("passwords.bounded")
def test_an_account_is_bounded_from_everywhere_and_one_that_is_not_there_reads_the_same(
    acme: Tenancy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(admin_site, "ACCOUNT_LIMIT", 3)
    there = person((acme, Role.EXPERT_APPROVER), signed_in=False)
    nobody = Person(type(there.user)(username=f"nobody-{uuid.uuid4().hex[:8]}"))
    for who in (there, nobody):
        for number in range(3):
            assert "Too many" not in sign_in(who, "guess", Client(), REMOTE_ADDR=f"192.0.2.{number}")
        assert "Too many attempts" in sign_in(who, PASSWORD, Client(), REMOTE_ADDR="192.0.2.99")


@gate("passwords.bounded")
def test_the_right_password_forgets_what_was_mistyped(acme: Tenancy) -> None:
    approver = person((acme, Role.EXPERT_APPROVER), signed_in=False)
    for _ in range(3):
        for _ in range(admin_site.LOGIN_LIMIT - 1):
            sign_in(approver, "guess", Client())
        assert sign_in(approver, PASSWORD, Client()) == ""


@gate("passwords.bounded")
def test_an_account_of_one_s_own_forgets_no_guess_at_others_from_one_address(
    acme: Tenancy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(admin_site, "ADDRESS_LIMIT", 5)
    own, others = (person((acme, Role.EXPERT_APPROVER), signed_in=False) for _ in range(2))
    here = {"REMOTE_ADDR": "192.0.2.44"}
    for _ in range(4):
        assert "Too many" not in sign_in(others, "guess", Client(), **here)
        assert sign_in(own, PASSWORD, Client(), **here) == ""
    assert "Too many" not in sign_in(others, "guess", Client(), **here)
    assert "Too many attempts" in sign_in(own, PASSWORD, Client(), **here)


@gate("passwords.bounded")
def test_many_who_sign_in_from_one_address_use_up_nothing(acme: Tenancy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admin_site, "ADDRESS_LIMIT", 2)
    colleagues = [person((acme, Role.EXPERT_APPROVER), signed_in=False) for _ in range(4)]
    assert [sign_in(who, PASSWORD, Client(), REMOTE_ADDR="192.0.2.45") for who in colleagues] == [""] * 4


@gate("passwords.bounded")
def test_what_is_taken_back_from_a_window_that_has_ended_leaves_no_credit() -> None:
    found = bound(limit=1)
    guesses.take_back([found])
    assert stored(found) == (None, -2)
    assert [guesses.wait_before([found]) > 0 for _ in range(2)] == [False, True]
