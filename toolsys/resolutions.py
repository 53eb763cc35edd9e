"""Recording what people found out about calls whose outcome is unknown. The call itself stays `uncertain`.

"It did not happen" needs a proof that the worker of the claim can send nothing any more: passed deadlines do not
suffice, since a frozen process can thaw. Called by commands and pages; permission is checked there. Source: DESIGN §4.
"""

from typing import Any
from uuid import UUID

from toolsys.domain.states import InvocationStatus
from toolsys.models import Invocation, Resolution, UncertainResolution, WorkerProof
from toolsys.problems import FieldError, Problem
from toolsys.tenancy import OPERATOR_ALIAS, tenant_transaction


def resolve(
    *, tenant_id: str, invocation_id: UUID, resolution: Resolution, evidence: str, worker_proof: WorkerProof | None,
    user: Any, using: str = OPERATOR_ALIAS,
) -> UncertainResolution:  # fmt: skip
    """Add one finding. `not_happened` lifts the breaker for that name and those arguments in its run.

    Raises: Problem (request.not_found, resolution.not_uncertain, request.invalid).
    """
    if not evidence.strip():
        raise Problem("request.invalid", [FieldError("/evidence", "say what was looked at, and what it showed")])
    if resolution is Resolution.NOT_HAPPENED and worker_proof is None:
        known = ", ".join(WorkerProof.values)
        wanted = f"say why its worker can send nothing any more ({known}): deadlines do not suffice"
        raise Problem("request.invalid", [FieldError("/worker_proof", wanted)])
    with tenant_transaction(tenant_id, using):
        calls = Invocation.objects.using(using).filter(tenant_id=tenant_id, pk=invocation_id)
        status = calls.values_list("status", flat=True).first()
        if status is None:
            raise Problem("request.not_found")
        if status != InvocationStatus.UNCERTAIN:
            raise Problem("resolution.not_uncertain")
        return UncertainResolution.objects.using(using).create(
            tenant_id=tenant_id, invocation_id=invocation_id, resolution=resolution, evidence=evidence[:4_000],
            worker_proof=worker_proof or "", resolved_by=user,
        )  # fmt: skip
