"""`web.fetch`: one GET at a host that the operator listed, and the text of the answer as it came.

Nothing is rendered, followed or decoded beyond its charset, and only text is read. What the other side says, errors
included, is outside text. It exists where TOOLSYS_WEB_FETCH_HOSTS names hosts. Source: TS "Names" (web), DESIGN §8.
"""

import codecs
import re
from collections.abc import Iterable
from typing import Final

from toolsys.builtin.base import builtin_spec, succeeded
from toolsys.domain.context import ToolExecutionContext
from toolsys.domain.results import ArtifactRef, ToolFailure, ToolFailureKind, ToolResult
from toolsys.domain.spec import JsonObject, SideEffectClass
from toolsys.domain.trust import TrustLevel
from toolsys.egress import EgressClient, EgressError, EgressRefused, HttpAnswer, retry_after_seconds
from toolsys.ports import Clock

# TS "Output": the bounded reader stops at four times the tool's own limit.
HARD_CEILING_FACTOR: Final = 4
MAXIMUM_URL: Final = 2_048
NO_CONTENT: Final = "(the page is empty)"
FIELDS: Final = {"accept": "text/*, application/json, application/xml;q=0.9, */*;q=0.1", "user-agent": "toolsys"}

_MEDIA_TYPE: Final = re.compile(r"\s*([\w.+-]+/[\w.+-]+)\s*(?:;|\Z)", re.ASCII)
_CHARSET: Final = re.compile(r";\s*charset\s*=\s*[\"']?([\w.:-]{1,40})", re.ASCII | re.IGNORECASE)
_META_CHARSET: Final = re.compile(rb"<meta[^>]{0,200}?charset\s*=\s*[\"']?\s*([\w.:-]{1,40})", re.IGNORECASE)
_META_WITHIN: Final = 1_024
_BYTE_ORDER_MARKS: Final = (
    (codecs.BOM_UTF8, "utf-8-sig"), (codecs.BOM_UTF32_LE, "utf-32"), (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"),
)  # fmt: skip
_HTML: Final = frozenset({"text/html", "application/xhtml+xml"})
_TEXTUAL: Final = _HTML | {
    "application/json", "application/ld+json", "application/x-ndjson", "application/xml", "application/javascript",
    "application/ecmascript", "application/yaml", "application/x-yaml", "application/toml", "application/sql",
    "application/x-www-form-urlencoded", "application/graphql", "application/x-sh", "application/rtf",
}  # fmt: skip
# By Python's names. Codecs that are no charsets, or that hide ASCII in other bytes (utf-7), are not among them.
_CHARSETS: Final = re.compile(
    r"utf-8|utf-(?:16|32)(?:-[bl]e)?|cp(?:125[0-8]|866|874|932|949)|iso8859-\d{1,2}|koi8-[ru]|shift_jis|euc_(?:jp|kr)|"
    r"iso2022_jp|gb2312|gbk|gb18030|big5|mac-(?:roman|cyrillic)"
)
# What the web calls by these names is written in the other.
_WRITTEN_AS: Final = {"ascii": "cp1252", "iso8859-1": "cp1252"}

_KINDS: Final = {
    "malformed": (ToolFailureKind.INVALID_ARGUMENTS, "tool.arguments_invalid"),
    "encoding": (ToolFailureKind.OUTPUT_INVALID, "tool.output_invalid"),
    "too_large": (ToolFailureKind.OUTPUT_TOO_LARGE, "tool.output_too_large"),
    "redirect": (ToolFailureKind.UPSTREAM_ERROR, "tool.upstream_error"),
    "timeout": (ToolFailureKind.TIMEOUT, "tool.timeout"),
    "unreachable": (ToolFailureKind.TRANSPORT, "tool.transport"),
    "proxy": (ToolFailureKind.TRANSPORT, "tool.transport"),
    "connection_lost": (ToolFailureKind.TRANSPORT, "tool.transport"),
}
_DENIED: Final = (ToolFailureKind.PERMISSION, "tool.egress_denied")
_STATUSES: Final = {
    **dict.fromkeys((401, 403, 407, 451), (ToolFailureKind.PERMISSION, "tool.permission")),
    **dict.fromkeys((404, 410), (ToolFailureKind.NOT_FOUND, "tool.not_found")),
    429: (ToolFailureKind.UPSTREAM_ERROR, "tool.rate_limited"),
}
_NOT_TEXT: Final = (ToolFailureKind.OUTPUT_INVALID, "tool.output_invalid.not_text")


class NotText(ValueError):
    """The body is not the text of any charset that is read here."""


class WebFetch:
    spec = builtin_spec(
        "web.fetch",
        "Fetch the text of a web page or document by its URL, as it is served. Redirects are reported, not followed.",
        {"url": {"type": "string", "minLength": 1, "maxLength": MAXIMUM_URL, "description": "An absolute URL"}},
        required=["url"],
        side_effect=SideEffectClass.NETWORK_READ,
        required_scopes=frozenset({"web.read"}),
        timeout_seconds=30,
        target_kind="web_provider",
        output_trust=TrustLevel.EXTERNAL_UNTRUSTED,
    )

    def __init__(self, client: EgressClient, clock: Clock, hosts: Iterable[str]) -> None:
        """`hosts` is what the client's policy allows: an approval is for these."""
        self._client = client
        self._clock = clock
        self.binding = " ".join(sorted(hosts))

    async def execute(self, arguments: JsonObject, context: ToolExecutionContext) -> ToolResult:
        try:
            answer = await self._client.send(
                "GET", arguments["url"], headers=FIELDS, timeout_seconds=context.timeout_seconds,
                maximum_bytes=context.maximum_output_bytes * HARD_CEILING_FACTOR, keeps_partial=True,
            )  # fmt: skip
        except EgressError as silence:
            return _unanswered(silence)
        if not 200 <= answer.status < 300:
            return self._refused(answer)
        try:
            text, media_type, charset = text_of(answer)
        except NotText as error:
            return _failed(_NOT_TEXT, str(error))
        if not answer.is_whole:
            kept = await context.artifacts.write(text.encode("utf-8", "replace"), "text/plain; charset=utf-8")
            return _failed(_KINDS["too_large"], f"more than {len(answer.body)} bytes", artifacts=(kept,))
        found = {"url": arguments["url"], "status": answer.status, "media_type": media_type, "charset": charset,
                 "size_bytes": len(answer.body)}  # fmt: skip
        return succeeded(found, text or NO_CONTENT)

    def _refused(self, answer: HttpAnswer) -> ToolResult:
        """Render a status that is no success, with what the other side wrote about it as outside text."""
        try:
            said = text_of(answer)[0]
        except NotText:
            said = ""
        wait = None
        if answer.status in {429, 503}:
            wait = retry_after_seconds(answer.fields.get("retry-after", ""), self._clock.now())
        kind = _STATUSES.get(answer.status, (ToolFailureKind.UPSTREAM_ERROR, "tool.upstream_error"))
        return _failed(
            kind, f"status {answer.status}", external_text=f"status {answer.status}\n\n{said}".rstrip(),
            retryable=answer.status == 429 or answer.status >= 500, retry_after_seconds=wait,
        )  # fmt: skip


def _unanswered(silence: EgressError) -> ToolResult:
    told = None
    if isinstance(silence, EgressRefused) and silence.reason == "redirect":
        told = f"redirected to {silence.location}"
    retryable = silence.reason in {"timeout", "unreachable", "proxy", "connection_lost"}
    return _failed(_KINDS.get(silence.reason, _DENIED), str(silence), external_text=told, retryable=retryable)


def _failed(
    kind: tuple[ToolFailureKind, str],
    detail: str,
    *,
    external_text: str | None = None,
    retryable: bool = False,
    retry_after_seconds: float | None = None,
    artifacts: tuple[ArtifactRef, ...] = (),
) -> ToolResult:
    failure = ToolFailure(
        kind=kind[0], reason_code=kind[1], detail=detail, external_text=external_text, retryable=retryable,
        retry_after_seconds=retry_after_seconds,
    )  # fmt: skip
    return ToolResult(ok=False, failure=failure, artifacts=artifacts)


def text_of(answer: HttpAnswer) -> tuple[str, str, str]:
    """Return text, media type and charset. Bytes that the charset does not know become U+FFFD.

    Raises: NotText for a media type of something else, and for what is called text and holds NUL characters.
    """
    declared = answer.fields.get("content-type", "")[:256]
    found = _MEDIA_TYPE.match(declared)
    media_type = found[1].lower() if found else ""
    if not _is_textual(media_type):
        raise NotText(media_type)
    charset = _charset_of(answer.body, declared, media_type)
    text = answer.body.decode(charset, "replace")
    if "\0" in text or (not media_type and "\ufffd" in text):
        raise NotText(f"{media_type or 'no media type'}, not {charset} text")
    return text, media_type, charset


def _is_textual(media_type: str) -> bool:
    return (
        not media_type or media_type.startswith("text/") or media_type in _TEXTUAL
        or media_type.endswith(("+json", "+xml", "+yaml"))
    )  # fmt: skip


def _charset_of(body: bytes, declared: str, media_type: str) -> str:
    """The bytes' own mark, else what the server declares, else what the page says of itself, else UTF-8."""
    for mark, charset in _BYTE_ORDER_MARKS:
        if body.startswith(mark):
            return charset
    label = _CHARSET.search(declared)
    if label is not None:
        return _known(label[1])
    inner = _META_CHARSET.search(body[:_META_WITHIN]) if media_type in _HTML else None
    return _known(inner[1].decode("ascii")) if inner is not None else "utf-8"


def _known(label: str) -> str:
    try:
        name = codecs.lookup(label).name
    except (LookupError, ValueError):
        return "utf-8"
    name = _WRITTEN_AS.get(name, name)
    return name if _CHARSETS.fullmatch(name) else "utf-8"
