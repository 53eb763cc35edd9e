"""Catalog reviews over the API: what waits, the quarantine, and acceptances. For people, in the console's session.

A key is refused, whatever it may do else: what waits is what its own agent must not read yet. There is nothing to
reject: what nobody accepts waits. Paths are wired by `config.urls`.
"""

from typing import Final
from uuid import UUID

from django.http import HttpResponse
from django.urls import path
from rest_framework.request import Request

from mcpcatalog import api_render, quarantine, review_selectors, reviews
from toolsys.api import describe
from toolsys.api.base import answer
from toolsys.api.people import Person, SharedView
from toolsys.api.schemas import AcceptanceRequest, QuarantineRequest
from toolsys.domain.states import Role
from toolsys.tenancy import tenant_transaction

READERS: Final = (Role.TENANT_ADMIN, Role.TENANT_AUDITOR, Role.DEVELOPER, Role.OPERATOR)
REVIEWERS: Final = (Role.TENANT_ADMIN, Role.OPERATOR)


class ReviewView(SharedView):
    def one_of(self, *roles: Role) -> Person:
        """Raises: Problem (auth.forbidden)."""
        person = self.person
        person.require(*roles)
        return person


class Reviews(ReviewView):
    @describe.operation("List catalog reviews", answers={200: "Reviews"})
    def get(self, request: Request) -> HttpResponse:
        """Servers that have listed tools, those with the most to look at first, at most 100 of `count`."""
        person = self.one_of(*READERS)
        with tenant_transaction(person.tenant_id):
            lines = review_selectors.review_lines(person.tenant_id)
            return answer(api_render.lines(lines, is_quarantining=quarantine.is_asked(person.tenant_id)))


class Quarantine(ReviewView):
    @describe.operation("Set the quarantine", request=QuarantineRequest, answers={200: "Quarantine"})
    def post(self, request: Request) -> HttpResponse:
        """Hold changed and new tools of reviewed servers back from sessions that are opened from now on, or no more."""
        person, body = self.one_of(Role.TENANT_ADMIN), self.body(QuarantineRequest)
        reviews.ask(person.tenant_id, is_quarantining=body.is_quarantining, user=person.user)
        return answer({"is_quarantining": body.is_quarantining})


class Review(ReviewView):
    @describe.operation("Read a catalog review", answers={200: "Review"})
    def get(self, request: Request, server: UUID) -> HttpResponse:
        """Tools that nobody accepted as they are now, the first 50 of `count`; an acceptance names `seen`."""
        person = self.one_of(*READERS)
        with tenant_transaction(person.tenant_id):
            return answer(api_render.review(review_selectors.review_of(person.tenant_id, server)))


class ReviewAcceptance(ReviewView):
    @describe.operation("Accept tools of a catalog", request=AcceptanceRequest, answers={200: "Acceptance"})
    def post(self, request: Request, server: UUID) -> HttpResponse:
        """Accept these tools as they were seen; 409 where the catalog has changed since."""
        person, body = self.one_of(*REVIEWERS), self.body(AcceptanceRequest)
        names = reviews.accept(person.tenant_id, server, seen=body.seen, tools=body.tools, user=person.user)
        return answer({"accepted": names})


urlpatterns = [
    path("mcp/reviews", Reviews.as_view()),
    path("mcp/quarantine", Quarantine.as_view()),
    path("mcp/servers/<uuid:server>/review", Review.as_view()),
    path("mcp/servers/<uuid:server>/review/accept", ReviewAcceptance.as_view()),
]
