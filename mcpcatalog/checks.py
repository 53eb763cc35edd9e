"""The ladder of a server: DNS, address, TCP, TLS, protocol, authentication, tools; and what to do where it breaks.

Pure: it reads what a watched connection saw. Nothing that a server said is repeated, but the names of its revision and
of its rejected tools. The first rung that failed carries the fix in plain words. Source: issue 4 "Import"; notes on the
console 25.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

from mcpcatalog.remote import (
    AuthExpired,
    AuthFailed,
    AuthScheme,
    AuthUnsupported,
    Catalog,
    CatalogMode,
    CredentialMissing,
    DestinationRefused,
    NoWayOut,
    PermissionDenied,
    RemoteError,
    RequestTimeout,
    ServerConfig,
    ServerUnreachable,
    Transport,
)
from toolsys.egress import Mark

type Status = Literal["passed", "failed", "not_tried", "running"]

HTTP: Final = ("dns", "address", "tcp", "tls", "protocol", "authentication", "tools")
STDIO: Final = ("process", "protocol", "authentication", "tools")
TITLES: Final = {
    "dns": "DNS", "address": "Address permitted", "tcp": "TCP", "tls": "TLS", "process": "Program",
    "protocol": "Protocol", "authentication": "Authentication", "tools": "Tools",
}  # fmt: skip
MODERN: Final = "2026-07-28"
_PARTS: Final = {"dns": "resolve", "tcp": "connect", "tls": "secure"}
_LOGIN: Final = (AuthFailed, AuthExpired, AuthUnsupported, CredentialMissing, PermissionDenied)
_BEFORE_DIALLING: Final = frozenset({AuthScheme.OAUTH2_CLIENT})


@dataclass(frozen=True, slots=True)
class Seen:
    """What one watched connection saw. `error` is what ended it, at connecting or, once connected, at listing; `at`
    is the part of a dial that goes on.
    """

    marks: tuple[Mark, ...]
    connected_in_seconds: float | None = None
    revision: str = ""
    listing_seconds: float | None = None
    catalog: Catalog | None = None
    error: RemoteError | None = None
    at: str = ""

    def failed(self, error: RemoteError, listing_seconds: float | None = None) -> "Seen":
        return replace(self, error=error, listing_seconds=listing_seconds)

    def listed(self, catalog: Catalog, seconds: float) -> "Seen":
        return replace(self, catalog=catalog, listing_seconds=seconds)

    def with_marks(self, marks: tuple[Mark, ...]) -> "Seen":
        return replace(self, marks=marks)


@dataclass(frozen=True, slots=True)
class Rung:
    """`name` is a key of TITLES. `fix` is what a person does about it, for the rung that failed."""

    name: str
    status: Status
    seconds: float | None = None
    fact: str = ""
    reason: str = ""
    fix: str = ""

    @property
    def title(self) -> str:
        return TITLES[self.name]

    def as_json(self) -> dict[str, Any]:
        return {
            "name": self.name, "status": self.status, "fact": self.fact, "reason": self.reason, "fix": self.fix,
            "milliseconds": None if self.seconds is None else round(self.seconds * 1_000),
        }  # fmt: skip


@dataclass(frozen=True, slots=True)
class Offered:
    """What the mapping made of a listing."""

    usable: int
    rejected: int
    is_fixed: bool = False


def ladder(config: ServerConfig, seen: Seen, offered: Offered | None) -> tuple[Rung, ...]:
    """Return the rungs in order: up to the first that failed, then those that were not tried."""
    names, broken = names_of(config), _broken(config, seen, offered)
    return tuple(
        _rung(name, config, seen, offered, broken, is_past=_is_past(name, broken, names)) for name in names
    )  # fmt: skip


def progress(config: ServerConfig, seen: Seen) -> tuple[Rung, ...]:
    """Return the ladder while the connection is watched: what is passed, what goes on, and what is to come.

    Nothing has failed before the end: another address may be dialled, another way to shake hands be tried.
    """
    names = names_of(config)
    passed = [name for name in names if _has_passed(name, seen)]
    running = next((name for name in names if name not in passed), None)
    return tuple(
        Rung(name, "passed", mark.seconds if mark else _seconds(name, seen), _fact(name, config, seen, None, mark))
        if name in passed
        else Rung(name, "running" if name == running else "not_tried", fact="at it" if name == running else "to come")
        for name, mark in ((name, _mark(name, seen.marks)) for name in names)
    )


def _has_passed(name: str, seen: Seen) -> bool:
    if seen.connected_in_seconds is not None:
        return name != "tools"
    has_dialled = seen.at in {"connect", "secure"} or any(mark.part == "connect" for mark in seen.marks)
    if name in _PARTS:
        is_done = any(mark.part == _PARTS[name] and mark.is_done for mark in seen.marks)
        return is_done or (name == "dns" and has_dialled)
    return name == "address" and has_dialled


def names_of(config: ServerConfig) -> tuple[str, ...]:
    """Return the rungs that this server has, in order."""
    if config.transport is Transport.STDIO:
        return STDIO
    return tuple(name for name in HTTP if name != "tls" or not config.endpoint.startswith("http://"))


def is_passed(rungs: Iterable[Rung]) -> bool:
    return all(rung.status == "passed" for rung in rungs)


def _is_past(name: str, broken: str | None, names: tuple[str, ...]) -> bool:
    return broken is not None and names.index(name) > names.index(broken)


def _rung(
    name: str, config: ServerConfig, seen: Seen, offered: Offered | None, broken: str | None, *, is_past: bool
) -> Rung:
    mark = _mark(name, seen.marks)
    if name == broken:
        reason = seen.error.reason_code if seen.error is not None else "tools.none_usable"
        seconds = mark.seconds if mark is not None else _seconds(name, seen)
        return Rung(
            name, "failed", seconds, _fact_of_failure(name, mark, seen.error), reason, fix_of(name, config, seen, mark)
        )
    if is_past or _was_skipped(name, config, seen, mark):
        fact = _SKIPPED.get(name, "") if not is_past else ""
        return Rung(name, "not_tried", fact=fact)
    return Rung(
        name, "passed", mark.seconds if mark else _seconds(name, seen), _fact(name, config, seen, offered, mark)
    )


_SKIPPED: Final = {
    "dns": "not looked up", "tcp": "not dialled", "tls": "not dialled", "address": "not dialled",
    "protocol": "not dialled",
}  # fmt: skip


def _was_skipped(name: str, config: ServerConfig, seen: Seen, mark: Mark | None) -> bool:
    """The login comes first where it is exchanged elsewhere, and policy before anything is looked up."""
    if config.transport is Transport.STDIO:
        return False
    if seen.connected_in_seconds is not None:
        return False
    if name in _PARTS:
        return mark is None and not _is_literal(name, seen)
    return name in {"address", "protocol"} and not any(mark.part == "connect" for mark in seen.marks)


def _is_literal(name: str, seen: Seen) -> bool:
    """An address needs no look-up."""
    return name == "dns" and any(mark.part == "connect" for mark in seen.marks)


def _broken(config: ServerConfig, seen: Seen, offered: Offered | None) -> str | None:
    error = seen.error
    if error is None:
        has_none = offered is not None and offered.usable == 0 and offered.rejected > 0
        return "tools" if has_none else None
    if isinstance(error, _LOGIN):
        return "authentication"
    if seen.connected_in_seconds is not None:
        return "tools"
    if config.transport is Transport.STDIO:
        return "process" if isinstance(error, ServerUnreachable) else "protocol"
    return _broken_dial(config, seen, error)


def _broken_dial(config: ServerConfig, seen: Seen, error: RemoteError) -> str:
    has_dialled = any(mark.part == "connect" for mark in seen.marks)
    if isinstance(error, DestinationRefused) and not has_dialled:
        return "authentication" if "token endpoint" in error.detail else "address"
    for name, part in _PARTS.items():
        marks = [mark for mark in seen.marks if mark.part == part]
        if marks and not any(mark.is_done for mark in marks):
            return name
    if not has_dialled and config.auth_scheme in _BEFORE_DIALLING:
        return "authentication"
    return "protocol"


def _mark(name: str, marks: Iterable[Mark]) -> Mark | None:
    """Return the part that this rung is about: the one that ended well, else the last that did not."""
    found = [mark for mark in marks if mark.part == _PARTS.get(name)]
    return next((mark for mark in found if mark.is_done), found[-1] if found else None)


def _seconds(name: str, seen: Seen) -> float | None:
    if name == "tools":
        return seen.listing_seconds
    if name in {"protocol", "process"} and seen.connected_in_seconds is not None:
        dialling = sum(mark.seconds for mark in seen.marks if mark.is_done)
        return max(seen.connected_in_seconds - dialling, 0.0)
    return None


def _fact_of_failure(name: str, mark: Mark | None, error: RemoteError | None) -> str:
    """Say where it broke, and how the operators' proxy refused: those words are ours."""
    known = mark.fact if mark is not None and name in {"tcp", "tls"} else ""
    return ": ".join(filter(None, (known, error.detail if isinstance(error, NoWayOut) else "")))


