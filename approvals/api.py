"""Approvals, standing grants and requests for access over the API. Keys read and ask; people decide, in a session.

Whoever only has an agent's key decides nothing: every decision takes a person. Paths are wired by `config.urls`.
"""

from typing import Any
from uuid import UUID

from django.http import HttpResponse
from django.urls import path
from rest_framework.request import Request

from approvals import access, api_render, api_selectors, grants, reauthentication, services
from toolsys.api import describe
from toolsys.api.base import ApiView, answer
from toolsys.api.people import KeyOrPerson, Person
from toolsys.api.schemas import AccessAnswer, AccessQuestion, ConfirmationRequest, DecisionRequest, GrantRequest
from toolsys.composition import composed
from toolsys.domain.states import ApprovalStatus
from toolsys.problems import FieldError, Problem


class SharedView(ApiView):
    """Open to keys and to people; what only people may do asks for the person."""

    authentication_classes = [KeyOrPerson]

    @property
    def person(self) -> Person:
        """Raises: Problem (auth.forbidden), for a key."""
        user: Any = self.request.user
        if not isinstance(user, Person):
            raise Problem("auth.forbidden")
        return user

    @property
    def tenant_id(self) -> str:
        return str(self.request.user.tenant_id)  # type: ignore[union-attr]


class Approvals(SharedView):
    @describe.operation("List approvals", answers={200: "ApprovalPage"}, query=describe.PAGE)
    def get(self, request: Request) -> HttpResponse:
        """Held calls of the organisation, the newest first; `status` and `run` choose among them."""
        status, run = request.GET.get("status"), _id(request, "run")
        if status is not None and status not in set(ApprovalStatus):
            raise Problem("request.invalid", [FieldError("?status", f"one of {', '.join(ApprovalStatus)}")])
        page = api_selectors.approvals(self.tenant_id, status=status, run_id=run, **_page(request))
        return answer(api_render.page(page, api_render.approval))


class Approval(SharedView):
    @describe.operation("Read an approval", answers={200: "Approval"})
    def get(self, request: Request, approval_id: UUID) -> HttpResponse:
        """What is asked, of whom, until when; `digest` is what a decision sends back."""
        return answer(api_render.approval(api_selectors.approval(self.tenant_id, approval_id)))


class ApprovalDecision(SharedView):
    @describe.operation("Decide an approval", request=DecisionRequest, answers={200: "Approval"})
    def post(self, request: Request, approval_id: UUID) -> HttpResponse:
        """Vote, or take one's vote back. For people: a key is refused, whatever it may do else."""
        person = self.person
        body = self.body(DecisionRequest)
        if body.decision == "withdraw":
            services.withdraw(tenant_id=person.tenant_id, request_id=approval_id, user=person.user, note=body.note)
        else:
            services.decide(
                tenant_id=person.tenant_id, request_id=approval_id, user=person.user, note=body.note,
                is_approval=body.decision == "approve", digest=body.digest, seat=body.seat, rejection=body.reject_code,
                sealer=composed().runtime.sealer,
                is_reauthenticated=reauthentication.is_confirmed(person.user, body.password),
            )  # fmt: skip
        return answer(api_render.approval(api_selectors.approval(person.tenant_id, approval_id)))


class Grants(SharedView):
    @describe.operation("List standing grants", answers={200: "GrantPage"}, query=describe.PAGE)
    def get(self, request: Request) -> HttpResponse:
        """All of the organisation, the newest first."""
        return answer(api_render.page(api_selectors.grants(self.tenant_id, **_page(request)), api_render.grant))

    @describe.operation("Propose a standing grant", request=GrantRequest, answers={201: "Grant"})
    def post(self, request: Request) -> HttpResponse:
        """Draw a grant from a held call. It stands for nothing until other people have confirmed it."""
        person, body = self.person, self.body(GrantRequest)
        made = grants.propose_grant(
            tenant_id=person.tenant_id, user=person.user, request_id=body.request_id, conditions=body.conditions,
            maximum_uses=body.maximum_uses, expires_seconds=body.expires_seconds, note=body.note,
            is_for_principal=body.is_for_principal, sealer=composed().runtime.sealer,
        )  # fmt: skip
        return answer(api_render.grant(made), 201)


