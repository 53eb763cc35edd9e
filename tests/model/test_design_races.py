"""The interleavings that the design names a rule for, one test each. Source: DESIGN §3 to §5.

Each is a script of moves over the real pipeline; `make sabotage` takes the rules out one by one and sees these fail.
"""

import pytest

from tests.model.enumerated import READY, points, scenario
from tests.model.search import Played, Scenario, given, play
from tests.spec.requirements import gate

SUCCEEDED, UNCERTAIN = "succeeded:tool.succeeded", "uncertain:tool.outcome_unknown"


def until(point: str, tool: str = "once", worker: str = "w0") -> list[str]:
    """Run a worker from the beginning of the call to where it pauses at this point."""
    return [worker] * (points(tool).index(point) + 1)


def ended(tool: str, *moves: str, scene: Scenario | None = None) -> tuple[list[str], int]:
    """Play the moves and the calm after them; return how the calls ended, and the effects."""
    played: Played = play(given(scene or scenario(tool), (*READY, *moves)))
    assert played.failure == ""
    return played.outcomes, played.effects


@pytest.mark.parametrize("point", ["after_facts", "before_claim", "after_claim", "preparing", "before_watermark"])
@gate("model.races")
def test_a_change_after_the_epoch_was_read_is_judged_afresh(point: str) -> None:
    """The epoch is read with the facts and compared at the watermark: stale facts let nothing out."""
    assert ended("once", *until(point), "tenant", "w0*") == (["denied:policy.switch.off"], 0)


@pytest.mark.parametrize("point", ["after_facts", "after_claim", "before_watermark"])
@gate("model.races")
def test_a_platform_switch_between_snapshot_and_watermark_stops_the_call(point: str) -> None:
    assert ended("once", *until(point), "platform", "w0*") == (["denied:policy.switch.off"], 0)


@gate("model.races")
def test_a_change_that_denies_nothing_lets_the_call_go_on_once() -> None:
    assert ended("once", *until("before_watermark"), "bump", "w0*") == ([SUCCEEDED], 1)


@gate("model.races")
def test_changes_without_end_spend_the_claims_and_send_nothing() -> None:
    """Each re-entry is a claim, and claims are bounded."""
    again = ["w0"] * len(until("before_watermark"))
    moves = [*until("before_watermark"), *(["bump", *again, "w0", "w0", "w0"] * 5), "w0*"]
    assert ended("once", *moves) == (["failed:tool.claims_spent"], 0)


@pytest.mark.parametrize("point", ["after_claim", "preparing", "before_watermark"])
@gate("model.races")
def test_a_process_frozen_before_the_watermark_never_sends(point: str) -> None:
    moves = [*until(point), "lease", "ring", "w1*", "w0*"]
    assert ended("once", *moves) == ([SUCCEEDED], 1)


@gate("model.races")
def test_a_process_frozen_after_the_watermark_does_not_send_late() -> None:
    """Boottime passed its lease while it was frozen; another has already said that the outcome is unknown."""
    assert ended("once", *until("after_watermark"), "lease", "ring", "w1*", "w0*") == ([UNCERTAIN], 0)
    assert ended("once", *until("after_watermark"), "lease", "w0*") == ([UNCERTAIN], 0)


@gate("model.races")
def test_a_thaw_after_the_resolution_changes_nothing() -> None:
    """It had sent; its result comes when the row is already uncertain, and is refused."""
    assert ended("once", *until("sent"), "lease", "ring", "w1*", "w0*") == ([UNCERTAIN], 1)


@gate("model.races")
def test_a_late_result_does_not_end_a_row_that_runs_again() -> None:
    """A repeatable call is running under its second claim when the first one's result arrives."""
    moves = [*until("sent", "put"), "lease", "ring", *until("sent", "put", "w1"), "w0*", "w1*"]
    assert ended("put", *moves) == ([SUCCEEDED], 2)


