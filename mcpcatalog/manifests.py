"""Reads other people's lists of servers: `mcp.json` in the shapes of many programs, and a registry's `server.json`.

Pure and bounded: bytes in, one `Entry` for each server out, with what of it we cannot take and why.
"""

import json
from collections.abc import Iterator
from typing import Any, Final

from mcpcatalog import entries, jsonc
from mcpcatalog.entries import HTTP_KINDS, Entry
from toolsys.domain.names import normalize_remote_name

MAXIMUM_BYTES: Final = 262_144
MAXIMUM_ENTRIES: Final = 100
MAXIMUM_DEPTH: Final = 16
# Under which key programs keep their servers: most of them, VS Code, Zed. opencode's `mcp` is the list itself.
SHAPES: Final = ("mcpServers", "servers", "context_servers")
_NOT_TAKEN: Final = ("alwaysAllow", "autoApprove", "trust", "disabledTools", "timeout", "oauth", "tools", "envFile")


class Unreadable(ValueError):
    """The file as a whole says nothing that we can read; `str()` says why, for people."""


class _TwiceError(ValueError):
    """An object names something twice."""


def read(data: bytes) -> list[Entry]:
    """Return the servers of a file, in its order. Raises: Unreadable."""
    found = [_entry(name, described) for name, described in _servers(_document(data))]
    if not found:
        raise Unreadable("It names no servers.")
    if len(found) > MAXIMUM_ENTRIES:
        raise Unreadable(f"It names more than {MAXIMUM_ENTRIES} servers.")
    seen: set[str] = set()
    for entry in found:
        if not entry.refusal and entry.server_id in seen:
            entry.refuse("entry.twice", "Another entry of this file has the same name here.")
        seen.add(entry.server_id)
    return found


def _document(data: bytes) -> Any:
    if len(data) > MAXIMUM_BYTES:
        raise Unreadable(f"The file has more than {MAXIMUM_BYTES // 1024} KiB.")
    try:
        document = json.loads(jsonc.plain(data.decode("utf-8-sig")), object_pairs_hook=_unrepeated)
        if _depth(document) <= MAXIMUM_DEPTH:
            return document
    except RecursionError:
        pass
    except json.JSONDecodeError as error:
        raise Unreadable(f"This is not JSON at line {error.lineno}, column {error.colno}.") from None
    except UnicodeDecodeError:
        raise Unreadable("This is not JSON: it is no text in UTF-8.") from None
    except _TwiceError:
        raise Unreadable("One name stands twice in the same object, and one of them would be lost.") from None
    except ValueError:
        raise Unreadable("This is not JSON: a number in it is too long.") from None
    raise Unreadable("It is nested too deeply.")


def _unrepeated(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise _TwiceError
    return found


def _depth(value: Any, depth: int = 0) -> int:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return depth if depth > MAXIMUM_DEPTH else max((_depth(each, depth + 1) for each in inner), default=depth)


def _servers(document: Any) -> Iterator[tuple[str, Any]]:
    """Find the servers, whichever program wrote the file. Raises: Unreadable."""
    if not isinstance(document, dict):
        raise Unreadable("It is no JSON object.")
    listed = _listed(document)
    if isinstance(listed, dict):
        yield from listed.items()
    elif isinstance(listed, list):  # a page of a registry, or of a program that names its servers inside
        yield from (("", each) for each in listed)
    elif isinstance(document.get("server"), dict) or ("name" in document and {"remotes", "packages"} & document.keys()):
        yield "", document
    else:
        raise Unreadable(f"Neither {', '.join(SHAPES)} nor mcp is in it, and it is no registry's server.json.")


def _listed(document: dict[str, Any]) -> Any:
    inner = document.get("mcp")
    if isinstance(inner, dict):
        found = _listed(inner)
        return inner if found is None or _is_server(found) else found
    return next((document[key] for key in SHAPES if isinstance(document.get(key), dict | list)), None)


def _is_server(value: Any) -> bool:
    """Tell a server whose name is `servers` from a list of servers."""
    return isinstance(value, dict) and isinstance(value.get("type"), str)


def _entry(name: str, described: Any) -> Entry:
    if isinstance(described, dict) and isinstance(described.get("server"), dict):
        described = described["server"]
    if not isinstance(described, dict):
        return Entry(name[:128]).refuse("entry.kind", "This is no JSON object.")
    is_registry = "remotes" in described or "packages" in described
    written = name or str(described.get("name") or "")
    entry = Entry(written[:128])
    entry.columns["server_id"] = normalize_remote_name(
        (written.rpartition("/")[2] if is_registry else written) or "server"
    )
    return _of_registry(entry, described) if is_registry else _of_client(entry, described)


def _of_client(entry: Entry, described: dict[str, Any]) -> Entry:
    entry.notes += [f"{key} is not taken over" for key in _NOT_TAKEN if described.get(key)]
    command = described.get("command")
    inner = command if isinstance(command, dict) else {}  # as Zed wrote it once
    environment = next(
        (
            each
            for each in (described.get("env"), described.get("environment"), inner.get("env"))
            if isinstance(each, dict)
        ),
        {},
    )
    if command:
        first = inner.get("path") if inner else command
        arguments = inner.get("args") if inner else described.get("args")
        argv = [*(first if isinstance(first, list) else [first]), *(arguments if isinstance(arguments, list) else [])]
        return entries.program(entry, [str(part) for part in argv if part is not None], environment)
    url = next((described[key] for key in ("httpUrl", "url", "serverUrl") if described.get(key)), None)
    kind = described.get("type") or described.get("transport") or ""
    return entries.remote(entry, url, kind, described.get("headers"), environment)


def _of_registry(entry: Entry, described: dict[str, Any]) -> Entry:
    remotes = described.get("remotes")
    usable = [each for each in remotes if isinstance(each, dict)] if isinstance(remotes, list) else []
    remote = next((each for each in usable if _kind(each) in HTTP_KINDS), usable[0] if usable else None)
    if remote is None:
        return entries.program(entry, (), {})
    if described.get("packages"):
        entry.notes.append("its packages are not taken over: they would run beside the workers")
    headers = {str(each["name"]): str(each.get("value") or "${value}") for each in _needed(entry, remote)}
    return entries.remote(entry, remote.get("url"), _kind(remote), headers)


def _needed(entry: Entry, remote: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the headers of a registry's remote; of several, those that it needs or keeps secret."""
    listed = remote.get("headers")
    named = [
        each for each in (listed if isinstance(listed, list) else []) if isinstance(each, dict) and each.get("name")
    ]
    needed = [each for each in named if each.get("isRequired") is True or each.get("isSecret") is True]
    if len(named) < 2 or not needed:
        return named
    entry.notes += [f"the header {str(each['name'])[:64]} is optional and not taken over" for each in named
                    if each not in needed]  # fmt: skip
    return needed


def _kind(remote: dict[str, Any]) -> str:
    return str(remote.get("type") or remote.get("transport_type") or "")
