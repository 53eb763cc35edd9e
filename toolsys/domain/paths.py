"""Paths inside a workspace: relative, of plain names, one spelling each.

This is the grammar only. That a path cannot leave its folder is not decided here by looking at text, but by
`toolsys.folders`, which never follows a link. Pure.
"""

import unicodedata
from typing import Final

from toolsys.domain.context import WorkspaceRefused

MAXIMUM_PATH_BYTES: Final = 1_024
MAXIMUM_NAME_BYTES: Final = 200
MAXIMUM_DEPTH: Final = 16
# Files in the making have this prefix; a tool can neither name nor see them.
RESERVED_PREFIX: Final = ".toolsys-"


def parts_of(path: str) -> tuple[str, ...]:
    """Return the names of a path; none for the workspace itself. Raises: WorkspaceRefused (path)."""
    try:
        plain = unicodedata.normalize("NFC", path)
        is_short = len(plain.encode("utf-8")) <= MAXIMUM_PATH_BYTES
    except UnicodeEncodeError:
        raise WorkspaceRefused("path") from None
    if plain in {"", "."}:
        return ()
    names = tuple(plain.split("/"))
    if not is_short or len(names) > MAXIMUM_DEPTH or not all(map(_is_plain, names)):
        raise WorkspaceRefused("path")
    return names


def folded(name: str) -> str:
    """Return what names are compared by where a file system ignores case."""
    return unicodedata.normalize("NFC", name).casefold()


def is_reserved(name: str) -> bool:
    return folded(name).startswith(RESERVED_PREFIX)


def _is_plain(name: str) -> bool:
    """No way up, nothing invisible, nothing that another system reads differently (`x.`, ` x`, `a\\b`, `c:d`)."""
    return (
        name not in {"", ".", ".."}
        and len(name.encode("utf-8")) <= MAXIMUM_NAME_BYTES
        and name.isprintable()
        and name == name.strip()
        and not name.endswith(".")
        and not any(character in '\\:*?"<>|' for character in name)
        and not is_reserved(name)
    )
