"""The list of crash points is complete: every commit of the store has one on each side, each an expectation."""

import ast
import re
from collections.abc import Iterator

from tests.architecture.source import ROOMS, ROOT, modules
from tests.crash.expected import CLAIMED, ENDINGS, PHASES, TABLE, Class, Kill
from tests.crash.points import CONCLUDING, POINTS, SECOND_POINTS, Match, Scenario

STORE = (ROOT / "toolsys" / "store.py").read_text()
SQL = "".join(path.read_text() for path in sorted((ROOT / "toolsys" / "sql").glob("*.sql")))
# Commits that no probe of the store reports: who else persists something of a call, and the moments around it.
# A decision is the approver's transaction: killed in it, and after it.
ELSEWHERE = {
    "toolsys_renew": ("before_renew", "after_renew"),
    "toolsys_commit_decision": ("decision_uncommitted", "before_ring"),
}


def commit_points(source: str) -> set[str]:
    """Return the point names that a module hands to `_call`, whatever expression names them."""
    tree = ast.parse(source)
    return {
        name
        for function in ast.walk(tree)
        if isinstance(function, ast.FunctionDef)
        for call in ast.walk(function)
        if isinstance(call, ast.Call) and ast.unparse(call.func) == "self._call"
        for name in _strings(call.args[0], function)
    }


def _strings(node: ast.expr, function: ast.FunctionDef) -> Iterator[str]:
    match node:
        case ast.Constant(value=str(name)):
            yield name
        case ast.IfExp(body=one, orelse=other):
            yield from _strings(one, function)
            yield from _strings(other, function)
        case ast.Call(func=ast.Attribute(value=ast.Dict(values=values), attr="get"), args=[_, default]):
            for value in (*values, default):
                yield from _strings(value, function)
        case ast.Name(id=variable):
            (assigned,) = [
                each.value
                for each in ast.walk(function)
                if isinstance(each, ast.Assign) and ast.unparse(each.targets[0]) == variable
            ]
            yield from _strings(assigned, function)
        case _:
            raise AssertionError(f"a commit point is named by {ast.unparse(node)}: teach this test to read it")


def uncovered(points: set[str]) -> set[str]:
    """Return the moments around commit points at which nothing is killed."""
    killed = {point.moment for point in POINTS.values() if point.match is Match.TOOL}
    return {f"{side}_{point}" for point in points for side in ("before", "after")} - killed


def test_every_commit_point_of_the_store_has_a_crash_point_on_each_side() -> None:
    points = commit_points(STORE)
    assert {
        "intent",
        "hold",
        "refusal",
        "claim",
        "watermark",
        "release",
        "result",
        "settlement",
        "unrecorded",
    } <= points
    assert uncovered(points) == set()


def test_a_new_commit_point_without_a_crash_point_is_noticed() -> None:
    grown = STORE.replace('"watermark", claim.tool_name', '"second_thoughts", claim.tool_name')
    assert uncovered(commit_points(grown)) - uncovered(commit_points(STORE)) == {
        "before_second_thoughts",
        "after_second_thoughts",
    }


def test_every_commit_function_of_the_database_is_reached_through_the_probe() -> None:
    functions = set(re.findall(r"FUNCTION (toolsys_commit_\w+|toolsys_renew)\(", SQL))
    called = set(re.findall(r"(toolsys_commit_\w+)\(", STORE))
    assert functions - called == set(ELSEWHERE)
    moments = {point.moment for point in POINTS.values()}
    assert {moment for around in ELSEWHERE.values() for moment in around} <= moments


def test_the_store_speaks_to_the_database_past_the_probe_only_to_read() -> None:
    statements = [
        ast.unparse(call.args[0])
        for call in ast.walk(ast.parse(STORE))
        if isinstance(call, ast.Call) and ast.unparse(call.func) == "database.call"
    ]
    assert sorted(re.findall(r"toolsys_\w+", " ".join(statements))) == ["toolsys_facts", "toolsys_standing"]
    assert statements.count("statement") == 1, "the one call that the probe stands around"


def test_a_vote_is_written_in_one_place_which_has_crash_points_of_its_own() -> None:
    """A vote that decides is killed around its decision, one that decides nothing around itself."""
    source = (ROOT / "approvals" / "services.py").read_text()
    writers = [
        function.name
        for function in ast.parse(source).body
        if isinstance(function, ast.FunctionDef) and "ApprovalVote.objects.create" in ast.unparse(function)
    ]
    assert writers == ["_keep"]
    assert {"vote_uncommitted", "vote_committed"} <= {point.moment for point in POINTS.values()}


def test_a_grant_is_used_by_the_intent_only() -> None:
    """Its crash points are the intent's, passed with a grant in hand."""
    users = re.findall(
        r"FUNCTION (toolsys_commit_\w+)(?=(?:(?!CREATE OR REPLACE).)*toolsys_use_grant\()", SQL, re.DOTALL
    )
    assert users == ["toolsys_commit_proposal"]
    assert {point.moment for point in POINTS.values() if point.scenario is Scenario.GRANTED} == {
        "before_intent", "after_intent"
    }  # fmt: skip


def test_every_other_moment_that_the_product_reports_is_a_crash_point() -> None:
    reported = {found for path in modules(*ROOMS) for found in re.findall(r'probe\.reached\("(\w+)"', path.read_text())}
    assert {"before_blob", "after_blob", "after_artifact"} <= reported
    assert reported - {point.moment for point in POINTS.values()} == set()


def test_every_point_has_its_expectation_and_no_other() -> None:
    assert PHASES.keys() == POINTS.keys()
    assert {phase for phases in PHASES.values() for phase in phases.values()} == {
        *ENDINGS, *(phase for phase, _ in TABLE)
    }  # fmt: skip
    assert all(phases.keys() == set(Kill) for phases in PHASES.values())
    assert {kind for _, kind in TABLE} == set(Class)
    assert len(TABLE) == len({phase for phase, _ in TABLE}) * len(Class)


def test_there_are_more_than_the_forty_two_points_asked_for() -> None:
    assert len(POINTS) >= 42
    assert {point.name for point in SECOND_POINTS} >= CONCLUDING
    assert POINTS.keys() >= CLAIMED
