"""`math.evaluate`: arithmetic over a closed grammar of numbers, operators and a few functions.

The expression is parsed, never executed; size of the text and of every intermediate number is bounded.
"""

import ast
import math
import operator
from collections.abc import Callable
from typing import Any, Final

from toolsys.builtin.base import builtin_spec, failed, succeeded
from toolsys.domain.context import ToolExecutionContext
from toolsys.domain.results import ToolFailureKind, ToolResult
from toolsys.domain.spec import JsonObject

MAXIMUM_LENGTH: Final = 512
MAXIMUM_MAGNITUDE: Final = 1e300
MAXIMUM_EXPONENT: Final = 512

Number = int | float
_BINARY: Final[dict[type[ast.operator], Callable[[Any, Any], Number]]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
}
_UNARY: Final[dict[type[ast.unaryop], Callable[[Any], Number]]] = {ast.UAdd: operator.pos, ast.USub: operator.neg}
_FUNCTIONS: Final[dict[str, Callable[..., Number]]] = {
    "abs": abs, "round": round, "min": min, "max": max, "sqrt": math.sqrt, "floor": math.floor, "ceil": math.ceil,
    "log": math.log, "log10": math.log10, "exp": math.exp, "sin": math.sin, "cos": math.cos, "tan": math.tan,
}  # fmt: skip
_CONSTANTS: Final = {"pi": math.pi, "e": math.e}


class NotArithmetic(ValueError):
    """The text is not in the grammar, or a number grew past the bound."""


class MathEvaluate:
    spec = builtin_spec(
        "math.evaluate",
        "Evaluate an arithmetic expression such as (2 + 3) * sqrt(16).",
        {"expression": {"type": "string", "minLength": 1, "maxLength": MAXIMUM_LENGTH}},
        required=["expression"],
    )
    binding = ""

    async def execute(self, arguments: JsonObject, context: ToolExecutionContext) -> ToolResult:
        try:
            value = evaluate(arguments["expression"])
        except (NotArithmetic, ArithmeticError, ValueError, TypeError) as error:
            return failed(ToolFailureKind.INVALID_ARGUMENTS, str(error)[:200])
        return succeeded({"value": value}, str(value))


def evaluate(expression: str) -> Number:
    """Raises: NotArithmetic; ArithmeticError."""
    try:
        tree = ast.parse(expression.strip(), mode="eval")
    except (SyntaxError, RecursionError, MemoryError):
        raise NotArithmetic("not an arithmetic expression") from None
    return _value(tree.body, 0)


def _value(node: ast.expr, depth: int) -> Number:
    if depth > 64:
        raise NotArithmetic("nested too deeply")
    match node:
        case ast.Constant(value=int() | float() as number) if not isinstance(number, bool):
            return _bounded(number)
        case ast.Name(id=name) if name in _CONSTANTS:
            return _CONSTANTS[name]
        case ast.UnaryOp(op=op, operand=operand) if type(op) in _UNARY:
            return _UNARY[type(op)](_value(operand, depth + 1))
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _BINARY:
            return _binary(op, _value(left, depth + 1), _value(right, depth + 1))
        case ast.Call(func=ast.Name(id=name), args=arguments, keywords=[]) if name in _FUNCTIONS:
            return _bounded(_FUNCTIONS[name](*[_value(argument, depth + 1) for argument in arguments]))
    raise NotArithmetic("only numbers, + - * / // % ** and a few functions")


def _binary(op: ast.operator, left: Number, right: Number) -> Number:
    if isinstance(op, ast.Pow) and (abs(right) > MAXIMUM_EXPONENT or abs(left) > MAXIMUM_MAGNITUDE):
        raise NotArithmetic("exponent too large")
    return _bounded(_BINARY[type(op)](left, right))


def _bounded(number: Any) -> Number:
    if isinstance(number, complex) or not math.isfinite(number) or abs(number) > MAXIMUM_MAGNITUDE:
        raise NotArithmetic("the number is out of bounds")
    found: Number = number
    return found
