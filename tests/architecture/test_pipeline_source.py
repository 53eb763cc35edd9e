"""The order of the fourteen steps, the places of the commits, and the one line that touches the world."""

import ast
import io
import tokenize

from tests.architecture.source import ROOMS, functions, module_name, module_path, modules, statements, tree
from tests.spec.requirements import gate
from toolsys import trace

SOURCE = module_path("toolsys.pipeline").read_text()
TREE = ast.parse(SOURCE)

# What each marked line of `run` calls, top to bottom.
MANIFEST = [
    ("1 resolve registered tool", "steps.resolve_tool"),
    ("2 check enabled for agent", "steps.check_enabled"),
    ("3 check principal scopes", "steps.check_scopes"),
    ("4 validate JSON arguments", "steps.validate_arguments"),
    ("5 normalize arguments", "steps.normalize"),
    ("6 evaluate policy", "steps.evaluate_policy"),
    ("7 request approval if needed", "steps.request_approval"),
    ("COMMIT", "store.commit_refusal"),
    ("7 COMMIT", "store.commit_hold"),
    ("8 persist intent COMMIT", "store.commit_intent"),
    ("9 claim for execution COMMIT", "store.commit_claim"),
    ("COMMIT", "store.commit_result"),
    ("10 execute with timeout: acquire, send nothing", "runtime.execution.prepare"),
    ("COMMIT", "store.commit_result"),
    ("10 effect watermark COMMIT", "store.commit_watermark"),
    ("10 the world is touched here", "runtime.execution.execute"),
    ("11 validate result", "steps.validate_result"),
    ("12 excerpt or artifactize", "steps.bound_output"),
    ("13 persist result COMMIT", "store.commit_result"),
    ("14 render outcome", "steps.render_outcome"),
]


def function(name: str) -> ast.FunctionDef:
    (found,) = [node for node in TREE.body if isinstance(node, ast.FunctionDef) and node.name == name]
    return found


def calls(node: ast.AST) -> list[tuple[int, str]]:
    """Every call of a dotted name, in the order of the source."""
    found = [child for child in ast.walk(node) if isinstance(child, ast.Call)]
    return sorted((call.lineno, ast.unparse(call.func)) for call in found)


def comments() -> dict[int, str]:
    tokens = tokenize.generate_tokens(io.StringIO(SOURCE).readline)
    return {token.start[0]: token.string.lstrip("# ") for token in tokens if token.type == tokenize.COMMENT}


def marked_lines() -> list[tuple[str, str]]:
    run = function("run")
    said = {line: text for line, text in comments().items() if run.lineno <= line <= (run.end_lineno or 0)}
    known = calls(run)
    return [(text, next(name for at, name in known if at == line)) for line, text in sorted(said.items())]


@gate("pipeline.order")
def test_steps_and_commits_stand_where_the_specification_puts_them() -> None:
    assert marked_lines() == MANIFEST


@gate("pipeline.order")
def test_every_commit_in_the_pipeline_is_marked() -> None:
    said = comments()
    unmarked = [
        (line, name)
        for line, name in calls(function("run"))
        if ".commit_" in name and "COMMIT" not in said.get(line, "")
    ]
    assert unmarked == []


@gate("pipeline.order")
def test_the_numbers_are_the_trace_s_fourteen() -> None:
    numbers = [int(text.split()[0]) for text, _ in MANIFEST if text[0].isdigit()]
    assert set(numbers) == set(range(1, 15))
    assert numbers == sorted(numbers)
    named = {text.replace(" COMMIT", "").split(":")[0] for text, _ in MANIFEST}
    missing = {f"{number} {name}" for number, name in trace.STEP_NAMES.items()} - named
    assert missing == set()


@gate("pipeline.one_site")
def test_one_line_touches_the_world() -> None:
    sites = [
        (module_name(path), line)
        for path in modules(*ROOMS)
        if "execute" in path.read_text()
        for line, name in calls(tree(path))
        if name.endswith("execution.execute")
    ]
    assert [module for module, _ in sites] == ["toolsys.pipeline"]


@gate("pipeline.no_transaction")
def test_the_line_before_asserts_that_no_transaction_is_open() -> None:
    (block,) = [
        node.body
        for node in ast.walk(function("run"))
        if isinstance(node, ast.With) and "runtime.execution.execute" in ast.unparse(node)
    ]
    (index,) = [n for n, statement in enumerate(block) if "runtime.execution.execute" in ast.unparse(statement)]
    guard = block[index - 1]
    assert isinstance(guard, ast.Assert)
    assert ast.unparse(guard.test) == "not is_transaction_open()"


@gate("gate.3")
def test_the_watermark_comes_before_the_effect_for_everything_but_none() -> None:
    order = [name for _, name in calls(function("run"))]
    assert order.index("store.commit_watermark") < order.index("runtime.execution.execute")
    (guard,) = [
        node
        for node in ast.walk(function("run"))
        if isinstance(node, ast.If) and "commit_watermark" in ast.unparse(node)
    ]
    assert ast.unparse(guard.test) == "case.classification.side_effect is not SideEffectClass.NONE"
    assert "fence.held and runtime.execution.may_send(claim)" in ast.unparse(guard)


@gate("pipeline.one_site")
def test_the_pipeline_is_entered_from_services_and_by_its_own_re_entry_only() -> None:
    importers = [
        module_name(path)
        for path in modules(*ROOMS)
        for node in statements(tree(path))
        if (isinstance(node, ast.ImportFrom) and (node.module == "toolsys.pipeline" or (
            node.module == "toolsys" and any(alias.name == "pipeline" for alias in node.names))))
        or (isinstance(node, ast.Import) and any(alias.name == "toolsys.pipeline" for alias in node.names))
    ]  # fmt: skip
    assert importers == ["toolsys.services"]
    services = calls(ast.parse(module_path("toolsys.services").read_text()))
    assert [name for _, name in services if name.startswith("pipeline.")] == ["pipeline.run"]
    assert [name for _, name in calls(TREE) if name == "run"] == ["run"]


@gate("pipeline.order")
def test_a_step_does_no_work_of_the_edges() -> None:
    imported = {
        alias.name if isinstance(node, ast.Import) else f"{node.module}.{alias.name}"
        for node in ast.walk(ast.parse(module_path("toolsys.steps").read_text()))
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
    }
    forbidden = ("django", "logging", "time", "datetime", "random", "secrets", "uuid", "os", "toolsys.models")
    assert [name for name in imported if name.split(".")[0] in forbidden or name.startswith(forbidden[-1])] == []


@gate("vault.revealed")
def test_a_secret_is_revealed_in_two_places_only() -> None:
    found = [
        (module_name(path), node.name)
        for path in modules(*ROOMS)
        if "reveal" in path.read_text()
        for node in functions(tree(path))
        for _, name in calls(node)
        if name.endswith(".reveal")
    ]
    assert found == [("mcpcatalog.sdk.auth", "built_header"), ("mcpcatalog.sdk.auth", "child_environment")]
