"""What one attempt's end means for the next: may it be repeated, is it worth another try, or does nobody know.

Asks the recovery table and the row, never the kind of error alone. Values in, values out; imported by the steps and
the pipeline. Source: TS "The effect watermark", DESIGN §4.
"""

from typing import Final

from toolsys import outputs
from toolsys.domain import reasons, recovery
from toolsys.domain.calls import BoundedOutput, Retry
from toolsys.domain.recovery import RecoveryAction
from toolsys.domain.results import ToolFailure, ToolFailureKind
from toolsys.domain.spec import IdempotencyClass
from toolsys.ports import Case, Limits, NotAvailable

# Known failures that time alone may mend: asked to slow down, no connection to be had, or it failed.
RETRIED: Final = frozenset({"tool.rate_limited", "tool.server_busy", "tool.server_unreachable", "tool.transport"})
# Nobody answered, or nobody proved what the answer meant: what was sent may have been felt.
UNANSWERED: Final = frozenset({
    ToolFailureKind.TIMEOUT, ToolFailureKind.TRANSPORT, ToolFailureKind.INTERNAL, ToolFailureKind.OUTCOME_UNKNOWN,
})  # fmt: skip


def is_unrepeatable(case: Case) -> bool:
    """Ask the recovery table before the watermark is passed again.

    A write that could not be recorded does not come as far: its run has failed, and a run that has takes no step on.
    """
    assert case.claim is not None
    return _is_final(case, effect_sent=_effect_sent(case))


def unknown_is_uncertain(case: Case) -> bool:
    """Say whether a call that was sent and not answered is uncertain: unless repeating it is harmless (DESIGN §7)."""
    return _effective_class(case) not in {IdempotencyClass.READ_ONLY, IdempotencyClass.IDEMPOTENT}


def _is_final(case: Case, *, effect_sent: bool) -> bool:
    return recovery.recover(_effective_class(case), effect_sent=effect_sent) is RecoveryAction.UNCERTAIN


def _effective_class(case: Case) -> IdempotencyClass:
    return recovery.effective_class(case.classification.idempotency, passes_key=case.spec.passes_idempotency_key)


def retry_after_absence(case: Case, absence: Exception, limits: Limits) -> Retry | None:
    """`prepare` failed, so nothing was sent in this attempt; whether an earlier one was is asked of the table."""
    code = absence.reason_code if isinstance(absence, NotAvailable) else "tool.server_unreachable"
    if code not in RETRIED or _is_final(case, effect_sent=_effect_sent(case)):
        return None
    return _next_attempt(case, code, None, limits)


def retry_after_failure(case: Case, limits: Limits) -> Retry | None:
    """Say whether a failure permits another attempt with the same key.

    Known, transient and repeatable; or unanswered, where the remote side knows the key: it is replayed (DESIGN §4).
    """
    assert case.result is not None
    failure = case.result.failure
    if failure is None:
        return None
    code = reasons.code_for_failure(failure.kind, failure.reason_code)
    held = is_held(failure)
    is_replayed = failure.kind in UNANSWERED and _effective_class(case) is IdempotencyClass.CONDITIONALLY_IDEMPOTENT
    may_be_repeated = held or code in RETRIED or is_replayed
    if not may_be_repeated or _is_final(case, effect_sent=case.classification.side_effect.value != "none"):
        return None
    return _next_attempt(case, code, failure.retry_after_seconds, limits, at_once=held)


def is_held(failure: ToolFailure) -> bool:
    """Say whether a login was refused and then renewed: the call is held for one more try (TS "bounded ladder")."""
    return failure.retryable and failure.reason_code == "tool.server_unauthorized"


def _next_attempt(
    case: Case, code: str, asked_seconds: float | None, limits: Limits, *, at_once: bool = False
) -> Retry | None:
    """Bounded, exponential, and never earlier than the other side asked; None where it would come too late."""
    claim, facts = case.claim, case.facts
    assert claim is not None
    wait = 0.0 if at_once else max(limits.retry_base_seconds * 2 ** (claim.attempt_number - 1), asked_seconds or 0.0)
    left = (facts.run.deadline_at - facts.now).total_seconds()
    if claim.attempt_number >= limits.max_attempts or wait > limits.retry_maximum_seconds or wait >= left:
        return None
    return Retry(claim.attempt_number + 1, wait, {"detail": f"attempt {claim.attempt_number}: {code}"})


def conclude_uncertain() -> BoundedOutput:
    return outputs.without_content("tool.outcome_unknown", "an earlier attempt may have been felt")


def conclude_unavailable(case: Case, absence: Exception) -> BoundedOutput:
    """`prepare` failed: nothing was sent now, but an earlier attempt of a write may have been felt."""
    code = absence.reason_code if isinstance(absence, NotAvailable) else "tool.server_unreachable"
    detail = absence.detail if isinstance(absence, NotAvailable) else "preparation took too long"
    return outputs.without_content(unrecorded_code(case, code), detail)


def conclude_cancelled(case: Case) -> BoundedOutput:
    return outputs.without_content(
        unrecorded_code(case, "tool.cancelled"), "cancelled before this attempt sent anything"
    )


def unrecorded_code(case: Case, code: str) -> str:
    """Turn an ending without a recorded result into `uncertain` where an earlier attempt of a write was sent."""
    if recovery.unrecorded_ending_is_uncertain(case.classification, effect_sent=_effect_sent(case)):
        return "tool.outcome_unknown"
    return code


def _effect_sent(case: Case) -> bool:
    if case.claim is not None and case.claim.effect_sent_at is not None:
        return True
    return case.row is not None and case.row.effect_sent
