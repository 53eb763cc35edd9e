"""Sessions and runs: what an agent was shown, and the tasks inside."""

from uuid import UUID

from django.http import HttpResponse
from rest_framework.request import Request

from toolsys import selectors, services
from toolsys.api import describe, render
from toolsys.api.base import ApiView, answer
from toolsys.api.schemas import RunRequest, SessionRequest
from toolsys.problems import FieldError, Problem


def _format(request: Request) -> str:
    wanted = request.GET.get("format", "native")
    if wanted not in render.FORMATS:
        raise Problem("request.invalid", [FieldError("?format", f"one of {', '.join(render.FORMATS)}")])
    return wanted


class Sessions(ApiView):
    @describe.operation("Open a session", request=SessionRequest, answers={201: "Session"}, query=describe.FORMAT)
    def post(self, request: Request) -> HttpResponse:
        """Pin the tools that this agent may be shown now, and return them with the hash of the set."""
        wanted, body = _format(request), self.body(SessionRequest)
        opened = services.open_session(
            tenant_id=self.caller.tenant_id, api_key_id=self.caller.api_key_id, agent_name=body.agent,
            principal_id=body.principal, environment=body.environment, profile=body.profile,
            runtime=self.house.runtime, registry=self.house.registry,
        )  # fmt: skip
        return answer(render.session(opened, wanted), 201, {"Location": f"/v1/sessions/{opened.id}"})


class Session(ApiView):
    @describe.operation("Read a session", answers={200: "Session"}, query=describe.FORMAT)
    def get(self, request: Request, session_id: UUID) -> HttpResponse:
        wanted, found = _format(request), selectors.session(self.caller.tenant_id, session_id)
        if found is None:
            raise Problem("request.not_found")
        return answer(render.session(found, wanted))


class SessionRuns(ApiView):
    @describe.operation("Start a run", request=RunRequest, answers={201: "Run"})
    def post(self, request: Request, session_id: UUID) -> HttpResponse:
        """Begin one task inside a session, with an optional manifest of tools and a deadline."""
        body = self.body(RunRequest)
        started = services.start_run(
            tenant_id=self.caller.tenant_id, session_id=session_id, manifest=body.manifest,
            deadline_seconds=body.deadline_seconds, correlation_id=body.correlation_id,
            call_budget=body.budgets.calls,
        )  # fmt: skip
        return answer(render.run(started), 201, {"Location": f"/v1/runs/{started.id}"})


class Run(ApiView):
    @describe.operation("Read a run", answers={200: "Run"})
    def get(self, request: Request, run_id: UUID) -> HttpResponse:
        found = selectors.run(self.caller.tenant_id, run_id)
        if found is None:
            raise Problem("request.not_found")
        return answer(render.run(found, selectors.pending_approvals(self.caller.tenant_id, run_id)))


class EndRun(ApiView):
    """`/end` completes a run; `/cancel` also ends every call of it that is not terminal."""

    cancels = False

    @describe.operation("End or cancel a run", answers={200: "Run"})
    def post(self, request: Request, run_id: UUID) -> HttpResponse:
        self.no_body()
        ended = services.end_run(
            tenant_id=self.caller.tenant_id, run_id=run_id, cancel=self.cancels, runtime=self.house.runtime
        )
        return answer(render.run(ended, selectors.pending_approvals(self.caller.tenant_id, run_id)))
