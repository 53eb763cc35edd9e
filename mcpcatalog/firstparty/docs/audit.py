"""docs.audit_links: links that lead nowhere inside the folder. Links that leave it are counted and never dialled."""

import re
from collections.abc import Iterator
from typing import Any, Final
from urllib.parse import unquote

from mcpcatalog.firstparty.docs.contracts import AuditArguments
from mcpcatalog.firstparty.docs.library import Document, Library, Shelf
from mcpcatalog.firstparty.docs.markdown import Link

EXTERNAL: Final = frozenset({"http", "https", "mailto"})
MAXIMUM_TARGET: Final = 200
_SCHEME: Final = re.compile(r"^([A-Za-z][A-Za-z0-9+.\-]*):")


def audit(library: Library, arguments: AuditArguments) -> dict[str, Any]:
    """Raises: NoSuchDocument."""
    shelf, documents = library.read(arguments.path)
    anchors = {document.path: document.page.anchors for document in shelf.documents}
    links = [(document, link) for document in documents for link in document.page.links]
    found = [
        {
            "path": document.path, "line": link.line, "target": (link.target or link.label)[:MAXIMUM_TARGET],
            "problem": problem,
        }
        for document, link in links
        for problem in _problems(document, link, shelf, anchors)
    ]  # fmt: skip
    return {
        "problems": found[: arguments.limit], "total": len(found), "omitted": max(len(found) - arguments.limit, 0),
        "documents": len(documents), "links": len(links), "external": sum(_is_external(link) for _, link in links),
        "is_whole": shelf.is_whole,
    }  # fmt: skip


def _is_external(link: Link) -> bool:
    scheme = _SCHEME.match(link.target or "")
    return scheme is not None and scheme[1].lower() in EXTERNAL


def _problems(
    document: Document, link: Link, shelf: Shelf, anchors: dict[str, frozenset[str]]
) -> Iterator[str]:  # fmt: skip
    """Yield at most one."""
    if link.target is None:
        yield "undefined_reference"
    elif _is_external(link):
        return
    elif _SCHEME.match(link.target) or link.target.startswith("//"):
        yield "unsupported_scheme"
    elif not link.target:
        yield "empty"
    else:
        yield from _problems_inside(document, link.target, shelf, anchors)


def _problems_inside(
    document: Document, target: str, shelf: Shelf, anchors: dict[str, frozenset[str]]
) -> Iterator[str]:  # fmt: skip
    path, _, fragment = target.partition("#")
    path = unquote(path.partition("?")[0])
    wanted = document.path if not path else _resolved(document.path, path)
    if wanted is None:
        yield "outside_folder"
    elif wanted not in shelf.names:
        yield "missing_file"
    elif fragment and wanted in anchors and unquote(fragment) not in anchors[wanted]:
        yield "missing_anchor"


def _resolved(base: str, path: str) -> str | None:
    """Return the path from the folder, or None for one that climbs out of it."""
    names = [] if path.startswith("/") else base.split("/")[:-1]
    for name in path.split("/"):
        if name == "..":
            if not names:
                return None
            names.pop()
        elif name not in {"", "."}:
            names.append(name)
    return "/".join(names)