def _fact(name: str, config: ServerConfig, seen: Seen, offered: Offered | None, mark: Mark | None) -> str:
    if mark is not None:
        return mark.fact
    if name == "protocol":
        era = "stateless" if seen.revision >= MODERN else "handshake"
        return f"revision {seen.revision}, {era} era" if seen.revision else "answered"
    if name == "authentication":
        return "none asked for" if config.auth_scheme is AuthScheme.NONE else f"{config.auth_scheme} let us in"
    if name == "tools" and offered is not None:
        if offered.is_fixed:
            missing = f", {offered.rejected} not listed" if offered.rejected else ""
            return f"{offered.usable} of those declared here are listed" + missing
        return f"{offered.usable} offered" + (f", {offered.rejected} rejected" if offered.rejected else "")
    return {"dns": "an address, nothing to look up", "address": "on the allowlist, and public or opened"}.get(name, "")


def fix_of(name: str, config: ServerConfig, seen: Seen, mark: Mark | None) -> str:
    """Return what to do about the rung that failed."""
    error = seen.error
    if isinstance(error, NoWayOut) or (name == "tcp" and mark is not None and mark.is_tunnelled):
        return NO_WAY
    for kind, text in _FIXES.get(name, {}).items():
        if isinstance(error, kind):
            return text
    if name == "tls" and mark is not None:
        return next((text for word, text in _TLS.items() if word in mark.fact), _OTHERWISE["tls"])
    if name == "tools" and config.mode is CatalogMode.FIXED and error is None:
        return NOT_LISTED
    if name == "process" and config.command is None:
        return "The deployment has no such program: add it to TOOLSYS_STDIO_SERVERS and start the workers again."
    return _OTHERWISE[name]


