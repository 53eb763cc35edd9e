"""Every link of every Markdown file: the file that it names is there, and so is the heading after a #."""

import re
import subprocess
from pathlib import Path
from typing import Final

import pytest

from tests.spec.requirements import gate

ROOT: Final = Path(__file__).resolve().parents[2]
FENCED: Final = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
LINK: Final = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
HEADING: Final = re.compile(r"^#+ (.+)$", re.MULTILINE)
# Files that a sentence names, such as `toolsys/pipeline.py`; keys of `_meta` (`toolsys/agent`) look otherwise.
NAMED: Final = re.compile(r"`((?:config|toolsys|approvals|mcpcatalog|templates|tests|deploy|\.ci)/[\w-]*[./][\w./-]*)`")


def files() -> list[str]:
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.md"],
        cwd=ROOT, check=True, capture_output=True, text=True,
    )  # fmt: skip
    return sorted(listed.stdout.splitlines())


def anchors(text: str) -> set[str]:
    """As the code hosts make them from headings."""
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in HEADING.findall(text)}


def broken(path: Path, text: str) -> list[str]:
    found = []
    for link in LINK.findall(FENCED.sub("", text)):
        if re.match(r"[a-z]+:", link):
            continue
        name, _, anchor = link.partition("#")
        target = path.parent / name if name else path
        if not target.exists() or (anchor and anchor not in anchors(target.read_text())):
            found.append(link)
    return found + [name for name in NAMED.findall(FENCED.sub("", text)) if not (ROOT / name).exists()]


@gate("docs.links")
@pytest.mark.parametrize("name", files())
def test_every_link_leads_somewhere(name: str) -> None:
    assert broken(ROOT / name, (ROOT / name).read_text()) == []


@gate("docs.links")
def test_a_broken_link_is_found() -> None:
    text = "[a](no.md) [b](README.md#none) [c](README.md#toolsys) [d](https://x.example/) `tests/none.py` `manage.py`"
    assert broken(ROOT / "README.md", text) == ["no.md", "README.md#none", "tests/none.py"]