class GrantConfirmation(SharedView):
    @describe.operation("Confirm a standing grant", request=ConfirmationRequest, answers={200: "Grant"})
    def post(self, request: Request, grant_id: UUID) -> HttpResponse:
        """Take a seat of a proposed grant; the last seat puts it into force. Not for who proposed it."""
        person, body = self.person, self.body(ConfirmationRequest)
        confirmed = grants.confirm_grant(
            tenant_id=person.tenant_id, grant_id=grant_id, user=person.user, note=body.note, seat=body.seat,
            is_reauthenticated=reauthentication.is_confirmed(person.user, body.password),
            sealer=composed().runtime.sealer,
        )  # fmt: skip
        return answer(api_render.grant(confirmed))


class GrantRevocation(SharedView):
    @describe.operation("Revoke a standing grant", answers={200: "Grant"})
    def post(self, request: Request, grant_id: UUID) -> HttpResponse:
        """End it now: nothing that it stood for is sent once this has answered."""
        person = self.person
        self.no_body()
        revoked = grants.revoke_grant(tenant_id=person.tenant_id, grant_id=grant_id, user=person.user)
        return answer(api_render.grant(revoked))


class AskForAccess(SharedView):
    @describe.operation("Ask for access", request=AccessQuestion, answers={200: "Access", 201: "Access"})
    def post(self, request: Request, invocation_id: UUID) -> HttpResponse:
        """Ask from a refused call. 201 for the first time; asking again in the same run finds the same request."""
        body, who = self.body(AccessQuestion), self.request.user
        given = {"user": who.user} if isinstance(who, Person) else {"api_key_id": self.caller.api_key_id}
        asked, is_new = access.ask_for_access(
            tenant_id=self.tenant_id, invocation_id=invocation_id, note=body.note, **given
        )
        return answer(api_render.access(asked), 201 if is_new else 200)


class AccessRequests(SharedView):
    @describe.operation("List requests for access", answers={200: "AccessPage"}, query=describe.PAGE)
    def get(self, request: Request) -> HttpResponse:
        """All of the organisation, or of one `run`, the newest first."""
        page = api_selectors.access_requests(self.tenant_id, run_id=_id(request, "run"), **_page(request))
        return answer(api_render.page(page, api_render.access))


class AccessDecision(SharedView):
    @describe.operation("Answer a request for access", request=AccessAnswer, answers={200: "Access"})
    def post(self, request: Request, access_id: UUID) -> HttpResponse:
        """For the organisation's admins. The answer changes no permission by itself."""
        person, body = self.person, self.body(AccessAnswer)
        answered = access.answer_access(
            tenant_id=person.tenant_id, access_id=access_id, user=person.user, is_granted=body.is_granted,
            answer=body.answer,
        )  # fmt: skip
        return answer(api_render.access(answered))


def _id(request: Request, name: str) -> UUID | None:
    sent = request.GET.get(name)
    try:
        return UUID(sent) if sent else None
    except ValueError:
        raise Problem("request.invalid", [FieldError(f"?{name}", "not an id")]) from None


def _page(request: Request) -> dict[str, Any]:
    sent = request.GET.get("limit", "50")
    if not (sent.isascii() and sent.isdecimal()) or not 1 <= int(sent) <= api_selectors.PAGE_LIMIT:
        raise Problem("request.invalid", [FieldError("?limit", f"a number from 1 to {api_selectors.PAGE_LIMIT}")])
    return {"before": _id(request, "cursor"), "limit": int(sent)}


urlpatterns = [
    path("approvals", Approvals.as_view()),
    path("approvals/<uuid:approval_id>", Approval.as_view()),
    path("approvals/<uuid:approval_id>/decision", ApprovalDecision.as_view()),
    path("grants", Grants.as_view()),
    path("grants/<uuid:grant_id>/confirm", GrantConfirmation.as_view()),
    path("grants/<uuid:grant_id>/revoke", GrantRevocation.as_view()),
    path("invocations/<uuid:invocation_id>/access", AskForAccess.as_view()),
    path("access-requests", AccessRequests.as_view()),
    path("access-requests/<uuid:access_id>/answer", AccessDecision.as_view()),
]
