"""Every tool that twenty real servers declared: offered under the expected name, or refused for the expected reason.

`mcp_corpus.txt` holds one line a tool, by the rules of TS "Names" and DESIGN §1: the server and the last segment of the
name, or after `!` why it is refused. The recorded catalogs are not part of the project; `make catalogs` records those
of the servers that are installed here anew.
"""

import json
import os
from pathlib import Path
from typing import Any, Final

import pytest

from mcpcatalog import mapping
from mcpcatalog.remote import Catalog, ServerConfig, Transport
from mcpcatalog.sdk import listing
from tests.spec.requirements import gate
from toolsys.domain.names import is_valid_name

HERE: Final = Path(__file__).resolve()
CORPUS: Final = Path(
    os.environ.get("TOOLSYS_CATALOGS", HERE.parents[3] / "shared" / "corpus" / "catalogs")
)  # fmt: skip
FILES: Final = sorted(CORPUS.glob("*.json"))
needs_corpus = pytest.mark.skipif(not FILES, reason=f"the recorded catalogs are not at {CORPUS}")
TABLE: Final = [line.split(" ", 1) for line in HERE.with_name("mcp_corpus.txt").read_text().splitlines()]


def outcomes(server: str, declarations: list[Any]) -> list[str]:
    """Return a line of the table for each declaration, sorted."""
    tools, rejected = listing.sorted_out(declarations, checks_headers=False)
    config = ServerConfig("acme", server.replace("-", "_"), Transport.HTTP, "https://mcp.example/mcp")
    generation = mapping.map_catalog(config, Catalog(tools, rejected, "2026-07-28"), output_ceiling_bytes=1_048_576)
    prefix = f"mcp.{config.server_id}."
    offered = [spec.name.removeprefix(prefix) for _, spec in generation.tools if is_valid_name(spec.name)]
    refused = [f"{bad.remote_name} ! {bad.reason} {bad.detail}" for bad in generation.rejected]
    conflicts = [f"{name} ! conflict" for names in generation.conflicts for name in names]
    return sorted([*offered, *refused, *conflicts])


@needs_corpus
@gate("mcp.corpus")
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_each_tool_of_a_real_server_has_its_line(path: Path) -> None:
    recorded = json.loads(path.read_text())
    assert outcomes(path.stem, recorded["tools"]) == sorted(line for server, line in TABLE if server == path.stem)


@gate("mcp.corpus")
def test_the_table_is_whole() -> None:
    assert len(TABLE) == 362
    assert len({server for server, _ in TABLE}) == 20
    assert len({(server, line) for server, line in TABLE}) == 362
    assert [line for _, line in TABLE if " ! " in line] == [
        "explain ! schema.input nested deeper than 16", "export ! schema.input nested deeper than 16",
        "simulate-research-query ! declaration callable only as a task, which is not spoken here",
    ]  # fmt: skip
