"""Steps and invocations: one model turn goes in, an outcome per call comes out, now or when it is there."""

from collections.abc import Callable, Sequence
from uuid import UUID

from django.http import HttpResponse
from rest_framework.request import Request

from toolsys import explanations, selectors, services, wakeups
from toolsys.api import describe, paging, parsing, render, schemas, waiting
from toolsys.api.base import ApiView, answer
from toolsys.api.schemas import StepRequest
from toolsys.domain.calls import Disposition, Progress
from toolsys.domain.spec import JsonObject
from toolsys.problems import FieldError, Problem
from toolsys.selectors import CallView
from toolsys.services import CallDraft, StepSubmission
from toolsys.tenancy import tenant_transaction


class Steps(ApiView):
    @describe.operation(
        "Propose a step", request=StepRequest, answers={200: "StepOrDryRun", 202: "Step"}, headers=describe.PREFER,
        query=describe.DRY_RUN,
    )  # fmt: skip
    def post(self, request: Request, run_id: UUID) -> HttpResponse:
        """Submit one model turn. 200 with every outcome, or 202 with where to ask again.

        The same step with the same body is a replay and runs nothing again; with another body it is a conflict. With
        `dry_run=true` nothing is written: 200 with a DryRun, which says what would become of each call.
        """
        sent = parsing.parse_step(request._request)
        body = schemas.read(StepRequest, sent.value)
        if _is_dry(request):
            foreseen = services.foresee_step(self._submission(run_id, body, sent), self.house.runtime)
            return answer(render.dry_run(run_id, body.step_number, foreseen))
        names = [call.call_id for call in body.calls]
        wanted = waiting.preference(request._request, waiting.DEFAULT_SECONDS)
        with wakeups.HUB.waiting(wakeups.step_key(run_id, body.step_number)) as waiter:
            dispositions = services.propose_step(self._submission(run_id, body, sent), self.house.runtime)
            calls, kept = waiting.wait(
                waiter, lambda: self._read(run_id, body.step_number), _is_at_rest(names), wanted,
                looks_first=not _is_begun(dispositions),
            )  # fmt: skip
        replays = frozenset(each.invocation_id for each in dispositions if each.is_replay)
        return _step_answer(run_id, body.step_number, names, calls, _headers(kept), replays)

    def _submission(self, run_id: UUID, body: StepRequest, sent: parsing.StepDocument) -> StepSubmission:
        return StepSubmission(
            tenant_id=self.caller.tenant_id, api_key_id=self.caller.api_key_id, run_id=run_id,
            step_number=body.step_number, context_trust=body.context_trust, correlation_id=body.correlation_id,
            body_hash=sent.body_hash, calls=tuple(
                CallDraft(call.call_id, call.name, call.arguments, sent.raw_hashes.get(index), call.argument_trust)
                for index, call in enumerate(body.calls)
            ),
        )  # fmt: skip

    def _read(self, run_id: UUID, step_number: int) -> list[CallView]:
        return selectors.step_calls(self.caller.tenant_id, run_id, step_number, self.house.runtime.sealer)


class Step(ApiView):
    @describe.operation("Read a step", answers={200: "Step", 202: "Step"}, headers=describe.PREFER)
    def get(self, request: Request, run_id: UUID, step_number: int) -> HttpResponse:
        """Answer at once, or wait as long as `Prefer: wait` says; also for people."""
        tenant_id, sealer = self.caller.tenant_id, self.house.runtime.sealer
        names = services.step_call_ids(tenant_id, run_id, step_number, sealer)

        def read() -> list[CallView]:
            return selectors.step_calls(tenant_id, run_id, step_number, sealer)

        wanted = waiting.preference(request._request)
        with wakeups.HUB.waiting(wakeups.step_key(run_id, step_number)) as waiter:
            calls, kept = waiting.wait(waiter, read, _has_ended_all(names), wanted)
        return _step_answer(run_id, step_number, names, calls, _headers(kept))


