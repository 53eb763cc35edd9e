"""Which steps run in parallel: the admission check over a whole step, before any of its calls executes.

All calls are read-only and allow it, and fit the run's remaining calls and time; else the whole step runs in order.
There is no partial parallelism: whether a read depends on a write cannot be checked. Source: TS "The admission check".
"""

from collections.abc import Sequence
from uuid import UUID

from toolsys.domain.calls import Facts, ProposedCall
from toolsys.domain.spec import IdempotencyClass, ToolSpec
from toolsys.ports import NotAvailable, Runtime


def parallel_group(calls: Sequence[ProposedCall], runtime: Runtime) -> UUID | None:
    """Return the id that the calls of an admitted step share, or None where they run one after another.

    Transaction: must be outside. Raises: Problem (request.not_found).
    """
    if len(calls) < 2:
        return None
    facts = runtime.store.read_facts(calls[0])
    if facts.step is not None:
        return facts.step.parallel_group
    if facts.run.calls_left is not None and facts.run.calls_left < len(calls):
        return None
    specs = [_spec(call, facts, runtime) for call in calls]
    return runtime.ids.uuid() if all(spec is not None and _may_join(spec, facts) for spec in specs) else None


def _spec(call: ProposedCall, facts: Facts, runtime: Runtime) -> ToolSpec | None:
    try:
        tool = runtime.registry.resolve(call.name, facts)
    except NotAvailable:
        return None
    return tool.spec if tool is not None else None


def _may_join(spec: ToolSpec, facts: Facts) -> bool:
    left = (facts.run.deadline_at - facts.now).total_seconds()
    return (
        spec.allow_parallel
        and not spec.side_effect.is_write
        and spec.idempotency is IdempotencyClass.READ_ONLY
        and spec.timeout_seconds <= left
    )
