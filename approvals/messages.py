"""What a notification says: identity, classification and a link, never an argument, a result or a note. Pure.

The body of a message is a function of its delivery and its event, so that every repetition is the same, byte for byte.
"""

import json
from dataclasses import dataclass
from datetime import datetime
from typing import Final
from uuid import UUID

from toolsys import inert
from toolsys.domain.spec import JsonObject

PING: Final = "endpoint.test"
TYPES: Final = {
    "approval.requested": "a call waits for people", "approval.approved": "a held call was approved",
    "approval.rejected": "a held call was rejected", "approval.expired": "nobody decided in time",
    "approval.voided": "an approval no longer fits its call",
    "tool.call.uncertain": "nobody knows whether a call took effect", "tool.call.failed": "a call failed",
    "tool.call.denied": "a call was denied",
}  # fmt: skip
_FIELDS: Final = ("tool_name", "outcome_status", "reason_code")


@dataclass(frozen=True, slots=True)
class Message:
    """`link` leads to the page, which asks who one is and opens then. `facts` are the event's own words."""

    id: UUID
    type: str
    at: datetime
    tenant_id: str
    run_id: UUID | None
    invocation_id: UUID | None
    approval_id: UUID | None
    facts: JsonObject
    link: str

    @property
    def message_id(self) -> str:
        """Return what a receiver tells repetitions by."""
        return f"msg_{self.id.hex}"

    def body(self) -> str:
        data = {
            "tenant_id": self.tenant_id, "run_id": _text(self.run_id), "invocation_id": _text(self.invocation_id),
            "approval_id": _text(self.approval_id), **{name: self.facts.get(name) for name in _FIELDS},
            "url": self.link,
        }  # fmt: skip
        event = {"type": self.type, "timestamp": self.at.isoformat(), "data": data}
        return json.dumps(event, separators=(",", ":"), ensure_ascii=False)

    def subject(self) -> str:
        return f"[{self.tenant_id}] {TYPES.get(self.type, 'a test message').capitalize()}"

    def mail(self) -> str:
        said = inert.visible(str(self.facts.get("tool_name", ""))).replace("\n", " ")
        lines = [f"{TYPES.get(self.type, 'This is a test message').capitalize()}."]
        lines += [f"Tool: {said[:200]}"] if said else []
        reason = self.facts.get("reason_code")
        lines += [f"Reason: {reason}"] if reason else []
        lines += [f"When: {self.at:%Y-%m-%d %H:%M:%S} UTC", "", self.link, "",
                  "Nothing is decided by opening the link. Arguments are shown there, after signing in."]  # fmt: skip
        return "\n".join(lines)


def _text(value: UUID | None) -> str | None:
    return str(value) if value is not None else None
