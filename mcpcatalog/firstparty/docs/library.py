"""The folder of documents: read anew at every call, bounded, and never outside of itself.

Names are opened beneath the folder one at a time and no link is followed (`toolsys.folders`). Hidden names do not
exist.
"""

import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from mcpcatalog.firstparty.docs import markdown
from toolsys import folders
from toolsys.domain.context import WorkspaceRefused
from toolsys.domain.paths import parts_of

SUFFIXES: Final = (".md", ".markdown")
MAXIMUM_DOCUMENTS: Final = 2_000
MAXIMUM_NAMES: Final = 20_000
MAXIMUM_DEPTH: Final = 8
MAXIMUM_FILE_BYTES: Final = 512 * 1024
MAXIMUM_BYTES: Final = 32 * 1024 * 1024
PAGES_KEPT: Final = MAXIMUM_DOCUMENTS


class NoSuchDocument(Exception):
    """The path names nothing beneath the folder."""


@dataclass(frozen=True, slots=True)
class Document:
    path: str
    page: markdown.Page


@dataclass(slots=True)
class Shelf:
    """What one walk found. Not `is_whole`: there was more than is read."""

    documents: list[Document] = field(default_factory=list)
    names: set[str] = field(default_factory=set)
    size: int = 0
    is_whole: bool = True


class Library:
    def __init__(self, root: Path) -> None:
        self._root = root
        # By path, change time and size; what is no longer there is let go.
        self._pages: dict[tuple[str, int, int], markdown.Page] = {}

    def read(self, path: str = "") -> tuple[Shelf, list[Document]]:
        """Return everything, and the documents at or beneath the path. Raises: NoSuchDocument."""
        shelf = Shelf(names={""})
        with folders.opened(self._root, ()) as folder:
            self._walk(folder, (), shelf)
        shelf.documents.sort(key=lambda document: document.path)
        try:
            wanted = "/".join(parts_of(path))
        except WorkspaceRefused:
            raise NoSuchDocument from None
        if wanted not in shelf.names:
            raise NoSuchDocument
        chosen = [each for each in shelf.documents if not wanted or f"{each.path}/".startswith(f"{wanted}/")]
        return shelf, chosen

    def _walk(self, folder: int, names: tuple[str, ...], shelf: Shelf) -> None:
        try:
            entries = folders.entries(folder)
        except WorkspaceRefused:
            shelf.is_whole = False
            return
        for name, found in entries:
            if name.startswith("."):
                continue
            if len(shelf.names) >= MAXIMUM_NAMES or len(names) >= MAXIMUM_DEPTH:
                shelf.is_whole = False
                return
            # What changes while it is walked is not there.
            with suppress(WorkspaceRefused, OSError):
                self._take(folder, (*names, name), found, shelf)

    def _take(self, folder: int, names: tuple[str, ...], found: os.stat_result, shelf: Shelf) -> None:
        path = "/".join(names)
        if stat.S_ISDIR(found.st_mode):
            with folders.child(folder, names[-1]) as below:
                shelf.names.add(path)
                self._walk(below, names, shelf)
        elif folders.is_plain_file(found):
            shelf.names.add(path)
            if path.lower().endswith(SUFFIXES):
                self._add(folder, path, names[-1], found, shelf)

    def _add(self, folder: int, path: str, name: str, found: os.stat_result, shelf: Shelf) -> None:
        shelf.size += found.st_size
        is_too_much = len(shelf.documents) >= MAXIMUM_DOCUMENTS or shelf.size > MAXIMUM_BYTES
        if is_too_much or found.st_size > MAXIMUM_FILE_BYTES:
            shelf.is_whole = False
            return
        shelf.documents.append(Document(path, self._page(folder, path, name, found)))

    def _page(self, folder: int, path: str, name: str, found: os.stat_result) -> markdown.Page:
        key = (path, found.st_mtime_ns, found.st_size)
        known = self._pages.get(key)
        if known is None:
            if len(self._pages) >= PAGES_KEPT:
                self._pages.clear()
            known = self._pages[key] = markdown.read(_text(folder, name))
        return known


def _text(folder: int, name: str) -> str:
    """Raises: WorkspaceRefused."""
    descriptor = folders.open_file(folder, name)
    with os.fdopen(descriptor, "rb") as file:
        return file.read(MAXIMUM_FILE_BYTES).decode("utf-8", "replace").replace("\0", "\ufffd")


def sections(documents: list[Document]) -> Iterator[tuple[str, markdown.Section]]:
    for document in documents:
        for section in document.page.sections:
            yield document.path, section
