"""THE pipeline: the fourteen steps of one tool call, in the specification's order and words, and nothing else.

Called from `toolsys.services` only, by the API and by queue jobs alike. The web process goes as far as a commit of
step 7 or 8 and hands off; a worker enters the same function again: pure steps are recomputed, commit points are
remembered, facts are read afresh and the stricter counts. Source: TS "The pipeline", DESIGN §3 and §4.
"""

from dataclasses import replace

from toolsys import attempts, steps
from toolsys.domain.calls import Claim, Disposition, Invocation, Progress, ProposedCall, Retry
from toolsys.domain.spec import SideEffectClass
from toolsys.ports import Case, NotAvailable, Runtime
from toolsys.problems import Refused
from toolsys.tenancy import is_transaction_open


def run(call: ProposedCall, runtime: Runtime) -> Disposition:
    """Bring one call as far as this process can.

    Transaction: must be outside; each commit is its own. Raises: Problem, before anything was written.
    """
    store = runtime.store
    case = Case(call, store.read_facts(call))
    if (standing := steps.standing_of(case, runtime)) is not None:
        return standing
    try:
        steps.admit(case)
        case.tool = steps.resolve_tool(case, runtime.registry)  # 1 resolve registered tool
        steps.check_enabled(case)  # 2 check enabled for agent
        steps.check_scopes(case)  # 3 check principal scopes
        case.arguments = steps.validate_arguments(case)  # 4 validate JSON arguments
        case.normalized = steps.normalize(case)  # 5 normalize arguments
        steps.check_repetition(case)
        case.decision = steps.evaluate_policy(case, runtime.policy)  # 6 evaluate policy
        case.terms = steps.request_approval(case, runtime.desk)  # 7 request approval if needed
    except Refused as refused:
        case.tool = case.tool or steps.recognize_tool(case, runtime.registry)
        refusal = steps.weigh_denial(case, refused)
        return store.commit_refusal(case, refusal.reason_code, refusal.detail)  # COMMIT
    if case.terms is not None:
        return store.commit_hold(case)  # 7 COMMIT
    row = store.commit_intent(case)  # 8 persist intent COMMIT
    if not isinstance(row, Invocation):
        return row
    if runtime.execution is None or (worker := runtime.execution.elsewhere(case.tool)):
        return Disposition(row.id, Progress.HANDED_OFF, worker=worker if runtime.execution else "")
    claim = store.commit_claim(case, row)  # 9 claim for execution COMMIT
    if not isinstance(claim, Claim):
        return claim
    case.claim = claim
    if attempts.is_unrepeatable(case):
        case.output = attempts.conclude_uncertain()
        return store.commit_result(case)  # COMMIT
    with runtime.execution.keeping(claim):
        context = steps.execution_context(case, runtime)
        try:
            runtime.execution.prepare(case.tool, context)  # 10 execute with timeout: acquire, send nothing
        except (NotAvailable, TimeoutError) as absence:
            if (retry := attempts.retry_after_absence(case, absence, runtime.limits)) is not None:
                return _given_back(case, retry, runtime)
            case.output = attempts.conclude_unavailable(case, absence)
            return store.commit_result(case)  # COMMIT
        if runtime.execution.is_draining:
            return _given_back(case, Retry(case.claim.attempt_number), runtime)
        if case.classification.side_effect is not SideEffectClass.NONE:
            fence = store.commit_watermark(claim)  # 10 effect watermark COMMIT
            if not (fence.held and runtime.execution.may_send(claim)):
                return _without_sending(case, fence.why, runtime)
        assert not is_transaction_open(), "no transaction may be open while a tool runs"
        case.result = runtime.execution.execute(case.tool, case.arguments, context)  # 10 the world is touched here
        if (retry := attempts.retry_after_failure(case, runtime.limits)) is not None:
            return _given_back(case, retry, runtime)
        case.result = steps.validate_result(case)  # 11 validate result
        case.output = steps.bound_output(case, runtime)  # 12 excerpt or artifactize
        settled = store.commit_result(case)  # 13 persist result COMMIT
    return steps.render_outcome(case, settled)  # 14 render outcome


def _given_back(case: Case, retry: Retry, runtime: Runtime) -> Disposition:
    """Another attempt is permitted, later or in another worker: the claim goes back with what it waits for.

    What waits for nothing is rung for by whoever entered; the rest a sweep finds when it is due.
    """
    assert case.claim is not None
    is_due = runtime.store.commit_release(case.claim, retry) and not retry.wait_seconds
    return Disposition(case.claim.invocation_id, Progress.RELEASED if is_due else Progress.IN_FLIGHT)


def _without_sending(case: Case, why: str, runtime: Runtime) -> Disposition:
    """The fence did not hold: nothing left in this attempt. End it, give it back, or leave it to its new owner."""
    assert case.claim is not None
    if why == "cancelled":
        case.output = attempts.conclude_cancelled(case)
        return runtime.store.commit_result(case)
    if why in {"authz_epoch", "switch"} and runtime.store.commit_release(case.claim, Retry(case.claim.attempt_number)):
        return run(
            replace(case.call, prefetched=None), runtime
        )  # re-enter at step 6 with fresh facts; claims are bounded
    return Disposition(case.claim.invocation_id, Progress.IN_FLIGHT)
