"""What a later worker may do with a call that an earlier one claimed: a table, never an inference.

The class is the stricter of the row's snapshot and the live classification; the watermark is a column.
Source: TS "The effect watermark", DESIGN §4.
"""

from enum import StrEnum
from typing import Final

from toolsys.domain.spec import Classification, IdempotencyClass


class RecoveryAction(StrEnum):
    RE_EXECUTE = "re_execute"
    REPLAY_SAME_KEY = "replay_same_key"
    UNCERTAIN = "uncertain"


RECOVERY_TABLE: Final = {
    (IdempotencyClass.READ_ONLY, False): RecoveryAction.RE_EXECUTE,
    (IdempotencyClass.READ_ONLY, True): RecoveryAction.RE_EXECUTE,
    (IdempotencyClass.IDEMPOTENT, False): RecoveryAction.RE_EXECUTE,
    (IdempotencyClass.IDEMPOTENT, True): RecoveryAction.RE_EXECUTE,
    (IdempotencyClass.CONDITIONALLY_IDEMPOTENT, False): RecoveryAction.RE_EXECUTE,
    (IdempotencyClass.CONDITIONALLY_IDEMPOTENT, True): RecoveryAction.REPLAY_SAME_KEY,
    (IdempotencyClass.NON_IDEMPOTENT, False): RecoveryAction.RE_EXECUTE,
    (IdempotencyClass.NON_IDEMPOTENT, True): RecoveryAction.UNCERTAIN,
}


def effective_class(declared: IdempotencyClass, *, passes_key: bool) -> IdempotencyClass:
    """A conditionally idempotent tool without a configured way to pass the key counts as non idempotent."""
    if declared is IdempotencyClass.CONDITIONALLY_IDEMPOTENT and not passes_key:
        return IdempotencyClass.NON_IDEMPOTENT
    return declared


def recover(idempotency: IdempotencyClass, *, effect_sent: bool) -> RecoveryAction:
    return RECOVERY_TABLE[idempotency, effect_sent]


def unrecorded_ending_is_uncertain(classification: Classification, *, effect_sent: bool) -> bool:
    """Say whether an ending without a recorded result must be `uncertain`.

    True for a write whose watermark is set, whatever its class: an earlier attempt may have been felt.
    """
    if not effect_sent:
        return False
    return classification.side_effect.is_write or classification.idempotency is IdempotencyClass.NON_IDEMPOTENT
