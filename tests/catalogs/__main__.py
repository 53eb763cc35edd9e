"""`make catalogs`: asks each installed server for its tools and writes `.data/catalogs/NAME.json`, one file a server.

What is written has the form of the shared corpus, so that `TOOLSYS_CATALOGS=.data/catalogs` puts the tests on it. It
prints, tool by tool, where that differs from the corpus that is there. Nothing outside `.data` is changed.
"""

import asyncio
import json
import sys
import tempfile
from pathlib import Path
from typing import Any, Final

import mcp_types

from mcpcatalog.remote import AuthScheme, ServerConfig, StdioCommand, Transport
from mcpcatalog.sdk import surfaces
from mcpcatalog.sdk.connection import Timeouts
from mcpcatalog.sdk.pool import ConnectionPool
from tests.catalogs.real import FROM_NPM, NODE, PYPI, Real, placed
from tests.hostile.play import nobody, policy_of
from tests.unit.test_mcp_corpus import CORPUS

ROOT: Final = Path(__file__).resolve().parents[2]
INTO: Final = ROOT / ".data" / "catalogs"
NAMES: Final = {
    **{name: f"mcp-server-{name}" for name in PYPI}, **{name: f"server-{name}" for name in FROM_NPM},
    "excel": "excel-mcp-server",
}  # fmt: skip


async def declared(real: Real, folder: Path) -> list[Any]:
    """Return the declarations as received, the unusable ones included."""
    command = StdioCommand(tuple(placed(real.argv, folder)), placed(real.environment, folder))
    config = ServerConfig("acme", "peer", Transport.STDIO, "peer", AuthScheme.NONE, command=command)
    pool = ConnectionPool(policy_of, timeouts=Timeouts(connect=60, probe=20, request=30))
    found: list[Any] = []
    try:
        connection = await pool.acquire(config, "s", nobody)
        page_at = surfaces.pages(connection._listing, mcp_types.ListToolsRequest)
        cursor: str | None = None
        while not found or cursor:
            page = await page_at(cursor)
            found += page["tools"]
            cursor = page.get("nextCursor")
    finally:
        await pool.close_all()
    return found


def differences(name: str, tools: list[Any]) -> list[str]:
    """Say what changed since the corpus was recorded."""
    recorded = CORPUS / f"{name}.json"
    if not recorded.exists():
        return [f"{name}: not in the corpus"]
    before = {tool["name"]: tool for tool in json.loads(recorded.read_text())["tools"]}
    after = {tool["name"]: tool for tool in tools}
    changed = [key for key in before.keys() & after.keys() if before[key]["inputSchema"] != after[key]["inputSchema"]]
    return [
        *(f"{name}: {key} is gone" for key in sorted(before.keys() - after.keys())),
        *(f"{name}: {key} is new" for key in sorted(after.keys() - before.keys())),
        *(f"{name}: the schema of {key} changed" for key in sorted(changed)),
    ]


def main() -> int:
    INTO.mkdir(parents=True, exist_ok=True)
    chosen = {**PYPI, **(FROM_NPM if NODE is not None else {})}
    for key, real in chosen.items():
        with tempfile.TemporaryDirectory() as folder:
            if key == "git":
                asyncio.run(_git_init(folder))
            tools = asyncio.run(declared(real, Path(folder)))
        name = NAMES[key]
        (INTO / f"{name}.json").write_text(json.dumps({"server": name, "tools": tools}, indent=1, ensure_ascii=False))
        told = differences(name, tools)
        print(f"{name}: {len(tools)} tools" + "".join(f"\n  {line}" for line in told))
    return 0


async def _git_init(folder: str) -> None:
    process = await asyncio.create_subprocess_exec("git", "init", "-q", folder)
    await process.wait()


if __name__ == "__main__":
    sys.exit(main())