_FIXES: Final[Mapping[str, Mapping[type[RemoteError], str]]] = {
    "authentication": {
        CredentialMissing: "The server's credential is missing or cannot be sent: set it anew, then check again.",
        AuthUnsupported: "The server asks for a login. If it gives tokens, choose the scheme that it takes and set the "
        "credential; a login that only a person can give in a browser is not supported.",
        PermissionDenied: "The credential is known but may not do this: give it the rights that the server asks for.",
        AuthFailed: "The server or its token endpoint refuses the credential: check the scheme, the header's name "
        "and the value, and set it anew.",
        AuthExpired: "The server let us in and then refused the credential: look whether it has expired, and set it "
        "anew.",
        DestinationRefused: "The token endpoint is not a permitted host: add it to the reachable hosts.",
        ServerUnreachable: "The token endpoint cannot be reached: check its URL.",
    },
    "protocol": {
        DestinationRefused: "The answer was a redirect, compressed or too large: enter the URL that the server really "
        "answers at, mostly one that ends in /mcp.",
        RequestTimeout: "Something accepts connections there but did not answer in time: check that it is running.",
        ServerUnreachable: "The connection was closed, or the answer took too long: check the path of the URL and that "
        "the server is running.",
    },
}  # fmt: skip
_TLS: Final = {
    "self-signed": "The certificate is signed by nobody we trust: install one from a public authority, or have the "
    "operators add yours.",
    "self signed": "The certificate is signed by nobody we trust: install one from a public authority, or have the "
    "operators add yours.",
    "unable to get local issuer": "The certificate's issuer is not known here: send the whole chain, or have the "
    "operators add the issuer.",
    "expired": "The certificate has expired: renew it.",
    "mismatch": "The certificate is for another name: use the name that it was made for.",
    "not valid for": "The certificate is for another name: use the name that it was made for.",
}  # fmt: skip
NO_WAY: Final = (
    "The operators' forward proxy opens no way there, whatever the server does: have them look at TOOLSYS_EGRESS_PROXY "
    "and the proxy. An answer of 407 asks for another login, 403 forbids this address or port, and 502 to 504 mean "
    "that the proxy cannot reach it."
)
NOT_LISTED: Final = "The server lists none of the tools that are declared here: compare the names on its page."
_OTHERWISE: Final = {
    "dns": "The name cannot be resolved: check how the host is spelled, and that it is in public DNS.",
    "address": "The host is not permitted, or resolves to an address that is not public: add it to the reachable "
    "hosts; private networks are opened by operators only.",
    "tcp": "Nothing accepts connections at this address and port: check the port, the firewall, and that the server is "
    "running.",
    "tls": "The server does not speak TLS as we do: check that the port is an https port, and the certificate.",
    "process": "The program did not start, ended at once, or took more than ten seconds: run its command line by hand.",
    "protocol": "What answers there is not a Model Context Protocol server: check the path of the URL, mostly /mcp.",
    "authentication": "The server refuses to let us in: check the scheme and set the credential anew.",
    "tools": "The list of tools could not be read, or none of them can be used: see the rejected tools and their "
    "reasons.",
}  # fmt: skip


def fixes() -> Iterator[str]:
    """Yield every fix there is, for the page of documentation and its test."""
    yield from (text for texts in _FIXES.values() for text in texts.values())
    yield from _TLS.values()
    yield NO_WAY
    yield NOT_LISTED
    yield from _OTHERWISE.values()