@gate("model.races")
def test_a_step_goes_on_where_a_worker_died_between_two_calls() -> None:
    """Settled k and no k+1: no row tells that there is more to do, only the step does."""
    scene = Scenario("once", call_count=2, families=scenario("once").families)
    moves = [*until("after_result"), "crash:w0"]
    assert ended("once", *moves, scene=scene) == ([SUCCEEDED, SUCCEEDED], 2)


@pytest.mark.parametrize("point", ["sent", "before_result"])
@gate("model.races", "recovery.older_epoch")
def test_a_watermark_that_a_restore_erased_counts_as_set(point: str) -> None:
    assert ended("once", *until(point), "restore") == ([UNCERTAIN], 1)


@gate("model.races", "recovery.older_epoch")
def test_who_claims_a_row_of_an_older_epoch_and_dies_does_not_make_it_young() -> None:
    moves = [*until("sent"), "restore", "sweep", *until("after_claim", worker="w1"), "crash:w1"]
    assert ended("once", *moves) == ([UNCERTAIN], 1)


@pytest.mark.parametrize("change", ["tenant", "cancel_run", "cancel_call", "withdraw"])
@pytest.mark.parametrize("tool", ["put", "keyed", "once", "held"])
@gate("model.races")
def test_no_ending_without_a_result_forgets_the_watermark_of_an_earlier_attempt(tool: str, change: str) -> None:
    """Denied, cancelled or withdrawn afterwards: whatever its class, an earlier attempt may have been felt."""
    assert ended(tool, *until("sent", tool), "crash:w0", change) == ([UNCERTAIN], 1)


@gate("model.races")
def test_a_failed_preparation_of_a_later_attempt_is_uncertain() -> None:
    """Nothing was sent now, and the attempt before may have been felt."""
    scene = Scenario("put", families=scenario("put").families, answers=("ready", "barred"))
    assert ended("put", *until("sent", "put"), "crash:w0", scene=scene) == ([UNCERTAIN], 1)


@gate("model.races")
def test_a_preparation_longer_than_its_lease_sends_nothing() -> None:
    """Had it sent, it would have died in doubt; it had ended before."""
    late = ["w0"] * len(until("sent"))
    assert ended("once", *until("preparing"), "lease", *late, "crash:w0") == ([SUCCEEDED], 1)
    taken_over = ["ring", *until("before_watermark", worker="w1")]
    assert ended("once", *until("preparing"), "lease", *taken_over, *late, "crash:w0") == ([SUCCEEDED], 1)


@gate("model.races")
def test_a_slow_preparation_keeps_its_lease_while_the_process_lives() -> None:
    """Another finds the lease live; had it taken the call over, it would have died in doubt."""
    other = ["ring", *until("sent", worker="w1"), "crash:w1"]
    assert ended("once", *until("preparing"), *["tick", "beat:w0"] * 6, *other, "w0*") == ([SUCCEEDED], 1)
    assert ended("once", *until("preparing"), *["tick"] * 6, *other, "w0*") == ([UNCERTAIN], 1)


@gate("model.races")
def test_a_lease_is_not_renewed_past_the_operation_s_deadline() -> None:
    """A preparation that never ends is taken over, however well its process is: the other one dies in doubt."""
    other = ["ring", *until("sent", worker="w1"), "crash:w1"]
    assert ended("once", *until("preparing"), *["tick", "beat:w0"] * 14, *other, "w0*") == ([UNCERTAIN], 1)


@pytest.mark.parametrize("point", ["after_facts", "after_intent", "after_claim", "before_watermark"])
@gate("model.races")
def test_a_cancellation_before_the_watermark_stops_the_call(point: str) -> None:
    outcomes, effects = ended("held", *until(point, "held"), "cancel_run", "w0*")
    assert (outcomes[0] in {"failed:tool.cancelled", "failed:tool.run_cancelled"}, effects) == (True, 0)


@gate("model.races")
def test_two_workers_at_one_approval_consume_it_once() -> None:
    moves = ["ring", *until("before_intent", "held"), *until("before_intent", "held", "w1"), "w0*", "w1*"]
    assert ended("held", *moves) == ([SUCCEEDED], 1)


