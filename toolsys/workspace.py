"""The private folder of a run: bounded files, reached by relative paths that cannot leave it.

One folder a run, below one a tenant, below the data folder. Files are replaced as a whole, so that a reader sees the
old one or the new one. Implements `domain.context.WorkspaceHandle` and `ports.WorkspaceFactory`; how a path is
walked is `toolsys.folders`. Many machines need one shared data folder (DESIGN §13).
"""

import os
import re
import stat
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from uuid import UUID

from toolsys import folders
from toolsys.domain import paths
from toolsys.domain.context import WorkspaceEntry, WorkspaceFile, WorkspaceRefused

_TENANT: Final = re.compile(r"^[a-z][a-z0-9_-]{1,62}\Z")
ABANDONED_SECONDS: Final = 3_600.0


@dataclass(frozen=True, slots=True)
class WorkspaceLimits:
    """Of one run: bytes of one file, bytes and number of all entries."""

    file_bytes: int = 4_194_304
    total_bytes: int = 67_108_864
    entries: int = 2_000


@dataclass(frozen=True, slots=True)
class Workspaces:
    """Makes handles; the folder itself is made by the first write."""

    root: Path
    limits: WorkspaceLimits = WorkspaceLimits()

    def __call__(self, tenant_id: str, run_id: UUID) -> "Workspace":
        if not _TENANT.match(tenant_id):
            raise ValueError("no tenant has such an id")
        return Workspace(self.root, (tenant_id, str(run_id)), self.limits)


@dataclass(frozen=True, slots=True)
class Workspace:
    """One run's folder. `home` are the names from the trusted root to it; they are walked like any others."""

    root: Path
    home: tuple[str, str]
    limits: WorkspaceLimits

    def read_bytes(self, path: str, *, offset: int, limit: int) -> WorkspaceFile:
        """Return at most `limit` bytes from `offset` on. Raises: WorkspaceRefused."""
        *above, name = self._file_names(path)
        with folders.opened(self._trusted_root(), (*self.home, *above)) as folder:
            descriptor = folders.open_file(folder, name)
            try:
                total = os.fstat(descriptor).st_size
                return WorkspaceFile(_read(descriptor, offset, limit), offset, total)
            finally:
                os.close(descriptor)

    def write_bytes(self, path: str, data: bytes) -> bool:
        """Replace or make the file; return whether it is new. Raises: WorkspaceRefused."""
        *above, name = self._file_names(path)
        if len(data) > self.limits.file_bytes:
            raise WorkspaceRefused("full")
        root = self._trusted_root()
        with folders.opened(root, self.home, create=True) as home:
            self._require_room(home, len(data))
        with folders.opened(root, (*self.home, *above), create=True) as folder:
            return folders.replace_file(folder, name, data)

    def list_entries(self, path: str, *, depth: int, limit: int) -> tuple[list[WorkspaceEntry], bool]:
        """Return entries in the order of their paths, at most `limit`, and whether there are more."""
        names = paths.parts_of(path)
        found: list[WorkspaceEntry] = []
        try:
            with folders.opened(self._trusted_root(), (*self.home, *names)) as folder:
                for entry in _walk(folder, "".join(f"{name}/" for name in names), depth):
                    if len(found) == limit:
                        return found, True
                    found.append(entry)
        except WorkspaceRefused as refused:
            if names or refused.reason != "not_found":
                raise
        return found, False

    def _trusted_root(self) -> Path:
        self.root.mkdir(mode=0o700, parents=True, exist_ok=True)
        return self.root

    def _file_names(self, path: str) -> tuple[str, ...]:
        names = paths.parts_of(path)
        if not names:
            raise WorkspaceRefused("path")
        return names

    def _require_room(self, home: int, data_bytes: int) -> None:
        """Count everything, files that crashed writers left included; those are cleared away when they are old."""
        total = 0
        for count, size in enumerate(_sizes(home), start=1):
            total += size
            if count >= self.limits.entries or total + data_bytes > self.limits.total_bytes:
                raise WorkspaceRefused("full")


def _read(descriptor: int, offset: int, limit: int) -> bytes:
    chunks, left = [], limit
    while left > 0:
        chunk = os.pread(descriptor, min(left, 1 << 20), offset)
        if not chunk:
            break
        chunks.append(chunk)
        offset += len(chunk)
        left -= len(chunk)
    return b"".join(chunks)


def _walk(folder: int, prefix: str, depth: int) -> Iterator[WorkspaceEntry]:
    for name, found in folders.entries(folder):
        if paths.is_reserved(name):
            continue
        is_folder = stat.S_ISDIR(found.st_mode)
        is_file = folders.is_plain_file(found)
        kind = "directory" if is_folder else "file" if is_file else "other"
        shown = name.encode("utf-8", "replace").decode("utf-8")
        yield WorkspaceEntry(f"{prefix}{shown}", kind, found.st_size if is_file else 0)
        if is_folder and depth > 1:
            with suppress(WorkspaceRefused), folders.child(folder, name) as below:
                yield from _walk(below, f"{prefix}{shown}/", depth - 1)


def _sizes(folder: int, depth: int = paths.MAXIMUM_DEPTH) -> Iterator[int]:
    for name, found in folders.entries(folder):
        if paths.is_reserved(name) and time.time() - found.st_mtime > ABANDONED_SECONDS:
            with suppress(OSError):
                os.unlink(name, dir_fd=folder)
            continue
        yield found.st_size if stat.S_ISREG(found.st_mode) else 0
        if stat.S_ISDIR(found.st_mode) and depth > 0:
            with suppress(WorkspaceRefused), folders.child(folder, name) as below:
                yield from _sizes(below, depth - 1)
