"""Media types of artifacts: what is recorded, what is served, and under which file name.

A claimed type is kept only in the grammar of a header; what is served is from a closed list, so that nothing a tool
made is ever rendered as a page or a script. Pure. Source: RFC 9110 section 8.3, issue 3 "safe headers".
"""

import re
from typing import Final
from uuid import UUID

OPAQUE: Final = "application/octet-stream"
TEXT: Final = "text/plain; charset=utf-8"
JSON: Final = "application/json"

_WORD: Final = r"[a-z0-9][a-z0-9!#$&^_.+-]{0,62}"
_TYPE: Final = re.compile(rf"({_WORD}/{_WORD})(?:\s*;\s*charset=\"?({_WORD})\"?)?\Z", re.IGNORECASE)
# None of these can hold a script that a browser would run; HTML, SVG, XML and JavaScript are left out on purpose.
_SERVED: Final = {
    "text/plain": "txt",
    "text/csv": "csv",
    "text/markdown": "md",
    "application/json": "json",
    "application/pdf": "pdf",
    "application/zip": "zip",
    "image/png": "png",
    "image/jpeg": "jpg",
    "image/gif": "gif",
    "image/webp": "webp",
    "audio/mpeg": "mp3",
    "audio/wav": "wav",
    "audio/ogg": "ogg",
    "video/mp4": "mp4",
    "video/webm": "webm",
}
_BY_EXTENSION: Final = {extension: kind for kind, extension in _SERVED.items()} | {"jpeg": "image/jpeg", "log": TEXT}


def recorded(claimed: str) -> str:
    """Return the claimed type in lower case if it is one, with its charset, else the opaque type."""
    found = _TYPE.match(claimed.strip())
    if found is None:
        return OPAQUE
    kind, charset = found.groups()
    return kind.lower() if charset is None else f"{kind.lower()}; charset={charset.lower()}"


def served(media_type: str) -> str:
    """Return the type to answer with: the recorded one if it is harmless, else the opaque one."""
    kind = _kind(media_type)
    if kind not in _SERVED:
        return OPAQUE
    return f"{kind}; charset=utf-8" if kind.startswith("text/") else kind


def of_path(path: str) -> str:
    """Guess by the file's extension, from the closed list."""
    kind = _BY_EXTENSION.get(path.rpartition("/")[2].rpartition(".")[2].lower(), OPAQUE)
    return f"{kind}; charset=utf-8" if kind.startswith("text/") and ";" not in kind else kind


def file_name(artifact_id: UUID, media_type: str) -> str:
    """Return a name of letters, digits, dash and dot; nothing of it comes from outside."""
    return f"artifact-{artifact_id}.{_SERVED.get(_kind(media_type), 'bin')}"


def _kind(media_type: str) -> str:
    return media_type.partition(";")[0].strip().lower()
