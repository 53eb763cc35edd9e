"""The real servers that are installed here: how each is started, what it declares, and calls with what they return.

Those of PyPI come with the tests' lock file, those of npm with `tests/npm/install.sh`.
"""

import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parents[2]
NPM: Final = ROOT / ".tools" / "npm" / "node_modules"
NODE: Final = next(iter(sorted(NPM.glob("node-*/bin/node"))), None)


@dataclass(frozen=True, slots=True)
class Real:
    """`folder` in argv and arguments stands for the server's own folder. `holds` must be in what the calls return;
    `refused` is a call that the server itself refuses.
    """

    argv: tuple[str, ...]
    revision: str
    tools: int
    calls: tuple[tuple[str, dict[str, Any]], ...]
    holds: str
    refused: tuple[str, dict[str, Any]]
    environment: dict[str, str] = field(default_factory=dict)
    rejected: tuple[str, ...] = ()


def script(package: str, *arguments: str) -> tuple[str, ...]:
    folder = NPM / "@modelcontextprotocol" / package / "dist" / "index.js"
    return (str(NODE), str(folder), *arguments)


def module(name: str, *arguments: str) -> tuple[str, ...]:
    return (sys.executable, "-m", name, *arguments)


OLD, NEW = "2025-11-25", "2026-07-28"
PYPI: Final = {
    "time": Real(
        module("mcp_server_time", "--local-timezone", "UTC"), NEW, 2,
        (("get_current_time", {"timezone": "Europe/Paris"}),), "Europe/Paris",
        ("get_current_time", {"timezone": "No/Where"}),
    ),
    "git": Real(
        module("mcp_server_git", "--repository", "folder"), NEW, 12,
        (("git_status", {"repo_path": "folder"}), ("git_log", {"repo_path": "folder", "max_count": 1})), "first words",
        ("git_status", {"repo_path": "/nowhere"}),
    ),
    "excel": Real(
        module("excel_mcp", "stdio", "--allow-dir", "folder"), NEW, 46,
        (("create_workbook", {"path": "folder/plan.xlsx", "sheets": ["Plan"], "overwrite": True}),
         ("list_workbooks", {})), "plan.xlsx", ("describe_workbook", {"path": "../../etc/passwd"}),
    ),
}  # fmt: skip
FROM_NPM: Final = {
    "everything": Real(
        script("server-everything", "stdio"), OLD, 12,
        (("echo", {"message": "größer"}), ("get-sum", {"a": 2, "b": 40})), "42", ("get-sum", {"a": "x"}),
        rejected=("simulate-research-query",),
    ),
    "filesystem": Real(
        script("server-filesystem", "folder"), OLD, 14,
        (("write_file", {"path": "folder/a.txt", "content": "kept"}), ("read_text_file", {"path": "folder/a.txt"})),
        "kept", ("read_text_file", {"path": "/etc/passwd"}),
    ),
    "memory": Real(
        script("server-memory"), OLD, 9,
        (("create_entities", {"entities": [{"name": "Ada", "entityType": "person", "observations": ["counts"]}]}),
         ("search_nodes", {"query": "Ada"})), "counts", ("add_observations", {"observations": [
             {"entityName": "Nobody", "contents": ["x"]}]}),
        {"MEMORY_FILE_PATH": "folder/memory.jsonl"},
    ),
    "sequential-thinking": Real(
        script("server-sequential-thinking"), OLD, 1,
        (("sequentialthinking",
          {"thought": "one", "nextThoughtNeeded": False, "thoughtNumber": 1, "totalThoughts": 1}),),
        "thoughtHistoryLength", ("sequentialthinking", {"thought": 7}),
    ),
}  # fmt: skip


def placed(value: Any, folder: Path) -> Any:
    """Put the server's own folder where a table says so."""
    if isinstance(value, str):
        return str(folder / value.removeprefix("folder").lstrip("/")) if value.startswith("folder") else value
    if isinstance(value, dict):
        return {key: placed(inner, folder) for key, inner in value.items()}
    return [placed(inner, folder) for inner in value] if isinstance(value, list | tuple) else value
