"""Compares what a person is shown of a held call with what its approval is bound to.

Pages show rows; the digest covers the sealed arguments and the facts that the call was held with. Whoever has the
database in their hands can alter a row, and not what is sealed: such a call is shown as altered, and nobody approves
it. Transaction: needs the tenant's. Source: DESIGN §5, corpus on approvals.
"""

from enum import StrEnum
from typing import Any

from toolsys.domain import binding, canonical, redaction
from toolsys.domain.canonical import NotCanonical
from toolsys.domain.spec import Classification
from toolsys.envelope import CannotOpen
from toolsys.models import ApprovalRequest, Invocation, InvocationPayload
from toolsys.ports import Sealer


class Alteration(StrEnum):
    """What does not fit together."""

    UNREADABLE = "the sealed arguments cannot be read"
    ARGUMENTS = "the arguments below are not those that the call would be sent with"
    FACTS = "the tool, its classification or its server are not those that the call was held with"


def alterations(request: ApprovalRequest, sealer: Sealer) -> list[Alteration]:
    """Return what was altered of a request since it was held; nothing, where all is as it was."""
    calls = Invocation.objects.select_related("run__session").defer("run__manifest", "result", "step_trace")
    call = calls.get(pk=request.invocation_id)
    found = [] if _digest(request, call) == request.digest else [Alteration.FACTS]
    data = _sealed(call, sealer)
    if data is None:
        return [*found, Alteration.UNREADABLE]
    is_shown = canonical.sha256_hex(data) == call.normalized_arguments_hash and _is_same(
        redaction.redact(canonical.parse_strict(data)), call.arguments
    )
    return found if is_shown else [*found, Alteration.ARGUMENTS]


def _sealed(call: Invocation, sealer: Sealer) -> bytes | None:
    payload = InvocationPayload.objects.filter(invocation_id=call.pk, kind="arguments").first()
    if payload is None or payload.sealed is None:
        return None
    try:
        return sealer.open(bytes(payload.sealed), tenant_id=call.tenant_id, kind="arguments", row=call.pk)
    except CannotOpen:
        return None


def _digest(request: ApprovalRequest, call: Invocation) -> str | None:
    if request.binding is None:
        return None
    try:
        classification = Classification(
            side_effect=call.side_effect, risk=call.risk, idempotency=call.idempotency_class
        )
        return binding.approval_digest(
            tenant=call.tenant_id, principal=str(call.run.session.principal_id), run=str(call.run_id),
            tool=call.tool_name, version=call.tool_version, arguments_hash=call.normalized_arguments_hash,
            classification=classification, binding=request.binding,
        )  # fmt: skip
    except (ValueError, NotCanonical):
        return None


def _is_same(made: Any, stored: Any) -> bool:
    """Compare JSON values as they come back from the database, which writes 1e300 with all of its digits."""
    if isinstance(made, dict) and isinstance(stored, dict):
        return made.keys() == stored.keys() and all(_is_same(made[name], stored[name]) for name in made)
    if isinstance(made, list) and isinstance(stored, list):
        return len(made) == len(stored) and all(map(_is_same, made, stored))
    if isinstance(made, bool) or isinstance(stored, bool):
        return made is stored
    if isinstance(made, float) and isinstance(stored, int | float):
        return made == float(stored) if abs(stored) < 10**309 else False
    return type(made) is type(stored) and bool(made == stored)
