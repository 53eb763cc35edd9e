"""Every planted defect still applies, and every test that it names exists; `make sabotage` plants them."""

import ast
from functools import cache

import pytest

from tests.sabotage import DEFECTS
from tests.sabotage.defect import Defect, Edit
from tests.sabotage.runs import ROOT
from tests.spec.requirements import gate


@cache
def named(path: str) -> frozenset[str]:
    """Return the tests of a file, as node ids."""
    tree = ast.parse((ROOT / path).read_text())
    found = [(node, "") for node in tree.body]
    found += [(child, f"{node.name}::") for node in tree.body if isinstance(node, ast.ClassDef) for child in node.body]
    return frozenset(f"{path}::{owner}{node.name}" for node, owner in found if isinstance(node, ast.FunctionDef))


@pytest.mark.parametrize("defect", DEFECTS, ids=lambda defect: defect.name.replace(" ", "-"))
@gate("sabotage.planted")
def test_a_defect_applies_and_leaves_code_that_can_be_read(defect: Defect) -> None:
    for path, text in defect.changed(ROOT).items():
        assert text != (ROOT / path).read_text()
        if path.endswith(".py"):
            ast.parse(text)


@gate("sabotage.planted")
def test_every_test_that_a_defect_names_exists() -> None:
    missing = [test for defect in DEFECTS for test in defect.tests if test not in named(test.partition("::")[0])]
    assert missing == []


@gate("sabotage.planted")
def test_there_are_many_defects_each_with_a_name_and_tests_of_its_own() -> None:
    assert len(DEFECTS) >= 20
    assert len({defect.name for defect in DEFECTS}) == len(DEFECTS)
    assert [defect.name for defect in DEFECTS if not defect.tests or len(defect.says) > 66] == []


def test_a_defect_whose_text_has_moved_on_is_an_error() -> None:
    with pytest.raises(LookupError, match="0 times"):
        Edit("Makefile", "no such text", "x").applied("text")
    with pytest.raises(LookupError, match="2 times"):
        Edit("Makefile", "text", "x").applied("text text")
