"""Many expressions asked at once answer as each does alone, whatever they are made of."""

from approvals import conditions
from approvals.conditions import Condition, Reading
from approvals.screens import NARROW, WIDE, Screens
from tests.spec.requirements import gate

PATTERNS = [f".*x{number}y" for number in range(2 * WIDE + 3)]
ODD = [r"\Qx1y", "(?i)X1Y", "x1y|never", "(?P<a>x)1y", "(?P<a>x)1(?P<b>y)", "x[1]y", "(?s).*", "(x(1)y)", ""]


@gate("policy.conditions")
def test_expressions_asked_together_answer_as_each_alone() -> None:
    asked = [
        conditions.compiled(Condition.model_validate({"pointer": "/to", "operator": "matches", "value": pattern}))
        for pattern in [*PATTERNS, *ODD]
    ]
    screens = Screens((each.pointer, each.key, each.pattern or "") for each in asked)
    for text in ("x1y", "--x200y", "nothing", "x1y\n", "X1Y", "", f"x{NARROW}y", "e\u0301x2y"):
        reading, alone = Reading({"to": text}), Reading({"to": text})
        reading.screens = screens
        assert [reading.asked(each) for each in asked] == [alone.asked(each) for each in asked], text


@gate("policy.conditions")
def test_an_expression_whose_text_never_ends_takes_no_neighbour_with_it() -> None:
    keys = [("/to", "open", r"\Qab"), ("/to", "one", "c"), ("/to", "two", "d")]
    screens = Screens(keys)
    assert screens.of("open") == ()
    assert [union.refuses("d") for union in screens.of("one")] == [False]
    assert [union.refuses("e") for union in screens.of("one")] == [True]
