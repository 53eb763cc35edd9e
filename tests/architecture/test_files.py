"""Files keep their size, their names, and say what they are."""

import ast
from pathlib import Path

from tests.architecture.source import ROOMS, ROOT, functions, modules, tree
from tests.spec.requirements import gate

FORBIDDEN = {
    "utils",
    "util",
    "helpers",
    "helper",
    "common",
    "core",
    "manager",
    "managers",
    "handler",
    "handlers",
    "engine",
    "misc",
}
MODULE_LINES, TEST_LINES, FUNCTION_LINES = 400, 500, 60


def written() -> list[Path]:
    """What people write: not what `makemigrations` does."""
    return [path for path in modules(*ROOMS) if "migrations" not in path.parts]


def checks() -> list[Path]:
    return sorted((ROOT / "tests").rglob("*.py"))


def started(path: Path) -> list[ast.Call]:
    """Return where a file starts a process and goes on beside it."""
    if "Popen" not in path.read_text():
        return []
    return [node for node in ast.walk(tree(path)) if isinstance(node, ast.Call) and ast.unparse(node.func)
            in {"Popen", "subprocess.Popen"}]  # fmt: skip


def lines(path: Path) -> int:
    return len(path.read_text().splitlines())


def where(path: Path) -> str:
    return str(path.relative_to(ROOT))


@gate("house.files")
def test_no_module_outgrows_its_one_idea() -> None:
    assert {where(path): lines(path) for path in written() if lines(path) > MODULE_LINES} == {}
    assert {where(path): lines(path) for path in checks() if lines(path) > TEST_LINES} == {}


@gate("house.files")
def test_no_function_outgrows_a_screen() -> None:
    long = {
        f"{where(path)}:{node.name}": (node.end_lineno or 0) - node.lineno + 1
        for path in [*written(), *checks()]
        for node in functions(tree(path))
        if (node.end_lineno or 0) - node.lineno + 1 > FUNCTION_LINES
    }
    assert long == {}


@gate("house.files")
def test_no_name_says_nothing() -> None:
    parts = {where(path): set(path.relative_to(ROOT).with_suffix("").parts) for path in [*written(), *checks()]}
    assert {name: found & FORBIDDEN for name, found in parts.items() if found & FORBIDDEN} == {}


@gate("house.files")
def test_every_module_says_what_it_is() -> None:
    silent = [where(path) for path in [*written(), *checks()] if tree(path).body and not ast.get_docstring(tree(path))]
    assert silent == []


# These two are peers that misbehave on purpose: what they start must outlive them, and be ended by our own keeper.
MEANT_TO_LEAVE = {"tests/hostile/stdio_server.py", "tests/integration/mcp/stdio_peer.py"}


@gate("house.files")
def test_no_process_of_a_test_outlives_the_test_run() -> None:
    free = [
        where(path) for path in checks()
        for call in started(path) if "preexec_fn" not in {keyword.arg for keyword in call.keywords}
    ]  # fmt: skip
    assert set(free) == MEANT_TO_LEAVE