class Invocation(ApiView):
    @describe.operation("Read an invocation", answers={200: "Call", 202: "Call"}, headers=describe.PREFER)
    def get(self, request: Request, invocation_id: UUID) -> HttpResponse:
        """Answer at once, or wait for the outcome as long as `Prefer: wait` says; also for people."""
        tenant_id, sealer = self.caller.tenant_id, self.house.runtime.sealer
        found = selectors.call(tenant_id, invocation_id, sealer)
        if found is None:
            raise Problem("request.not_found")

        def read() -> CallView:
            return selectors.call(tenant_id, invocation_id, sealer) or found

        with wakeups.HUB.waiting(wakeups.step_key(found.run_id, found.step_number)) as waiter:
            call, kept = waiting.wait(waiter, read, _has_ended, waiting.preference(request._request))
        if _has_ended(call):
            return answer(render.call(call), 200, _headers(kept))
        return answer(render.call(call), 202, _headers(kept) | {"Location": f"/v1/invocations/{invocation_id}"})


class ExplainInvocation(ApiView):
    @describe.operation("Explain an invocation", answers={200: "Explanation"})
    def get(self, request: Request, invocation_id: UUID) -> HttpResponse:
        """Say of each of the fourteen steps what it saw and what it decided. It names no person."""
        with tenant_transaction(self.caller.tenant_id):
            found = explanations.explain(invocation_id, for_people=False)
        if found is None:
            raise Problem("request.not_found")
        return answer(render.explanation(found))


class CancelInvocation(ApiView):
    @describe.operation("Cancel an invocation", answers={200: "Call", 202: "Call"})
    def post(self, request: Request, invocation_id: UUID) -> HttpResponse:
        """Ask for one call to end. 202 until it has: what was sent already may still succeed or be uncertain."""
        self.no_body()
        services.cancel_call(tenant_id=self.caller.tenant_id, invocation_id=invocation_id)
        found = selectors.call(self.caller.tenant_id, invocation_id, self.house.runtime.sealer)
        if found is None:
            raise Problem("request.not_found")
        headers = {} if _has_ended(found) else {"Location": f"/v1/invocations/{invocation_id}"}
        return answer(render.call(found), 200 if _has_ended(found) else 202, headers)


class RunInvocations(ApiView):
    @describe.operation("List the invocations of a run", answers={200: "CallPage"}, query=describe.PAGE)
    def get(self, request: Request, run_id: UUID) -> HttpResponse:
        page = selectors.run_calls(
            self.caller.tenant_id, run_id, after=paging.cursor(request), limit=paging.limit(request),
            sealer=self.house.runtime.sealer,
        )  # fmt: skip
        if page is None:
            raise Problem("request.not_found")
        more = page.next_cursor is not None
        data = [render.call(call) for call in page.calls]
        return answer({"data": data, "has_more": more, "next_cursor": page.next_cursor})


def _is_begun(dispositions: Sequence[Disposition]) -> bool:
    """The step was handed to a worker a moment ago: there is nothing to read yet."""
    return dispositions[-1].state is Progress.HANDED_OFF and not dispositions[-1].is_replay


def _is_at_rest(names: Sequence[str]) -> Callable[[list[CallView]], bool]:
    """Done is: every call is terminal, or the step stands at one that waits for people."""
    ended = _has_ended_all(names)

    def test(calls: list[CallView]) -> bool:
        is_held = any(call.is_waiting_for_people for call in calls)
        return ended(calls) or (is_held and all(_has_ended(call) or call.is_waiting_for_people for call in calls))

    return test


def _has_ended_all(names: Sequence[str]) -> Callable[[list[CallView]], bool]:
    """A call that has not begun has no row."""
    return lambda calls: len(calls) == len(names) and all(map(_has_ended, calls))


def _has_ended(call: CallView) -> bool:
    return call.status.is_terminal


def _headers(kept: waiting.Preference) -> dict[str, str]:
    return {"Preference-Applied": kept.applied} if kept.applied else {}


def _step_answer(
    run_id: UUID, number: int, names: Sequence[str], calls: list[CallView], headers: dict[str, str],
    replays: frozenset[UUID] = frozenset(),
) -> HttpResponse:  # fmt: skip
    headers |= {"Idempotent-Replayed": "true"} if len(replays) == len(names) else {}
    body: JsonObject = render.step(run_id, number, names, calls, replays)
    if body["status"] == "completed":
        return answer(body, 200, headers)
    return answer(body, 202, headers | {"Location": f"/v1/runs/{run_id}/steps/{number}"})


def _is_dry(request: Request) -> bool:
    sent = request.GET.get("dry_run", "false")
    if sent not in {"true", "false"}:
        raise Problem("request.invalid", [FieldError("?dry_run", "true or false")])
    return sent == "true"
