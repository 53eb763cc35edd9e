"""One server of somebody else's file: its columns, and where its login hides (header, query, variable, argument).

Pure. A secret that is found leaves the columns at once and is repeated nowhere; a placeholder is not one. What shape
the file has is `mcpcatalog.manifests`' to know; whether an entry may be written the rules say.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Final
from urllib.parse import unquote_plus

from mcpcatalog.validators import says_secret
from toolsys.domain import redaction

PLACEHOLDER: Final = re.compile(
    r"\$\{|\{[A-Za-z_][\w.:-]*\}|\{(?:env|file):[^{}]*\}|<[^<>]*>|\.\.\.|(?i:your[ _-]|xxx|changeme|replace|[_-]here\b)"
    r"|\A\$\w+\Z|\A%\w+%\Z|\A\W*\Z"
)
HTTP_KINDS: Final = frozenset({"", "http", "streamable-http", "streamableHttp", "streamable_http", "remote"})
# What every client sends by itself; it says nothing of a login.
_COMMON_HEADERS: Final = frozenset({"accept", "content-type", "user-agent"})
_VARIABLE: Final = re.compile(r"\$\{(?:env:)?([A-Za-z_]\w*)\}")
# A program that only passes on to a URL: the URL can be reached without it.
_BRIDGE: Final = re.compile(r"(?:.*/)?mcp-remote(?:@[\w.^~-]+)?\Z")
_NAMED: Final = 8


@dataclass(slots=True)
class Entry:
    """One server of a file. `refusal` is why it is not taken; `secret` is in no column and shown to nobody."""

    name: str
    columns: dict[str, Any] = field(default_factory=dict, repr=False)
    secret: str = field(default="", repr=False)
    notes: list[str] = field(default_factory=list)
    refusal: str = ""
    message: str = ""
    argv: tuple[str, ...] = field(default=(), repr=False)

    @property
    def server_id(self) -> str:
        return str(self.columns.get("server_id", ""))

    def refuse(self, code: str, message: str) -> "Entry":
        self.refusal, self.message = code, message
        return self

    def log_in(self, scheme: str, value: str, auth_name: str | None = None) -> None:
        """Take one login over; where its value is only a placeholder, say so."""
        self.columns |= {"auth_scheme": scheme, "credential_ref": f"store:mcp-{self.server_id}"[:69]}
        if auth_name is not None:
            self.columns["auth_name"] = auth_name
        if value and not PLACEHOLDER.search(value):
            self.secret = value.strip()
        else:
            self.notes.append("its credential is a placeholder: set it before you check the server")


def remote(entry: Entry, url: Any, kind: Any, headers: Any, environment: Mapping[str, Any] | None = None) -> Entry:
    """Make a server at a URL of it. `environment` holds what headers and URL may refer to as `${NAME}`."""
    if str(kind) not in HTTP_KINDS:
        return entry.refuse("entry.transport", "Only Streamable HTTP is spoken; this entry asks for another transport.")
    if not isinstance(url, str) or not url:
        return entry.refuse("entry.url", "There is neither a URL nor a command in it.")
    url, keys = _without_secrets(_expanded(url, environment or {}))
    if re.search(r"\{[^}]*\}", url):
        return entry.refuse("entry.url", "The URL has a placeholder in it: fill it in, and import the file again.")
    entry.columns |= {"transport": "http", "endpoint": url, "auth_scheme": "none"}
    if headers is not None and not isinstance(headers, dict):
        return entry.refuse("entry.headers", "Its headers are no JSON object.")
    return _login(
        entry, keys, {str(name): _expanded(value, environment or {}) for name, value in (headers or {}).items()}
    )


def _login(entry: Entry, keys: Sequence[tuple[str, str]], headers: Mapping[str, Any]) -> Entry:
    """Make a scheme of the one key or header that logs in; with more of them nobody can say which is which."""
    wanted = {name: value for name, value in headers.items() if name.lower() not in _COMMON_HEADERS}
    if len(wanted) + len(keys) > 1:
        return entry.refuse("entry.headers", "One header can be sent with every request, not several.")
    for name, value in keys:
        entry.notes.append(
            f"{name[:64]} was taken out of the URL and is sent as Authorization: Bearer; where the server wants a "
            "header of its own, edit it"
        )
        entry.log_in("bearer", value)
    for name, value in wanted.items():
        return _header(entry, name, value)
    return entry


def _header(entry: Entry, name: str, value: Any) -> Entry:
    if not isinstance(value, str):
        return entry.refuse("entry.headers", "One header can be sent with every request, and its value is a text.")
    if name.lower() != "authorization":
        entry.log_in("header", value, name)
        return entry
    scheme, _, secret = value.strip().partition(" ")
    if scheme.lower() != "bearer" and not PLACEHOLDER.search(scheme):
        return entry.refuse("entry.authorization", "Of the Authorization schemes only Bearer is spoken.")
    entry.log_in("bearer", secret)
    return entry


def program(entry: Entry, argv: Sequence[str], environment: Mapping[str, Any]) -> Entry:
    """Keep the command line for operators to compare, and the one variable that is a secret; no other's value."""
    bridge = next((index for index, part in enumerate(argv) if _BRIDGE.match(part)), None)
    if bridge is not None:
        return _bridged(entry, argv[bridge + 1 :], environment)
    entry.argv = tuple(argv)[:64]
    entry.columns |= {"transport": "stdio", "endpoint": entry.server_id, "auth_scheme": "none"}
    if any(_is_secret(argv)):
        entry.notes.append(
            "a secret stands among its arguments, which every process of the machine can read: it is not kept; "
            "the program has to take it from a variable"
        )
    secret = [name for name in environment if says_secret(name)]
    if len(secret) == 1 and isinstance(environment[secret[0]], str):
        entry.log_in("env", environment[secret[0]], secret[0])
    elif secret:
        entry.notes.append(f"one variable can be a secret, and it wants several: {_listed(secret)}")
    if others := [name for name in environment if name not in secret]:
        entry.notes.append(f"variables that it wants: {_listed(others)}")
    return entry.refuse(
        "entry.stdio",
        "A stdio server is a program beside the workers: operators define it in TOOLSYS_STDIO_SERVERS.",
    )


