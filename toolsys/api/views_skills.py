"""Which skills a tenant's runtimes may load: metadata only, never in the pinned set of a session."""

from django.http import HttpResponse
from rest_framework.request import Request

from toolsys import selectors
from toolsys.api import describe, paging, render
from toolsys.api.base import ApiView, answer


class Skills(ApiView):
    @describe.operation("List skills", answers={200: "SkillPage"}, query=describe.PAGE)
    def get(self, request: Request) -> HttpResponse:
        """Return the metadata of the skills that are offered now, oldest first, with the label of their content."""
        after, limit, tenant_id = paging.cursor(request), paging.limit(request), self.caller.tenant_id
        enabled = [provider.sources(tenant_id) for provider in self.house.runtime.providers.values()]
        found, cursor = selectors.skills(tenant_id, sources=frozenset().union(*enabled), after=after, limit=limit)
        return answer({"data": list(map(render.skill, found)), "has_more": cursor is not None, "next_cursor": cursor})
