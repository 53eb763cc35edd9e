"""The list of the face's crash points is complete: every commit of its conversations is reported, and killed around."""

import ast

from tests.architecture.source import ROOT
from tests.crash.face_points import FACE_POINTS, Request, Then
from tests.spec.requirements import gate

SOURCE = (ROOT / "toolsys" / "conversations.py").read_text()
WRITERS = {"create", "bulk_create", "save", "update", "delete"}


def reported(source: str) -> tuple[set[str], list[str]]:
    """Return the points that are reported, and the writing statements outside of any."""
    points: set[str] = set()
    outside: list[str] = []

    def visit(node: ast.AST, *, is_told: bool) -> None:
        if isinstance(node, ast.With):
            for item in node.items:
                match item.context_expr:
                    case ast.Call(func=ast.Name(id="_committing"), args=[ast.Constant(value=str(point)), *_]):
                        points.add(point)
                        is_told = True
        if isinstance(node, ast.Call) and not is_told and _writes(node):
            outside.append(ast.unparse(node))
        for child in ast.iter_child_nodes(node):
            visit(child, is_told=is_told)

    visit(ast.parse(source), is_told=False)
    return points, outside


def _writes(call: ast.Call) -> bool:
    return isinstance(call.func, ast.Attribute) and (
        call.func.attr in WRITERS or ast.unparse(call.func) == "database.call"
    )


@gate("mcp.face.crash")
def test_every_commit_of_the_face_is_reported_and_has_a_crash_point_on_each_side() -> None:
    points, outside = reported(SOURCE)
    assert outside == []
    assert points >= {"conversation", "number", "collect", "forget", "move", "close"}
    assert {point.moment for point in FACE_POINTS} == {
        f"{side}_{each}" for each in points for side in ("before", "after")
    }


@gate("mcp.face.crash")
def test_a_commit_that_is_not_reported_is_noticed() -> None:
    grown = SOURCE + "\n\ndef later(row: McpProposal) -> None:\n    row.save()\n"
    assert reported(grown)[1] == ["row.save()"]


@gate("mcp.face.crash")
def test_every_row_of_the_table_is_one_cell_and_every_request_and_ending_has_one() -> None:
    cells = [(point.moment, point.request, era) for point in FACE_POINTS for era in point.eras]
    assert len(cells) == len(set(cells))
    assert {point.request for point in FACE_POINTS} == set(Request)
    assert {point.then for point in FACE_POINTS} == set(Then)