def _bridged(entry: Entry, arguments: Sequence[str], environment: Mapping[str, Any]) -> Entry:
    """Take the server that a bridge passes on to, with the headers that it was given."""
    url = next((part for part in arguments if part.startswith(("http://", "https://"))), None)
    given = dict(pairwise(arguments))
    kind = "sse" if given.get("--transport") == "sse-only" else ""
    pairs = [part.partition(":") for flag, part in pairwise(arguments) if flag == "--header"]
    entry.notes.append("the bridge in it is not needed: the server is reached itself")
    return remote(entry, url, kind, {name.strip(): value.strip() for name, _, value in pairs}, environment)


def _without_secrets(url: str) -> tuple[str, list[tuple[str, str]]]:
    """Return the URL without the parts of its query that are meant to be secret, and those parts. The rest stays as
    it was written; a fragment, which is never sent, goes."""
    before, mark, query = url.partition("#")[0].partition("?")
    kept, taken = [], []
    for part in query.split("&"):
        name, _, value = part.partition("=")
        if says_secret(unquote_plus(name)):
            taken.append((unquote_plus(name), unquote_plus(value)))
        else:
            kept.append(part)
    rest = "&".join(kept)
    return (f"{before}{mark}{rest}" if rest else before), taken


def _expanded(text: Any, environment: Mapping[str, Any]) -> Any:
    """Put in what the entry itself says of a variable; what it does not say stays a placeholder."""

    def value(match: re.Match[str]) -> str:
        found = environment.get(match.group(1))
        return found if isinstance(found, str) else match.group()

    return _VARIABLE.sub(value, text) if isinstance(text, str) and environment else text


def _is_secret(argv: Sequence[str]) -> Iterator[bool]:
    """Say of each argument whether it is a secret, or the flag before it says so."""
    for before, part in zip(("", *argv), argv, strict=False):
        flag, mark, value = part.partition("=")
        has_value = bool(mark and value and not PLACEHOLDER.search(value))
        yield has_value and says_secret(flag.split(" ")[-1])
        yield before.startswith("-") and "=" not in before and says_secret(before) and not PLACEHOLDER.search(part)
        yield redaction.holds_secret(part)


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(str(name)[:64] for name in names[:_NAMED]) + more
