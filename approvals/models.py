"""Votes: who sat on which seat and what they said. Written by `approvals.services` only."""

from django.conf import settings
from django.db import models

from toolsys.models.base import TenantOwned, tenant_key


class ApprovalVote(TenantOwned):
    """One decision of one person on one request. Append-only evidence. Personal data: who decided, their note."""

    request = tenant_key("toolsys.ApprovalRequest")
    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+")
    seat = models.TextField()
    is_approval = models.BooleanField()
    note = models.TextField(blank=True)
    digest = models.TextField()

    class Meta:
        db_table = "approval_votes"
        constraints = [
            models.UniqueConstraint(fields=["tenant", "request", "user"], name="person_votes_once"),
        ]
