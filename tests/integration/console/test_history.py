"""Who changed what, as Django notes it for every tenant in one table: no page shows a line to another tenant."""

from typing import Any

import pytest
from django.contrib.admin.models import CHANGE, LogEntry
from django.urls import reverse

from tests.factories import Tenancy
from tests.integration.console.people import AGENTS, INDEX, KEYS, PRINCIPALS, Person, person
from tests.spec.requirements import gate
from toolsys.domain.states import Role

ADMIN = Role.TENANT_ADMIN
SAID = "a sentence that only acme may read"


def note(tenancy: Tenancy, who: Person) -> None:
    """Write the line that Django's form writes when somebody changes an agent."""
    LogEntry.objects.log_actions(
        user_id=who.user.pk, queryset=[tenancy.agent], action_flag=CHANGE, change_message=SAID, single_object=True
    )


def history(tenancy: Tenancy) -> str:
    return f"{AGENTS}{tenancy.agent.pk}/history/"


@gate("console.history")
def test_a_history_is_shown_to_admins_of_its_tenant_and_to_nobody_elses(acme: Tenancy, globex: Tenancy) -> None:
    ann, theirs = person((acme, ADMIN)), person((globex, ADMIN))
    note(acme, ann)
    mine = ann.text(history(acme))
    assert (SAID in mine, ann.user.username in mine) == (True, True)
    refused: Any = theirs.browser.get(history(acme), follow=True)
    assert refused.redirect_chain[-1][0] == INDEX
    for page in (refused.content.decode(), theirs.text(history(globex))):
        assert (SAID in page, ann.user.username in page) == (False, False)


@gate("console.history")
def test_who_is_admin_of_two_tenants_reads_the_history_of_the_one_that_was_chosen(
    acme: Tenancy, globex: Tenancy
) -> None:
    both = person((acme, ADMIN), (globex, ADMIN))
    note(acme, both)
    both.post(reverse("admin:choose-tenant"), tenant=globex.id)
    assert SAID not in both.text(INDEX), "no list of one's own recent actions, which would span tenants"
    assert both.get(history(acme)).status_code == 302
    both.post(reverse("admin:choose-tenant"), tenant=acme.id)
    assert SAID in both.text(history(acme))


@gate("console.history")
@pytest.mark.parametrize("path", [INDEX, AGENTS, PRINCIPALS, KEYS])
def test_no_page_lists_recent_actions(acme: Tenancy, globex: Tenancy, path: str) -> None:
    ann, theirs = person((acme, ADMIN)), person((globex, ADMIN))
    note(acme, ann)
    for who in (ann, theirs):
        text = who.text(path)
        assert (SAID in text, "recent-actions" in text) == (False, False)
