"""Identifiers: their version and time, their order within a process, and that two threads never make one twice."""

import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from toolsys.ids import uuid7


def test_they_are_version_seven_and_carry_the_time() -> None:
    made = uuid7()
    assert (made.version, made.variant) == (7, "specified in RFC 4122")
    assert abs((made.int >> 80) - time.time_ns() // 1_000_000) < 5_000


def test_each_is_later_than_the_one_before_also_within_a_millisecond() -> None:
    made = [uuid7() for _ in range(20_000)]
    assert made == sorted(made)
    assert len(set(made)) == len(made)


def test_threads_share_one_order() -> None:
    with ThreadPoolExecutor(8) as pool:
        made = [each for some in pool.map(lambda _: [uuid7() for _ in range(2_000)], range(8)) for each in some]
    assert len({each.int >> 64 for each in made}) == len(made)


def test_a_clock_set_back_changes_no_order(monkeypatch: pytest.MonkeyPatch) -> None:
    before = uuid7()
    real = time.time_ns
    monkeypatch.setattr(time, "time_ns", lambda: real() - 10**10)
    assert uuid7() > before
