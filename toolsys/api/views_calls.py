"""Steps and invocations: one model turn goes in, an outcome per call comes out, now or when it is there."""

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from django.http import HttpResponse
from rest_framework.request import Request

from toolsys import selectors, services, wakeups
from toolsys.api import describe, parsing, render, schemas, waiting
from toolsys.api.base import ApiView, answer
from toolsys.api.schemas import StepRequest
from toolsys.domain.calls import Disposition
from toolsys.domain.spec import JsonObject
from toolsys.problems import FieldError, Problem
from toolsys.selectors import CallView
from toolsys.services import CallDraft, StepSubmission

PAGE_LIMIT = 100


class Steps(ApiView):
    @describe.operation(
        "Propose a step", request=StepRequest, answers={200: "Step", 202: "Step"}, headers=describe.PREFER
    )
    def post(self, request: Request, run_id: UUID) -> HttpResponse:
        """Submit one model turn. 200 with every outcome, or 202 with where to ask again.

        The same step with the same body is a replay and runs nothing again; with another body it is a conflict.
        """
        parsed = parsing.parse(request._request)
        body = schemas.read(StepRequest, parsed.value)
        seconds = waiting.preferred_seconds(request._request)
        with wakeups.HUB.waiting(wakeups.step_key(run_id, body.step_number)) as waiter:
            dispositions = services.propose_step(self._submission(run_id, body, parsed), self.house.runtime)
            calls = waiting.wait(waiter, lambda: self._read(run_id, body.step_number), _is_at_rest(body.calls), seconds)
        return _step_answer(run_id, body.step_number, [call.call_id for call in body.calls], calls, dispositions)

    def _submission(self, run_id: UUID, body: StepRequest, parsed: parsing.ParsedBody) -> StepSubmission:
        return StepSubmission(
            tenant_id=self.caller.tenant_id, api_key_id=self.caller.api_key_id, run_id=run_id,
            step_number=body.step_number, context_trust=body.context_trust, correlation_id=body.correlation_id,
            body_hash=parsed.body_hash, calls=tuple(
                CallDraft(call.call_id, call.name, call.arguments, parsed.raw_hashes.get(index), call.argument_trust)
                for index, call in enumerate(body.calls)
            ),
        )  # fmt: skip

    def _read(self, run_id: UUID, step_number: int) -> list[CallView]:
        return selectors.step_calls(self.caller.tenant_id, run_id, step_number, self.house.runtime.sealer)


class Step(ApiView):
    @describe.operation("Read a step", answers={200: "Step", 202: "Step"}, headers=describe.PREFER)
    def get(self, request: Request, run_id: UUID, step_number: int) -> HttpResponse:
        tenant_id, sealer = self.caller.tenant_id, self.house.runtime.sealer
        names = services.step_call_ids(tenant_id, run_id, step_number, sealer)

        def read() -> list[CallView]:
            return selectors.step_calls(tenant_id, run_id, step_number, sealer)

        with wakeups.HUB.waiting(wakeups.step_key(run_id, step_number)) as waiter:
            calls = waiting.wait(waiter, read, _is_at_rest(names), waiting.preferred_seconds(request._request))
        return _step_answer(run_id, step_number, names, calls, [])


class Invocation(ApiView):
    @describe.operation("Read an invocation", answers={200: "Call", 202: "Call"}, headers=describe.PREFER)
    def get(self, request: Request, invocation_id: UUID) -> HttpResponse:
        """Wait for the outcome of one call, at most as long as `Prefer: wait` says."""
        tenant_id, sealer = self.caller.tenant_id, self.house.runtime.sealer
        found = selectors.call(tenant_id, invocation_id, sealer)
        if found is None:
            raise Problem("request.not_found")

        def read() -> CallView:
            return selectors.call(tenant_id, invocation_id, sealer) or found

        with wakeups.HUB.waiting(wakeups.step_key(found.run_id, found.step_number)) as waiter:
            call = waiting.wait(waiter, read, _has_ended, waiting.preferred_seconds(request._request))
        return answer(render.call(call), 200 if _has_ended(call) else 202)


class RunInvocations(ApiView):
    @describe.operation("List the invocations of a run", answers={200: "CallPage"}, query=describe.PAGE)
    def get(self, request: Request, run_id: UUID) -> HttpResponse:
        page = selectors.run_calls(
            self.caller.tenant_id, run_id, after=_cursor(request), limit=_limit(request),
            sealer=self.house.runtime.sealer,
        )  # fmt: skip
        if page is None:
            raise Problem("request.not_found")
        more = page.next_cursor is not None
        data = [render.call(call) for call in page.calls]
        return answer({"data": data, "has_more": more, "next_cursor": page.next_cursor})


def _is_at_rest(expected: Sequence[Any]) -> Any:
    """Done is: every call is terminal, or the step stands at one that waits for people."""

    def test(calls: list[CallView]) -> bool:
        if any(call.is_waiting_for_people for call in calls):
            return all(_has_ended(call) or call.is_waiting_for_people for call in calls)
        return len(calls) == len(expected) and all(_has_ended(call) for call in calls)

    return test


def _has_ended(call: CallView) -> bool:
    return call.status.is_terminal


def _step_answer(
    run_id: UUID, number: int, names: Sequence[str], calls: list[CallView], dispositions: Sequence[Disposition]
) -> HttpResponse:
    replays = frozenset(each.invocation_id for each in dispositions if each.is_replay)
    body: JsonObject = render.step(run_id, number, names, calls, replays)
    headers = {"Idempotent-Replayed": "true"} if replays and len(replays) == len(names) else {}
    if body["status"] == "completed":
        return answer(body, 200, headers)
    return answer(body, 202, {**headers, "Location": f"/v1/runs/{run_id}/steps/{number}"})


def _cursor(request: Request) -> UUID | None:
    sent = request.GET.get("cursor")
    try:
        return UUID(sent) if sent else None
    except ValueError:
        raise Problem("request.invalid", [FieldError("?cursor", "not a cursor of this list")]) from None


def _limit(request: Request) -> int:
    sent = request.GET.get("limit", "50")
    if not sent.isdecimal() or not 1 <= int(sent) <= PAGE_LIMIT:
        raise Problem("request.invalid", [FieldError("?limit", f"a number from 1 to {PAGE_LIMIT}")])
    return int(sent)
