"""What a later worker may do: the whole table, compared as one object."""

from tests.spec.requirements import gate
from toolsys.domain import recovery
from toolsys.domain.recovery import RecoveryAction
from toolsys.domain.spec import Classification, IdempotencyClass, SideEffectClass

READ, IDEMPOTENT, CONDITIONAL, NOT = IdempotencyClass
AGAIN, SAME_KEY, UNCERTAIN = RecoveryAction


@gate("recovery.table")
def test_the_table_is_that_of_the_specification() -> None:
    table = {
        (kind, sent): recovery.recover(kind, effect_sent=sent) for kind in IdempotencyClass for sent in (False, True)
    }
    assert table == {
        (READ, False): AGAIN, (READ, True): AGAIN,
        (IDEMPOTENT, False): AGAIN, (IDEMPOTENT, True): AGAIN,
        (CONDITIONAL, False): AGAIN, (CONDITIONAL, True): SAME_KEY,
        (NOT, False): AGAIN, (NOT, True): UNCERTAIN,
    }  # fmt: skip


@gate("recovery.key_place")
def test_without_a_way_to_pass_the_key_conditional_counts_as_non_idempotent() -> None:
    effective = {
        (kind, passes): recovery.effective_class(kind, passes_key=passes)
        for kind in IdempotencyClass
        for passes in (False, True)
    }
    assert effective == {
        (READ, False): READ, (READ, True): READ,
        (IDEMPOTENT, False): IDEMPOTENT, (IDEMPOTENT, True): IDEMPOTENT,
        (CONDITIONAL, False): NOT, (CONDITIONAL, True): CONDITIONAL,
        (NOT, False): NOT, (NOT, True): NOT,
    }  # fmt: skip


@gate("recovery.unrecorded")
def test_what_was_sent_and_not_recorded_is_uncertain_for_every_write_and_every_unrepeatable_call() -> None:
    uncertain = {
        (effect, kind, sent)
        for effect in SideEffectClass
        for kind in IdempotencyClass
        for sent in (False, True)
        if recovery.unrecorded_ending_is_uncertain(
            Classification(side_effect=effect, idempotency=kind), effect_sent=sent
        )
    }
    writes = {SideEffectClass.WORKSPACE_WRITE, SideEffectClass.EXTERNAL_WRITE}
    assert uncertain == {
        (effect, kind, True)
        for effect in SideEffectClass
        for kind in IdempotencyClass
        if effect in writes or kind is NOT
    }
