"""Imports point one way down, and importing the web process never imports the MCP SDK."""

import ast
import json
import os
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path

import grimp

from tests.architecture.source import ROOMS, ROOT, eager_lines, module_name, module_path, modules, statements, tree
from tests.spec.requirements import gate

SDK = ("mcp", "mcp_types")
# What can open a connection, and who may import it.
CLIENT, DIALLING = ("toolsys.egress", "mcpcatalog.sdk", "toolsys.client"), (
    "toolsys.dialling", "toolsys.forwarding", "toolsys.egress",
)  # fmt: skip
DIALLERS: dict[str, tuple[str, ...]] = {
    "httpx2": CLIENT, "httpcore2": DIALLING, "socket": DIALLING,
    **dict.fromkeys(
        ("httpx", "httpcore", "requests", "urllib3", "aiohttp", "websockets", "urllib.request", "http.client", "ftplib",
         "smtplib", "poplib", "imaplib", "xmlrpc.client"), (),
    ),
}  # fmt: skip


@cache
def _eager(name: str) -> set[int]:
    return eager_lines(tree(module_path(name)))


@cache
def graph() -> grimp.ImportGraph:
    """Build the graph of what runs at import: lazy imports are cut out of it."""
    built = grimp.build_graph(*ROOMS, include_external_packages=True, cache_dir=None)
    ours = [name for name in built.modules if name.split(".")[0] in ROOMS]
    for importer in ours:
        for imported in built.find_modules_directly_imported_by(importer):
            details = built.get_import_details(importer=importer, imported=imported)
            if details and all(detail["line_number"] not in _eager(importer) for detail in details):
                built.remove_import(importer=importer, imported=imported)
    return built


def chains(importers: list[str], targets: tuple[str, ...]) -> list[str]:
    """Every offending chain, spelled out."""
    found = [
        graph().find_shortest_chain(importer=importer, imported=target)
        for importer in importers
        for target in targets
        if target in graph().modules
    ]
    return [" -> ".join(chain) for chain in found if chain]


def ours(*rooms: str, outside: str = "-") -> list[str]:
    return sorted(
        name for name in graph().modules if name.split(".")[0] in rooms and not f"{name}.".startswith(f"{outside}.")
    )


@gate("gate.6", "house.direction")
def test_the_contracts_of_pyproject_are_kept() -> None:
    lint = Path(sys.executable).with_name("lint-imports")
    done = subprocess.run([lint, "--no-cache"], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert " 0 broken" in done.stdout


@gate("gate.13", "gate.6")
def test_nothing_outside_the_sdk_room_reaches_the_sdk() -> None:
    assert set(SDK) & graph().modules, "the SDK left the graph: this test sees nothing"
    assert chains(["mcpcatalog.sdk.connection"], SDK), "the SDK room itself must be seen to reach it"
    assert chains(ours(*ROOMS, outside="mcpcatalog.sdk"), SDK) == []


@gate("gate.13")
def test_the_sdk_is_named_in_the_sdk_room_only_lazily_or_not() -> None:
    strangers = [
        module_name(path)
        for path in modules(*ROOMS)
        if not module_name(path).startswith("mcpcatalog.sdk")
        for node in statements(tree(path))
        if (isinstance(node, ast.Import) and any(alias.name.split(".")[0] in SDK for alias in node.names))
        or (isinstance(node, ast.ImportFrom) and not node.level and (node.module or "").split(".")[0] in SDK)
    ]
    assert strangers == []


@gate("house.direction")
def test_toolsys_reaches_no_room_above_it_and_neighbours_never_meet() -> None:
    assert chains(ours("toolsys"), tuple(ours("approvals", "mcpcatalog", "config"))) == []
    assert chains(ours("approvals"), tuple(ours("mcpcatalog", "config"))) == []
    assert chains(ours("mcpcatalog"), tuple(ours("approvals", "config"))) == []


@gate("egress.destinations")
def test_one_client_leaves_the_house() -> None:
    strangers = [
        importer
        for importer in graph().find_modules_that_directly_import("httpx2")
        if importer.split(".")[0] in ROOMS and not importer.startswith(CLIENT)
    ]
    assert strangers == []


@gate("egress.destinations")
def test_nobody_dials_beside_the_client() -> None:
    """`config` starts processes and looks whether they answer; no other room opens a connection of its own."""
    beside = {
        (module_name(path), name)
        for path in modules("toolsys", "approvals", "mcpcatalog")
        for node in statements(tree(path))
        for name in imported_names(node)
        if name in DIALLERS and not module_name(path).startswith(DIALLERS[name])
    }
    assert beside == set()
    assert graph().find_modules_that_directly_import("toolsys.dialling") == {"toolsys.egress", "toolsys.forwarding"}
    assert graph().find_modules_that_directly_import("toolsys.forwarding") == {"toolsys.egress"}


def imported_names(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom) and node.module is not None and not node.level:
        return [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
    return []


LOOK = """
import importlib, json, pkgutil, sys, time
begun, used = time.perf_counter(), time.process_time()
import django
django.setup()
import toolsys, mcpcatalog, approvals
def walk(room):
    return [found.name for found in pkgutil.walk_packages(room.__path__, room.__name__ + ".")
            if ".sdk" not in found.name and ".management.commands." not in found.name]
names = [*walk(toolsys), *walk(mcpcatalog), *walk(approvals), "config.wiring", "config.urls", "config.wsgi"]
for name in names:
    importlib.import_module(name)
from config import wiring
wiring.compose_web()
print(json.dumps({"modules": names, "sdk": sorted({"mcp", "mcp_types"} & {n.split(".")[0] for n in sys.modules}),
                  "seconds": time.perf_counter() - begun, "cpu_seconds": time.process_time() - used}))
"""


@gate("house.light_web", "gate.13")
def test_importing_and_composing_the_web_process_leaves_the_sdk_alone(
    record_property: Callable[[str, object], None],
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", LOOK],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
        env=dict(os.environ),
    )
    found = json.loads(done.stdout.splitlines()[-1])
    record_property("web_import_seconds", found["seconds"])
    assert found["sdk"] == []
    assert {"toolsys.pipeline", "toolsys.services", "mcpcatalog.models", "mcpcatalog.provider"} <= set(found["modules"])
    assert found["cpu_seconds"] < 10, "the SDK alone costs most of a second; this bound is for accidents"
