"""One tenant's servers take a few of a worker's threads at a time, and none of them is forgotten."""

import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest

from mcpcatalog.turns import TURNS, Turns
from tests.spec.requirements import gate


@gate("discovery.turns")
def test_slow_servers_of_one_tenant_leave_threads_to_the_others() -> None:
    turns, slow = Turns(), threading.Event()
    done: Counter[tuple[str, str]] = Counter()
    most, now, lock = 0, 0, threading.Lock()

    def look(tenant_id: str, key: str) -> None:
        nonlocal most, now
        for found in turns.of(tenant_id, key):
            if tenant_id == "acme":
                with lock:
                    now += 1
                    most = max(most, now)
                slow.wait(10)
                with lock:
                    now -= 1
            done[tenant_id, found] += 1

    with ThreadPoolExecutor(TURNS + 1) as threads:
        asked = [threads.submit(look, "acme", f"s{number}") for number in range(20)]
        other = threads.submit(look, "globex", "s0")
        other.result(5)
        assert done == {("globex", "s0"): 1}, "it waits for nobody"
        slow.set()
        for each in asked:
            each.result(10)
    assert most == TURNS
    assert done == {("globex", "s0"): 1, **{("acme", f"s{number}"): 1 for number in range(20)}}
    assert list(turns.of("acme", "s0")) == ["s0"]


@gate("discovery.turns")
def test_a_turn_comes_back_from_who_failed_and_what_waited_is_done_by_the_next() -> None:
    turns = Turns(limit=1)
    first = turns.of("acme", "a")
    assert next(first) == "a"
    assert [*turns.of("acme", "b"), *turns.of("acme", "b"), *turns.of("acme", "c")] == []
    assert next(first) == "b"
    with pytest.raises(ZeroDivisionError):
        first.throw(ZeroDivisionError())
    assert list(turns.of("acme", "d")) == ["d"]
