"""Our own source files, and which of their imports run when the module does."""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
ROOMS = ("toolsys", "approvals", "mcpcatalog", "config")


def modules(*rooms: str) -> list[Path]:
    return [path for room in rooms for path in sorted((ROOT / room).rglob("*.py"))]


def module_name(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def module_path(name: str) -> Path:
    path = ROOT.joinpath(*name.split("."))
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


@cache
def tree(path: Path) -> ast.Module:
    """Return the module; read once for all tests of a process."""
    return ast.parse(path.read_text())


def statements(block: ast.AST) -> Iterator[ast.stmt]:
    """Yield every statement below a node, at any depth; expressions, which are most nodes of a file, are passed by."""
    for child in ast.iter_child_nodes(block):
        if isinstance(child, ast.stmt):
            yield child
        if isinstance(child, ast.stmt | ast.excepthandler | ast.match_case):
            yield from statements(child)


def functions(block: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Yield the functions and methods below a node, nested ones too."""
    return (found for found in statements(block) if isinstance(found, ast.FunctionDef | ast.AsyncFunctionDef))


def eager_lines(tree: ast.AST) -> set[int]:
    """Return the lines of import statements that run at import: not in a function, not for type checkers only."""
    return {line for node in _running(tree) for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)}


def _running(node: ast.AST) -> Iterator[ast.Import | ast.ImportFrom]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import | ast.ImportFrom):
            yield child
        elif isinstance(child, ast.If) and ast.unparse(child.test).endswith("TYPE_CHECKING"):
            yield from (found for branch in child.orelse for found in _running(branch))
        elif not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            yield from _running(child)