@gate("model.races")
def test_a_consumed_approval_is_not_asked_for_again() -> None:
    assert ended("held", *until("after_intent", "held"), "crash:w0") == ([SUCCEEDED], 1)


@gate("model.races")
def test_an_approval_that_is_used_too_late_sends_nothing() -> None:
    """Approved, then nobody took it: the time to use it passed."""
    assert ended("held", "lose", "age", "lease", "lease") == (["denied:policy.approval.expired"], 0)


@gate("model.races")
def test_a_class_made_stricter_after_the_send_is_the_one_that_counts() -> None:
    assert ended("keyed", *until("sent", "keyed"), "crash:w0", "tighten") == ([UNCERTAIN], 1)


@pytest.mark.parametrize("tool", ["once", "held"])
@gate("model.races")
def test_a_class_made_looser_after_the_intent_does_not_take_its_watermark_away(tool: str) -> None:
    """What the row says counts for the fence as for recovery: a crash after the effect is told from one before."""
    assert ended(tool, "loosen", *until("sent", tool), "crash:w0") == ([UNCERTAIN], 1)
    assert ended(tool, "loosen", *until("before_watermark", tool), "crash:w0") == ([SUCCEEDED], 1)


@gate("model.races")
def test_absence_for_now_is_tried_again_and_a_bounded_number_of_times() -> None:
    families = scenario("put").families
    mended = Scenario("put", families=families, answers=("absent", "absent"))
    lasting = Scenario("put", families=families, answers=("absent",) * 8)
    sent = Scenario("put", families=families, answers=("ready", *("absent",) * 8))
    assert ended("put", scene=mended) == ([SUCCEEDED], 1)
    assert ended("put", scene=lasting) == (["failed:tool.server_unreachable"], 0)
    assert ended("put", *until("sent", "put"), "crash:w0", scene=sent) == ([UNCERTAIN], 1)


@pytest.mark.parametrize(("tool", "effects"), [("put", 3), ("keyed", 3), ("fetch", 3), ("keyless", 1), ("once", 1)])
@gate("model.races")
def test_a_known_failure_is_tried_again_only_where_a_repeat_is_permitted(tool: str, effects: int) -> None:
    scene = Scenario(tool, families=scenario(tool).families, answers=("busy",) * 8)
    assert ended(tool, scene=scene) == (["failed:tool.rate_limited"], effects)


@gate("model.races")
def test_a_draining_worker_gives_back_what_it_has_not_sent() -> None:
    """What it has sent it brings to its end."""
    assert ended("once", *until("after_claim"), "drain:w0", "w0*") == ([SUCCEEDED], 1)
    assert ended("once", *until("sent"), "drain:w0", "w0*") == ([SUCCEEDED], 1)


@pytest.mark.parametrize("tool", ["put", "keyed", "once"])
@gate("model.races")
def test_a_write_that_could_not_be_recorded_ends_uncertain_whatever_its_class(tool: str) -> None:
    """Its run has failed; the call is never executed again."""
    assert ended(tool, *until("sent", tool), "unstored", "w0*") == ([UNCERTAIN], 1)


@pytest.mark.parametrize("answer", ["unknown", "late"])
@pytest.mark.parametrize("tool", ["keyless", "once", "held"])
@gate("model.races")
def test_an_answer_that_leaves_the_outcome_unknown_is_never_retried(tool: str, answer: str) -> None:
    scene = Scenario(tool, families=scenario(tool).families, answers=("ready", answer))
    assert ended(tool, "w0*", "ring", "w1*", scene=scene) == ([UNCERTAIN], 1)


@gate("model.races")
def test_a_lost_bell_loses_no_call() -> None:
    assert ended("once", "lose") == ([SUCCEEDED], 1)


@gate("gate.8", "model.races")
def test_two_submissions_of_one_step_execute_once() -> None:
    for cut in range(1, 6):
        played = play(given(scenario("once"), ["web0"] * 1 + ["web1"] * cut + ["web0*", "web1*", "w0*", "w1*"]))
        assert (played.failure, played.outcomes, played.effects) == ("", [SUCCEEDED], 1)
