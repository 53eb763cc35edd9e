"""Reads other people's lists of servers: an `mcp.json` (`mcpServers` or `servers`) and a registry's `server.json`.

Pure and bounded: bytes in, one `Entry` for each server out, with what of it we cannot take and why. A secret that is
found leaves the entry's columns at once; a placeholder is not one. Whether an entry may be written the rules say.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from mcpcatalog import jsonc
from toolsys.domain.names import normalize_remote_name

MAXIMUM_BYTES: Final = 262_144
MAXIMUM_ENTRIES: Final = 100
MAXIMUM_DEPTH: Final = 16
_PLACEHOLDER: Final = re.compile(
    r"\$\{|\{[A-Za-z_][\w.:-]*\}|<[^<>]*>|\.\.\.|(?i:your[ _-]|xxx|changeme|replace|[_-]here\b)"
    r"|\A\$\w+\Z|\A%\w+%\Z|\A\W*\Z"
)
# What every client sends by itself; it says nothing of a login.
_COMMON_HEADERS: Final = frozenset({"accept", "content-type", "user-agent"})
_NOT_TAKEN: Final = ("alwaysAllow", "autoApprove", "trust", "disabled", "disabledTools", "timeout", "oauth", "tools")
_HTTP_KINDS: Final = frozenset({"", "http", "streamable-http", "streamableHttp", "streamable_http"})


class Unreadable(ValueError):
    """The file as a whole says nothing that we can read; `str()` says why, for people."""


@dataclass(slots=True)
class Entry:
    """One server of a file. `refusal` is why it is not taken; `secret` is in no column and shown to nobody."""

    name: str
    columns: dict[str, Any] = field(default_factory=dict, repr=False)
    secret: str = field(default="", repr=False)
    notes: list[str] = field(default_factory=list)
    refusal: str = ""
    message: str = ""
    argv: tuple[str, ...] = ()

    @property
    def server_id(self) -> str:
        return str(self.columns.get("server_id", ""))

    def refuse(self, code: str, message: str) -> "Entry":
        self.refusal, self.message = code, message
        return self


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
    except ValueError:
        raise Unreadable("This is not JSON, or it names something twice.") from None
    raise Unreadable("It is nested too deeply.")


def _unrepeated(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key twice")
    return found


def _depth(value: Any, depth: int = 0) -> int:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return depth if depth > MAXIMUM_DEPTH else max((_depth(each, depth + 1) for each in inner), default=depth)


def _servers(document: Any) -> Iterator[tuple[str, Any]]:
    """Find the servers, whichever program wrote the file. Raises: Unreadable."""
    if not isinstance(document, dict):
        raise Unreadable("It is no JSON object.")
    inner = document.get("mcp")
    if isinstance(inner, dict):
        document = inner
    for key in ("mcpServers", "servers"):
        listed = document.get(key)
        if isinstance(listed, dict):
            yield from listed.items()
            return
        if isinstance(listed, list):  # a page of a registry
            yield from (("", each) for each in listed)
            return
    if isinstance(document.get("server"), dict) or ("name" in document and {"remotes", "packages"} & document.keys()):
        yield "", document
        return
    raise Unreadable("Neither mcpServers nor servers is in it, and it is no registry's server.json.")


def _entry(name: str, described: Any) -> Entry:
    if isinstance(described, dict) and isinstance(described.get("server"), dict):
        described = described["server"]
    if not isinstance(described, dict):
        return Entry(name[:128]).refuse("entry.kind", "This is no JSON object.")
    is_registry = "remotes" in described or "packages" in described
    written = str(described.get("name") or "") if is_registry else name
    entry = Entry(written[:128])
    entry.columns["server_id"] = normalize_remote_name(written.rpartition("/")[2] or "server")
    return _of_registry(entry, described) if is_registry else _of_client(entry, described)


def _of_client(entry: Entry, described: dict[str, Any]) -> Entry:
    entry.notes += [f"{key} is not taken over" for key in _NOT_TAKEN if described.get(key)]
    if described.get("command"):
        return _stdio(entry, described)
    url = next((described[key] for key in ("url", "serverUrl", "httpUrl") if described.get(key)), None)
    kind = described.get("type") or described.get("transport") or ""
    return _remote(entry, url, kind, described.get("headers"))


def _of_registry(entry: Entry, described: dict[str, Any]) -> Entry:
    remotes = described.get("remotes")
    usable = [each for each in remotes if isinstance(each, dict)] if isinstance(remotes, list) else []
    remote = next((each for each in usable if _kind(each) in _HTTP_KINDS), usable[0] if usable else None)
    if remote is None:
        return _stdio(entry, {})
    if described.get("packages"):
        entry.notes.append("its packages are not taken over: they would run beside the workers")
    headers = {str(each["name"]): str(each.get("value") or "${value}") for each in _needed(entry, remote)}
    return _remote(entry, remote.get("url"), _kind(remote), headers)


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


def _stdio(entry: Entry, described: dict[str, Any]) -> Entry:
    """Keep the command line for operators to compare; never its environment's values."""
    arguments = described.get("args")
    listed = arguments if isinstance(arguments, list) else []
    entry.argv = tuple(str(part) for part in (described.get("command"), *listed) if part is not None)[:64]
    environment = described.get("env")
    if isinstance(environment, dict) and environment:
        entry.notes.append(f"variables that it wants: {', '.join(str(name)[:64] for name in list(environment)[:20])}")
    entry.columns |= {"transport": "stdio", "endpoint": entry.server_id}
    return entry.refuse(
        "entry.stdio",
        "A stdio server is a program beside the workers: operators define it in TOOLSYS_STDIO_SERVERS.",
    )


def _remote(entry: Entry, url: Any, kind: Any, headers: Any) -> Entry:
    if str(kind) not in _HTTP_KINDS:
        return entry.refuse("entry.transport", "Only Streamable HTTP is spoken; this entry asks for another transport.")
    if not isinstance(url, str) or not url:
        return entry.refuse("entry.url", "There is no URL in it.")
    if re.search(r"\{[^}]*\}", url):
        return entry.refuse("entry.url", "The URL has a placeholder in it: fill it in, and import the file again.")
    entry.columns |= {"transport": "http", "endpoint": url, "auth_scheme": "none"}
    if headers is not None and not isinstance(headers, dict):
        return entry.refuse("entry.headers", "Its headers are no JSON object.")
    return _login(entry, {str(name): value for name, value in (headers or {}).items()})


def _login(entry: Entry, headers: dict[str, Any]) -> Entry:
    """Make a scheme of the one header that logs in; with more of them nobody can say which is which."""
    wanted = {name: value for name, value in headers.items() if name.lower() not in _COMMON_HEADERS}
    if not wanted:
        return entry
    if len(wanted) > 1 or not all(isinstance(value, str) for value in wanted.values()):
        return entry.refuse("entry.headers", "One header can be sent with every request, not several.")
    name, value = next(iter(wanted.items()))
    entry.columns["credential_ref"] = f"store:mcp-{entry.server_id}"[:69]
    if name.lower() == "authorization":
        scheme, _, secret = value.strip().partition(" ")
        if scheme.lower() != "bearer" and not _PLACEHOLDER.search(scheme):
            return entry.refuse("entry.authorization", "Of the Authorization schemes only Bearer is spoken.")
        entry.columns["auth_scheme"] = "bearer"
        value = secret
    else:
        entry.columns |= {"auth_scheme": "header", "auth_name": name}
    if value and not _PLACEHOLDER.search(value):
        entry.secret = value.strip()
    else:
        entry.notes.append("its credential is a placeholder: set it before you check the server")
    return entry
