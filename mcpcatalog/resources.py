"""A server's resources as one tool of ours: what it is declared to be, which URIs it may ask for, how a list reads.

Resources are no context source: the model asks for one, and only for what the server advertises, by its exact URI or by
a template (RFC 6570, decision record 32). Pure. Source: TS "What MCP resources and prompts become".
"""

import json
import re
import unicodedata
from collections.abc import Iterable, Iterator
from typing import Any, Final
from urllib.parse import unquote

import re2

from mcpcatalog.remote import Advertised, JsonObject, RemoteResource, RemoteTool
from toolsys.domain import excerpt

# The protocol's method stands for the remote name: no declared tool may have it.
REMOTE_NAME: Final = "resources/read"
SEGMENT: Final = "read_resource"
MAXIMUM_URI: Final = 2_048
MAXIMUM_TEMPLATE: Final = 1_024
MAXIMUM_EXPRESSIONS: Final = 16
MAXIMUM_NAME_BYTES: Final = 200
MAXIMUM_DESCRIPTION_BYTES: Final = 300
DESCRIPTION: Final = (
    "Read one resource of this server by its URI. An empty URI lists the resources and URI templates "
    "that the server advertises."
)
_SCHEMA: Final[JsonObject] = {
    "type": "object",
    "properties": {"uri": {"type": "string", "maxLength": MAXIMUM_URI}},
    "required": ["uri"],
    "additionalProperties": False,
}
_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]*:")
_EXPRESSION: Final = re.compile(r"\{([+#./;?&]?)([A-Za-z0-9_.%,*:]+)\}")
_VALUE: Final = r"[A-Za-z0-9\-._~%,{more}]"
_ANY: Final = r"[A-Za-z0-9\-._~%:/?#\[\]@!$&'()*+,;=]+"
# What an expression may become, by its operator. A variable is never empty where it stands for itself.
_OPERATORS: Final = {
    "+": _ANY,
    "#": rf"(?:#{_ANY})?",
    ".": rf"(?:\.{_VALUE.format(more='')}+)*",
    "/": rf"(?:/{_VALUE.format(more='')}+)*",
    ";": rf"(?:;{_VALUE.format(more='=')}+)*",
    "?": rf"(?:\?{_VALUE.format(more='=&')}*)?",
    "&": rf"(?:&{_VALUE.format(more='=&')}*)?",
}
_SEPARATORS: Final = re.compile(r"[/\\:?#&=]")


def permitted(known: Advertised, uri: str) -> str | None:
    """Return the URI as the server spells it, or None for one that it does not advertise."""
    for found in known.resources:
        # Arguments arrive in NFC; the server must get its own spelling back.
        if unicodedata.normalize("NFC", found.uri) == uri:
            return found.uri
    is_safe = is_well_formed(uri) and not _climbs(uri)
    return uri if is_safe and any(matches(found.uri, uri) for found in known.templates) else None


def listing(known: Advertised, limit_bytes: int) -> JsonObject:
    """Return as many entries as fit, resources first, and how many of them are left out.

    Not `is_whole`: the server advertises more than is here.
    """
    entries = [("resources", _entry(found, "uri")) for found in known.resources]
    entries += [("templates", _entry(found, "uri_template")) for found in known.templates]
    shown: JsonObject = {"resources": [], "templates": [], "omitted": 0, "is_whole": known.is_whole}
    left = limit_bytes - len(json.dumps(shown)) - len(str(len(entries)))
    for count, (kind, entry) in enumerate(entries):
        left -= len(json.dumps(entry, ensure_ascii=False).encode("utf-8", "replace")) + 2
        if left < 0:
            return {**shown, "omitted": len(entries) - count, "is_whole": False}
        shown[kind].append(entry)
    return shown


def _entry(found: RemoteResource, key: str) -> JsonObject:
    entry = {
        key: found.uri, "name": excerpt.head(found.name, MAXIMUM_NAME_BYTES),
        "description": excerpt.head(found.description, MAXIMUM_DESCRIPTION_BYTES),
        "mime_type": excerpt.head(found.media_type, 100),
    }  # fmt: skip
    return {name: value for name, value in entry.items() if value}


def declaration() -> RemoteTool:
    """Return the synthetic tool in the shape of a declared one, so that pins, hashes and history treat it alike."""
    return RemoteTool(REMOTE_NAME, DESCRIPTION, _SCHEMA)


def usable(declared: Iterable[Any], key: str) -> Iterator[RemoteResource]:
    """Yield what can be offered: an entry with a URI of bounded length, without control characters; a template with a
    scheme, so that none stands for every URI there is.
    """
    is_template = key != "uri"
    limit = MAXIMUM_TEMPLATE if is_template else MAXIMUM_URI
    for item in declared:
        uri = item.get(key) if isinstance(item, dict) else None
        if not isinstance(uri, str) or not 0 < len(uri) <= limit or not uri.isprintable():
            continue
        if not is_template or _SCHEME.match(uri):
            texts = (_text(item, name) for name in ("name", "description", "mimeType"))
            yield RemoteResource(uri, *texts)


def is_well_formed(uri: str) -> bool:
    """Say whether a URI that no list spells out is well formed: a scheme, and visible ASCII."""
    return len(uri) <= MAXIMUM_URI and re.fullmatch(r"[A-Za-z][A-Za-z0-9+.\-]*:[!-~]+", uri) is not None


def matches(template: str, uri: str) -> bool:
    """Say whether a URI is an expansion of the template; in time linear in the URI, whatever the template."""
    pieces = []
    position = count = 0
    for found in _EXPRESSION.finditer(template):
        count += 1
        pieces += [re2.escape(template[position : found.start()]), _expansion(*found.groups())]
        position = found.end()
    rest = template[position:]
    literal = "".join(_EXPRESSION.split(template)[::3])
    if not _SCHEME.match(template) or not 0 < count <= MAXIMUM_EXPRESSIONS or "{" in literal:
        return False
    try:
        return re2.fullmatch("".join([*pieces, re2.escape(rest)]), uri) is not None
    except re2.error:
        return False


def _expansion(operator: str, variables: str) -> str:
    """An exploded variable may hold slashes: widespread servers write a path so, beyond the RFC."""
    if operator:
        return _OPERATORS[operator]
    return _VALUE.format(more="/" if "*" in variables else "") + "+"


def _climbs(uri: str) -> bool:
    """Say whether a segment means the folder above, written out or in percent signs."""
    return any(part in {".", ".."} for part in _SEPARATORS.split(unquote(unquote(uri))))


def _text(item: JsonObject, name: str) -> str:
    value = item.get(name)
    return value if isinstance(value, str) else ""
