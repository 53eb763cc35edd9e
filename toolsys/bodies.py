"""The sealed body of a step: the calls as they were proposed, so that a worker can go on where a process died.

Sealed and purged like a payload. Arguments without a canonical form are kept as their hash only.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol
from uuid import UUID

from toolsys.domain.calls import ProposedCall, StepDraft
from toolsys.domain.trust import TrustLevel
from toolsys.ports import Sealer

KIND = "step"


class Drafted(Protocol):
    """What a step's body keeps of one call."""

    @property
    def call_id(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def arguments(self) -> Any: ...
    @property
    def raw_hash(self) -> str | None: ...
    @property
    def argument_trust(self) -> dict[str, TrustLevel]: ...


@dataclass(frozen=True, slots=True)
class StepBody:
    calls: tuple[dict[str, Any], ...]

    @classmethod
    def of(cls, drafts: Sequence[Drafted], *, trusted: bool) -> "StepBody":
        """Trust labels are kept only from a key that may assert them; absent means untrusted."""
        return cls(tuple(
            {"call_id": draft.call_id, "name": draft.name, "raw_hash": draft.raw_hash,
             "arguments": None if draft.raw_hash else draft.arguments,
             "argument_trust": dict(draft.argument_trust) if trusted else {}}
            for draft in drafts
        ))  # fmt: skip

    def call(
        self, index: int, *, tenant_id: str, run_id: UUID, step: StepDraft, api_key_id: UUID, invocation_id: UUID
    ) -> ProposedCall:
        found = self.calls[index]
        return ProposedCall(
            tenant_id=tenant_id, invocation_id=invocation_id, run_id=run_id, step=step, call_id=found["call_id"],
            call_index=index, name=found["name"], arguments=found["arguments"], raw_hash=found["raw_hash"],
            argument_trust={name: TrustLevel(label) for name, label in found["argument_trust"].items()},
            api_key_id=api_key_id,
        )  # fmt: skip


def sealed(body: StepBody, tenant_id: str, step_id: UUID, sealer: Sealer) -> bytes:
    plain = json.dumps(body.calls, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")
    return sealer.seal(plain, tenant_id=tenant_id, kind=KIND, row=step_id)


def opened(data: bytes, tenant_id: str, step_id: UUID, sealer: Sealer) -> StepBody:
    plain = sealer.open(data, tenant_id=tenant_id, kind=KIND, row=step_id)
    return StepBody(tuple(json.loads(plain.decode("utf-8", "surrogatepass"))))
