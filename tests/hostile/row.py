"""One row of the table: how a server misbehaves, and what must become of the call.

The expected values are the specification's: TS "Advertisement is pinned" (availability), "Authentication" (the codes of
a refused login), "Failure modes" (what is uncertain); DESIGN §3 (failing before the watermark is never uncertain), §4
(Retry-After), §7; the corpus of reported faults, whose numbers stand beside the rows.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from mcpcatalog.remote import Effect
from tests.hostile.scripts import Script, Stage

DONE: Final = "tool.succeeded"
UNREACHABLE, TIMEOUT, TOO_LARGE = "tool.server_unreachable", "tool.timeout", "tool.output_too_large"
PROTOCOL, UPSTREAM, EGRESS = "tool.protocol_error", "tool.upstream_error", "tool.egress_denied"
LIMITED, PERMISSION, UNAUTHORIZED = "tool.rate_limited", "tool.permission", "tool.server_unauthorized"
AUTH_FAILED, AUTH_UNSUPPORTED = "tool.auth_failed", "tool.auth_unsupported"
INPUT, WITHDRAWN = "tool.input_required_unsupported", "tool.withdrawn"
# What a call that is left hanging gets.
BRIEF: Final = 0.4

type Scripts = Mapping[Stage, Script | Sequence[Script]]


@dataclass(frozen=True, slots=True)
class Row:
    """`reason` is that of a call that may be repeated. `effect` is what is known of the call, `sent` how many of it
    reach the server in one attempt, `seconds` the time that it has; where that is not `BRIEF` it ends long before.
    `holds` are texts that must be in what a call that succeeds returns.
    """

    name: str
    reason: str
    effect: Effect
    scripts: Scripts = field(default_factory=dict)
    era: str = "modern"
    dial: str = "http"
    sent: int = 1
    seconds: float = 30.0
    retry_after: float | None = None
    holds: tuple[str, ...] = ()
    says: str = ""

    @property
    def is_dispatched(self) -> bool:
        """The call left, so that a write of it may have been felt."""
        return self.sent > 0


def before(name: str, reason: str, scripts: Scripts | None = None, *, era: str = "modern", dial: str = "http",
           says: str = "", retry_after: float | None = None) -> Row:  # fmt: skip
    """It goes wrong before the watermark: nothing of the call is sent, whatever class it is of."""
    return Row(name, reason, "not_applied", scripts or {}, era, dial, sent=0, says=says, retry_after=retry_after)


def called(
    name: str, reason: str, effect: Effect, script: Script, *, era: str = "modern", seconds: float = 30.0,
    retry_after: float | None = None, says: str = "", holds: tuple[str, ...] = (),
) -> Row:  # fmt: skip
    """It goes wrong with the call itself."""
    return Row(
        name, reason, effect, {Stage.CALL: script}, era, seconds=seconds, retry_after=retry_after, says=says,
        holds=holds,
    )  # fmt: skip


def hanging(name: str, script: Script, *, era: str = "modern", says: str = "") -> Row:
    """The call is left without an answer: its own time ends it."""
    return called(name, TIMEOUT, "unknown", script, era=era, seconds=BRIEF, says=says)


def fine(name: str, script: Script, *, era: str = "modern", says: str = "", holds: tuple[str, ...] = ("fine",)) -> Row:
    """Odd, and no reason to lose the answer."""
    return called(name, DONE, "applied", script, era=era, says=says, holds=holds)
