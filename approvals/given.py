"""Which arguments of a held call its caller gave, and which the schema of its tool put in.

What was given is read from the sealed step, redacted like everything that is shown. Transaction: needs the tenant's.
Source: notes on the console, §2.1 line 4.
"""

import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from toolsys import arguments, bodies, inert, validation
from toolsys.arguments import Difference, Rows
from toolsys.domain import canonical, redaction
from toolsys.domain.canonical import NotCanonical
from toolsys.domain.defaults import Overfilled
from toolsys.domain.spec import JsonObject
from toolsys.envelope import CannotOpen
from toolsys.models import Invocation, RunStep
from toolsys.ports import Sealer
from toolsys.validation import UnusableSchema


@dataclass(frozen=True, slots=True)
class Given:
    """`put_in` are defaults that the caller left out, `other` what they gave in place of one.

    `composed` are pointers of what was sent with other code points for the same letters, not in NFC; the names on the
    way are as they are shown. `is_known`: the sealed step could be read; it goes with retention.
    """

    put_in: list[Difference]
    other: list[Difference]
    is_known: bool
    composed: frozenset[str] = frozenset()


def given_of(call: Invocation, schema: Any, sealer: Sealer) -> Given:
    """Compare a call with what its caller sent and with `schema`, the pinned one. One query."""
    proposed = _proposed(call, sealer)
    sent = _as_shown(proposed)
    if not isinstance(sent, dict):
        return Given([], [], is_known=False)
    put_in = [each for each in arguments.differences(sent, call.arguments) if each.kind == "added"]
    declared = _defaults(schema)
    both = {name: value for name, value in call.arguments.items() if name in declared and name in sent}
    old = {name: declared[name] for name in both}
    other = [each for each in arguments.differences(old, both) if each.kind != "hidden"]
    return Given(put_in, other, is_known=True, composed=frozenset(_composed(proposed, "")))


def noted(rows: Rows, given: Given) -> Rows:
    """Say beside each value whether it was sent in another form."""
    return Rows(tuple(replace(row, is_composed=row.pointer in given.composed) for row in rows.rows), rows.left_out)


def _composed(value: Any, pointer: str) -> Iterator[str]:
    if isinstance(value, str) and not unicodedata.is_normalized("NFC", value):
        yield pointer
    elif isinstance(value, dict):
        for name, member in value.items():
            label = arguments.escaped(redaction.redact_text(unicodedata.normalize("NFC", name)))
            inside = f"{pointer}/{inert.visible(label)}"
            if not unicodedata.is_normalized("NFC", name):
                yield inside
            yield from _composed(member, inside)
    elif isinstance(value, list):
        for index, member in enumerate(value):
            yield from _composed(member, f"{pointer}/{index}")


def _proposed(call: Invocation, sealer: Sealer) -> Any:
    """Return what was proposed, as it was sent; None, where that cannot be told."""
    sealed = RunStep.objects.filter(pk=call.step_id).values_list("body", flat=True).first()
    if sealed is None:
        return None
    try:
        return bodies.opened(bytes(sealed), call.tenant_id, call.step_id, sealer).calls[call.call_index]["arguments"]
    except (CannotOpen, ValueError, LookupError):
        return None


def _as_shown(proposed: Any) -> Any:
    """Return a value in its canonical form and redacted; None, where it has none."""
    try:
        return redaction.redact(canonical.normal_form(proposed)[0])
    except NotCanonical:
        return None


def _defaults(schema: Any) -> JsonObject:
    """Return what the schema would make of no arguments at all, as it would be shown."""
    if not isinstance(schema, dict):
        return {}
    try:
        found = redaction.redact(canonical.normal_form(validation.with_defaults(schema, {}))[0])
    except (UnusableSchema, Overfilled, NotCanonical):
        return {}
    return found if isinstance(found, dict) else {}
