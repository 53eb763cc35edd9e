"""Which arguments of a held call its caller gave, and which the schema of its tool put in.

What was given is read from the sealed step, redacted like everything that is shown. Transaction: needs the tenant's.
Source: notes on the console, §2.1 line 4.
"""

from dataclasses import dataclass
from typing import Any

from toolsys import arguments, bodies, validation
from toolsys.arguments import Difference
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

    `is_known`: the sealed step could be read; it goes with retention.
    """

    put_in: list[Difference]
    other: list[Difference]
    is_known: bool


def given_of(call: Invocation, schema: Any, sealer: Sealer) -> Given:
    """Compare a call with what its caller sent and with `schema`, the pinned one. One query."""
    sent = _sent(call, sealer)
    if sent is None:
        return Given([], [], is_known=False)
    put_in = [each for each in arguments.differences(sent, call.arguments) if each.kind == "added"]
    declared = _defaults(schema)
    both = {name: value for name, value in call.arguments.items() if name in declared and name in sent}
    old = {name: declared[name] for name in both}
    return Given(put_in, [each for each in arguments.differences(old, both) if each.kind != "hidden"], is_known=True)


def _sent(call: Invocation, sealer: Sealer) -> JsonObject | None:
    """Return what was proposed, in its canonical form and redacted; None, where that cannot be told."""
    sealed = RunStep.objects.filter(pk=call.step_id).values_list("body", flat=True).first()
    if sealed is None:
        return None
    try:
        found = bodies.opened(bytes(sealed), call.tenant_id, call.step_id, sealer).calls[call.call_index]
        sent = redaction.redact(canonical.normal_form(found["arguments"])[0])
    except (CannotOpen, NotCanonical, ValueError, LookupError):
        return None
    return sent if isinstance(sent, dict) else None


def _defaults(schema: Any) -> JsonObject:
    """Return what the schema would make of no arguments at all, as it would be shown."""
    if not isinstance(schema, dict):
        return {}
    try:
        found = redaction.redact(canonical.normal_form(validation.with_defaults(schema, {}))[0])
    except (UnusableSchema, Overfilled, NotCanonical):
        return {}
    return found if isinstance(found, dict) else {}
