"""The commands of the documentation, word for word, against a served console."""

import json
import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from config import demo_seed
from tests.factories import Tenancy
from tests.integration.processes import ROOT
from tests.spec.requirements import gate
from toolsys import provisioning

pytestmark = pytest.mark.slow

PAGE = ROOT / "toolsys" / "docs" / "mcp-face.md"


@gate("mcp.face.documented")
def test_what_the_page_says_to_type_is_answered(acme: Tenancy, console_url: str) -> None:
    key = provisioning.create_api_key(acme.id, "by hand", [])[1]
    stateless, handshake = commands(PAGE, "## By hand")
    called = typed(stateless, console_url, key)
    assert called["result"]["structuredContent"]["status"] == "in_progress", "nobody is at work here"
    listed = typed(handshake, console_url, key)
    assert "demo.echo" in [tool["name"] for tool in listed["result"]["tools"]]


def test_the_line_that_make_up_prints_is_a_governed_call(
    acme: Tenancy, console_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PORT", console_url.rpartition(":")[2])
    provisioning.save_agent(acme.id, demo_seed.AGENT, demo_seed.TOOLS)
    provisioning.save_principal(acme.id, demo_seed.PRINCIPAL, demo_seed.SCOPES, "Demo user")
    line = demo_seed.curl_line(provisioning.create_api_key(acme.id, "make-up", demo_seed.SCOPES)[1])
    called = typed(line, console_url, "")
    assert called["result"]["structuredContent"]["status"] == "in_progress", "nobody is at work here"


def commands(page: Path, heading: str) -> list[str]:
    """Return the indented blocks of a chapter."""
    chapter = page.read_text().split(heading, 1)[1].split("\n## ", 1)[0]
    blocks = re.findall(r"(?:^ {4}.*\n)+", chapter, re.MULTILINE)
    return [re.sub(r"^ {4}", "", block, flags=re.MULTILINE) for block in blocks]


def typed(block: str, url: str, key: str) -> Any:
    """Run a block in a shell, with the reader's own values, and return the last answer."""
    own = block.replace("URL=http://127.0.0.1:8000 KEY=tsk_...\n", "")
    shell = {"PATH": os.environ["PATH"], "URL": url, "KEY": key}
    done = subprocess.run(["bash", "-euc", own], env=shell, capture_output=True, text=True, timeout=120, check=True)
    return json.loads(done.stdout)
