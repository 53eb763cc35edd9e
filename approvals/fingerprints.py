"""Tells apart what is redacted without showing it: a short digest under a key that the database does not have.

Made from the sealed arguments when a page is looked at, kept nowhere, and another one in each tenant for the same
value. What is so short that a few guesses would find it has none, nor has what is no text and no number. Transaction:
needs the tenant's. Source: notes on the console, §2.1 line 6; record 28.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final
from uuid import UUID

from django.db.models.functions import Length

from toolsys import inert
from toolsys.arguments import Rows, escaped
from toolsys.domain import canonical, redaction
from toolsys.domain.canonical import NotCanonical
from toolsys.envelope import CannotOpen
from toolsys.models import Invocation, InvocationPayload
from toolsys.ports import Sealer

SHORTEST: Final = 8
LARGEST_BYTES: Final = 128 << 10
# Whole digests are compared; this many characters are shown.
SHOWN: Final = 8

Fingerprints = Mapping[str, tuple[str, ...]]
"""Digests of what is redacted under each pointer, as `arguments.rows` writes it; an empty one for what has none."""


def of_calls(calls: Sequence[Invocation], sealer: Sealer) -> dict[UUID, Fingerprints]:
    """Return the fingerprints of each call that has any. One query, or none where nothing is redacted.

    What cannot be opened any more, or is larger than 128 KiB, has none.
    """
    shown = {call.pk: call for call in calls if _holds_mark(call.arguments)}
    if not shown:
        return {}
    payloads = InvocationPayload.objects.filter(invocation_id__in=shown, kind="arguments", sealed__isnull=False)
    found = {}
    for payload in payloads.alias(size=Length("sealed")).filter(size__lte=LARGEST_BYTES):
        call = shown[payload.invocation_id]
        if marks := of_sealed(call, bytes(payload.sealed or b""), sealer):
            found[call.pk] = marks
    return found


def of_sealed(call: Invocation, sealed: bytes, sealer: Sealer) -> Fingerprints:
    """Compare one call's redacted copy with its sealed arguments; nothing, where they cannot be opened."""
    try:
        data = sealer.open(sealed, tenant_id=call.tenant_id, kind="arguments", row=call.pk)
        hidden = list(_hidden(canonical.parse_strict(data), call.arguments, ""))
    except (CannotOpen, NotCanonical):
        return {}
    prefix = f"redacted value\0{call.tenant_id}\0".encode()
    made = {
        pointer: tuple(sealer.digest(prefix + data) if len(data) >= SHORTEST else "" for data in map(_bytes, parts))
        for pointer, parts in hidden
    }
    return {pointer: found for pointer, found in made.items() if any(found)}


def marked(rows: Rows, fingerprints: Fingerprints) -> Rows:
    """Put the fingerprints beside the values that they stand for."""
    short = {pointer: tuple(each[:SHOWN] for each in found if each) for pointer, found in fingerprints.items()}
    return Rows(tuple(replace(row, fingerprints=short.get(row.pointer, ())) for row in rows.rows), rows.left_out)


def is_same(pointer: str, here: Fingerprints, there: Fingerprints) -> bool | None:
    """Say whether the same is redacted under a pointer in two calls; None, where nobody can tell."""
    found, other = here.get(pointer, ()), there.get(pointer, ())
    return found == other if all(found) and all(other) and found and other else None


def shared(here: Fingerprints, there: Fingerprints) -> list[str]:
    """Return the pointers of one call under which something stands that is redacted anywhere in another one."""
    known = {each for found in there.values() for each in found if each}
    return [pointer for pointer, found in sorted(here.items()) if not known.isdisjoint(found)]


def _hidden(value: Any, shown: Any, pointer: str) -> Iterator[tuple[str, list[Any]]]:
    """Go through a value and its redacted copy side by side; where they part, return what the copy leaves out."""
    if isinstance(value, dict) and isinstance(shown, dict):
        members = sorted(value.items())[: redaction.MAXIMUM_MEMBERS]
        # Names that are redacted to one: the last one's value is kept.
        for name, member in {redaction.redact_text(name): each for name, each in members}.items():
            if name in shown:
                yield from _hidden(member, shown[name], f"{pointer}/{inert.visible(escaped(name))}")
    elif isinstance(value, list) and isinstance(shown, list):
        for index, (member, copy) in enumerate(zip(value, shown, strict=False)):
            yield from _hidden(member, copy, f"{pointer}/{index}")
    elif isinstance(shown, str) and redaction.MARK in shown:
        is_text = isinstance(value, str) and redaction.redact_text(value) == shown
        yield pointer, redaction.replaced(value) if is_text else [] if isinstance(value, dict | list) else [value]


def _bytes(value: Any) -> bytes:
    """A number and the text of its digits are one."""
    return value.encode("utf-8", "replace") if isinstance(value, str) else canonical.dump(value)


def _holds_mark(value: Any) -> bool:
    if isinstance(value, dict | list):
        return any(map(_holds_mark, value.values() if isinstance(value, dict) else value))
    return isinstance(value, str) and redaction.MARK in value
