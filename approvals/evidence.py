"""Compares what a person is shown of a held call, or of a grant drawn from it, with what they would be bound to.

Pages show rows; the digest covers the sealed arguments and the facts that the call was held with, and a keyed one
everything that a grant says. Whoever has the database in their hands can alter a row, and not what is sealed: that is
shown as altered, and nobody approves or confirms it. Transaction: needs the tenant's. Source: DESIGN §5, corpus on
approvals.
"""

import json
from collections.abc import Sequence
from enum import StrEnum
from typing import Any
from uuid import UUID

from toolsys.domain import binding, canonical, redaction
from toolsys.domain.canonical import NotCanonical
from toolsys.domain.spec import Classification, JsonObject
from toolsys.envelope import CannotOpen
from toolsys.models import ApprovalRequest, Invocation, InvocationPayload, StandingGrant
from toolsys.ports import Sealer


class Alteration(StrEnum):
    """What does not fit together."""

    UNREADABLE = "the sealed arguments cannot be read"
    ARGUMENTS = "the arguments below are not those that the call would be sent with"
    FACTS = "the tool, its classification or its server are not those that the call was held with"
    WORDS = "the grant does not say what was proposed"


def alterations(request: ApprovalRequest, sealer: Sealer) -> list[Alteration]:
    """Return what was altered of a request since it was held; nothing, where all is as it was."""
    return altered_among([request], sealer).get(request.pk, [])


def grant_alterations(grant: StandingGrant, sealer: Sealer) -> list[Alteration]:
    """Return what was altered of a grant, or of the call that it was drawn from, since it was proposed."""
    found = alterations(grant.request, sealer)
    return [*found, Alteration.WORDS] if is_reworded(grant, sealer) else found


def is_reworded(grant: StandingGrant, sealer: Sealer) -> bool:
    """Say whether a grant says anything else than what was proposed: then it stands for nothing."""
    return words_digest(grant, sealer) != grant.words_digest


def words_digest(grant: StandingGrant, sealer: Sealer) -> str:
    """Bind everything that a grant says. `conditions` as the database gives them back: jsonb has numbers of its own."""
    said: JsonObject = {
        "tenant": grant.tenant_id, "grant": grant.pk, "request": grant.request_id, "agent": grant.agent_id,
        "principal": grant.principal_id, "tool": grant.tool_name, "tool_digest": grant.tool_digest,
        "seats": grant.seats, "origin_trust": grant.origin_trust, "conditions": grant.conditions,
        "maximum_uses": grant.maximum_uses, "expires_at": grant.expires_at.timestamp(), "note": grant.note,
        "proposed_by": grant.proposed_by_id,
    }  # fmt: skip
    return sealer.digest(b"standing grant\0" + json.dumps(said, sort_keys=True, default=str).encode())


def altered_among(requests: Sequence[ApprovalRequest], sealer: Sealer) -> dict[UUID, list[Alteration]]:
    """Return what was altered of each request that is not as it was held. Two queries, however many there are."""
    identifiers = [request.invocation_id for request in requests]
    rows = Invocation.objects.select_related("run__session").defer("run__manifest", "result", "step_trace")
    calls = {call.pk: call for call in rows.filter(pk__in=identifiers)}
    payloads = InvocationPayload.objects.filter(invocation_id__in=identifiers, kind="arguments")
    sealed = {payload.invocation_id: payload.sealed for payload in payloads}
    found = {}
    for request in requests:
        call = calls[request.invocation_id]
        found[request.pk] = _alterations(request, call, _opened(call, sealed.get(call.pk), sealer))
    return {identifier: each for identifier, each in found.items() if each}


def _alterations(request: ApprovalRequest, call: Invocation, data: bytes | None) -> list[Alteration]:
    found = [] if _digests(request, call) == (request.digest, request.tool_digest) else [Alteration.FACTS]
    if data is None:
        return [*found, Alteration.UNREADABLE]
    is_shown = canonical.sha256_hex(data) == call.normalized_arguments_hash and _is_same(
        redaction.redact(canonical.parse_strict(data)), call.arguments
    )
    return found if is_shown else [*found, Alteration.ARGUMENTS]


def _opened(call: Invocation, sealed: bytes | memoryview | None, sealer: Sealer) -> bytes | None:
    if sealed is None:
        return None
    try:
        return sealer.open(bytes(sealed), tenant_id=call.tenant_id, kind="arguments", row=call.pk)
    except CannotOpen:
        return None


def _digests(request: ApprovalRequest, call: Invocation) -> tuple[str, str] | None:
    """Return what an approval is bound to, and what a grant would be; nothing where a grant could not be drawn."""
    if request.binding is None:
        return None
    try:
        classification = Classification(
            side_effect=call.side_effect, risk=call.risk, idempotency=call.idempotency_class
        )
        tool = binding.tool_digest(call.tool_name, call.tool_version, classification, request.binding)
        whole = binding.approval_digest(
            tenant=call.tenant_id, principal=str(call.run.session.principal_id), run=str(call.run_id),
            tool=call.tool_name, version=call.tool_version, arguments_hash=call.normalized_arguments_hash,
            classification=classification, binding=request.binding,
        )  # fmt: skip
        return whole, tool if request.tool_digest else ""
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
