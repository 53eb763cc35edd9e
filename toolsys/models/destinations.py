"""Which origins the servers of a tenant may reach: the tenant's part of the egress policy."""

from django.conf import settings
from django.db import models

from toolsys.models.base import TenantOwned


class EgressAllowance(TenantOwned):
    """One origin, `https://host:port`, that the tenant's remote servers and their token endpoints may be at.

    Without a row nothing may be dialled. What operators deny stays denied, and addresses are judged all the same.
    Written by `toolsys.allowances`; a new or a deleted row raises the tenant's authorization epoch by trigger.
    """

    origin = models.TextField()
    note = models.TextField(blank=True, default="")
    added_by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, null=True, related_name="+")

    class Meta:
        db_table = "egress_allowances"
        verbose_name = "reachable host"
        constraints = [models.UniqueConstraint(fields=["tenant", "origin"], name="egress_origin_is_unique")]

    def __str__(self) -> str:
        return self.origin
