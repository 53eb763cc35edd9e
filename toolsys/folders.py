"""Opens what lies beneath a folder, one name at a time, and never follows a link.

Each name is opened relative to its parent's descriptor with O_NOFOLLOW, so that whatever others do to the tree in the
meantime, what is opened was beneath the folder when it was opened. Only directories and plain files with a single
link, on the same device, are opened: no FIFO, device, socket or hard link. Uses the operating system only.
"""

import errno
import os
import secrets
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from toolsys.domain import paths
from toolsys.domain.context import WorkspaceRefused

_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
_NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
MAXIMUM_SIBLINGS: Final = 4_096


@contextmanager
def opened(root: Path, names: Sequence[str], *, create: bool = False) -> Iterator[int]:
    """Yield a descriptor of the directory `names` beneath `root`, which is trusted and must exist.

    Raises: WorkspaceRefused (not_found, kind, name_taken, full).
    """
    current = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for name in names:
            if create:
                _make(current, name)
            below = _below(current, name)
            os.close(current)
            current = below
        yield current
    finally:
        os.close(current)


def open_file(folder: int, name: str) -> int:
    """Return a descriptor of a plain file. Raises: WorkspaceRefused (not_found, kind)."""
    # Looked at first: merely opening a device can have an effect.
    require_plain(folder, name)
    try:
        descriptor = os.open(name, _FILE, dir_fd=folder)
    except OSError as fault:
        raise refusal(fault) from None
    found = os.fstat(descriptor)
    if not is_plain_file(found) or found.st_dev != os.fstat(folder).st_dev:
        os.close(descriptor)
        raise WorkspaceRefused("kind")
    return descriptor


def require_plain(folder: int, name: str) -> os.stat_result:
    """Return what is known of a plain file. Raises: WorkspaceRefused (not_found, kind)."""
    try:
        found = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except OSError as fault:
        raise refusal(fault) from None
    if not is_plain_file(found):
        raise WorkspaceRefused("kind")
    return found


def replace_file(folder: int, name: str, data: bytes) -> bool:
    """Put a complete, durable file in the place of whatever file had the name; return whether the name is new.

    Nothing is ever written through the name: the file in the making has another one, and takes this one at the end.
    Raises: WorkspaceRefused (kind, name_taken, full).
    """
    _require_distinct(folder, name)
    is_new = not _is_taken(folder, name)
    temporary = f"{paths.RESERVED_PREFIX}{secrets.token_hex(12)}"
    try:
        descriptor = os.open(temporary, _NEW, 0o600, dir_fd=folder)
        try:
            _write_all(descriptor, data)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        os.rename(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
        os.fsync(folder)
    except OSError as fault:
        with suppress(OSError):
            os.unlink(temporary, dir_fd=folder)
        raise refusal(fault) from None
    return is_new


def entries(folder: int) -> list[tuple[str, os.stat_result]]:
    """Return the names of a directory in order with what each is, links not followed. Raises: WorkspaceRefused."""
    found = []
    for name in _names(folder):
        with suppress(FileNotFoundError):
            found.append((name, os.stat(name, dir_fd=folder, follow_symlinks=False)))
    return found


@contextmanager
def child(folder: int, name: str) -> Iterator[int]:
    """Yield a descriptor of a directory in this one. Raises: WorkspaceRefused (not_found, kind)."""
    below = _below(folder, name)
    try:
        yield below
    finally:
        os.close(below)


def refusal(fault: OSError) -> WorkspaceRefused:
    """Say it in our words; the operating system's text names real paths."""
    if isinstance(fault, FileNotFoundError):
        return WorkspaceRefused("not_found")
    return WorkspaceRefused("full" if fault.errno in _FULL else "kind")


def _make(folder: int, name: str) -> None:
    try:
        os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        _require_distinct(folder, name)
        with suppress(FileExistsError):
            os.mkdir(name, 0o700, dir_fd=folder)
            os.fsync(folder)


def _below(folder: int, name: str) -> int:
    try:
        descriptor = os.open(name, _FOLDER, dir_fd=folder)
    except OSError as fault:
        raise refusal(fault) from None
    if os.fstat(descriptor).st_dev != os.fstat(folder).st_dev:
        os.close(descriptor)
        raise WorkspaceRefused("kind")
    return descriptor


def _require_distinct(folder: int, name: str) -> None:
    """Two names that differ by case or composition only would be one file elsewhere. Raises: WorkspaceRefused."""
    if any(other != name and paths.folded(other) == paths.folded(name) for other in _names(folder)):
        raise WorkspaceRefused("name_taken")


def _is_taken(folder: int, name: str) -> bool:
    """Say whether a plain file has the name. Raises: WorkspaceRefused (kind) where something else has it."""
    try:
        require_plain(folder, name)
    except WorkspaceRefused as refused:
        if refused.reason != "not_found":
            raise
        return False
    return True


def _names(folder: int) -> list[str]:
    names = sorted(os.listdir(folder))
    if len(names) > MAXIMUM_SIBLINGS:
        raise WorkspaceRefused("full")
    return names


def is_plain_file(found: os.stat_result) -> bool:
    """A file with one name. With none it was replaced a moment ago; with two it may be somebody else's."""
    return stat.S_ISREG(found.st_mode) and found.st_nlink <= 1


def _write_all(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]
