"""What would happen if: steps 1 to 7 of each call of a step, without a commit and without a row.

Calls the pipeline's own steps in the pipeline's order (a test compares the two) and stops before step 8. Each call is
judged as the first of its run to come now: what the calls before it would deliver is not known. Source: DESIGN §5.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from toolsys import steps
from toolsys.domain.calls import ProposedCall
from toolsys.domain.states import OutcomeStatus, PolicyVerdict
from toolsys.ports import Case, Runtime
from toolsys.problems import Refused


@dataclass(frozen=True, slots=True)
class Foreseen:
    """What would become of one call. `verdict` is None where it would be refused before step 6.

    `reason_code` is the refusal's, or the row's that decided; `seats` are those that would be asked.
    """

    call_id: str
    name: str
    outcome_status: OutcomeStatus | None
    verdict: PolicyVerdict | None
    reason_code: str
    rule: str | None
    seats: tuple[str, ...]

    @property
    def is_refused(self) -> bool:
        return self.outcome_status is not None

    @property
    def is_held(self) -> bool:
        return bool(self.seats)


def foresee(calls: Sequence[ProposedCall], runtime: Runtime) -> list[Foreseen]:
    """Transaction: must be outside; reads only. Raises: Problem (request.not_found, run.not_open, run.expired)."""
    return [_foreseen(call, runtime) for call in calls]


def _foreseen(call: ProposedCall, runtime: Runtime) -> Foreseen:
    facts = runtime.store.read_facts(call)
    case = Case(call, replace(facts, step=None, invocation=None, approval=None))
    try:
        steps.admit(case)
        case.tool = steps.resolve_tool(case, runtime.registry)
        steps.check_enabled(case)
        steps.check_scopes(case)
        case.arguments = steps.validate_arguments(case)
        case.normalized = steps.normalize(case)
        steps.check_repetition(case)
        case.decision = steps.evaluate_policy(case, runtime.policy)
        case.terms = steps.request_approval(case, runtime.desk)
    except Refused as refused:
        return _described(case, steps.weigh_denial(case, refused))
    return _described(case, None)


def _described(case: Case, refusal: Refused | None) -> Foreseen:
    decision = case.decision
    assert decision is not None or refusal is not None
    code = refusal.reason_code if refusal is not None else decision.reason_code if decision is not None else ""
    return Foreseen(
        call_id=case.call.call_id,
        name=steps.recorded_name(case),
        outcome_status=steps.outcome_status(code) if refusal is not None else None,
        verdict=decision.verdict if decision is not None else None,
        reason_code=code,
        rule=decision.rule if decision is not None else None,
        seats=case.terms.seats if case.terms is not None else (),
    )
