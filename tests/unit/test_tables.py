"""Which cases of a long table `make test` plays: few, from end to end, and never none; see `tests.tables`."""

import itertools
from types import SimpleNamespace
from typing import Any

import pytest

from tests.tables import KEPT, TESTS, left_for_later, pytest_collection_modifyitems


@pytest.mark.parametrize("number", [1, 2, KEPT, KEPT + 1, 7, 90])
def test_few_cases_are_played_at_once_and_every_other_one_later(number: int) -> None:
    cases = list(range(number))
    later = left_for_later(cases)
    at_once = [case for case in cases if case not in later]
    assert len(at_once) == min(number, KEPT)
    assert {cases[0], cases[-1]} <= set(at_once)
    steps = [after - before for before, after in itertools.pairwise(at_once)]
    assert max(steps, default=1) - min(steps, default=1) <= 1


def test_a_table_over_the_database_is_thinned_to_the_same_cases_in_any_order_unless_somebody_names_it() -> None:
    assert marked(str(TESTS), "gabfdec") == set("bcef")
    assert marked(str(TESTS), "cbadefg") == set("bcef")
    assert marked(str(TESTS), "gabfdec", "tmp_path") == set()
    assert marked(str(TESTS / "test_x.py"), "gabfdec") == set()


def marked(argument: str, order: str, fixture: str = "database") -> set[str]:
    """Return the cases that are left for later of a table whose cases were collected in this order."""
    found: set[str] = set()
    items: list[Any] = [
        SimpleNamespace(
            nodeid=f"test_x.py::test_row[{name}]", callspec=(), fixturenames=[fixture],
            add_marker=lambda _mark, name=name: found.add(name),
        )
        for name in order
    ]  # fmt: skip
    config: Any = SimpleNamespace(args=[argument])
    pytest_collection_modifyitems(config, items)
    return found
