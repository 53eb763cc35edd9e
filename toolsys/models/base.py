"""The abstract parent of every tenant-owned row.

`tenant_id` is text and first in every index; row-level security is added by the migration that creates the table.
Foreign keys between tenant-owned tables are declared without a database constraint: the migration adds composite
ones, `(tenant_id, x_id)`, because a plain foreign-key check bypasses row-level security (DESIGN §9).
"""

from typing import Any

from django.db import models
from django.db.models.functions import Now

from toolsys.ids import uuid7
from toolsys.models.tenant import Tenant


def tenant_key(to: str, **options: Any) -> "models.ForeignKey[Any, Any]":
    """Declare a foreign key whose composite constraint is written in SQL by `TenantTables`."""
    options.setdefault("on_delete", models.PROTECT)
    options.setdefault("related_name", "+")
    return models.ForeignKey(to, db_constraint=False, db_index=False, **options)


class TenantOwned(models.Model):
    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    tenant = models.ForeignKey(Tenant, on_delete=models.PROTECT, db_index=False, related_name="+")
    created_at = models.DateTimeField(db_default=Now(), editable=False)

    class Meta:
        abstract = True


class CallRecord(TenantOwned):
    """A tenant-owned row that the call path writes: its tenant is checked through its composite keys.

    A foreign key to the tenant as well would lock the same tenant row in every commit of every call.
    """

    tenant = models.ForeignKey(Tenant, on_delete=models.PROTECT, db_index=False, db_constraint=False, related_name="+")

    class Meta:
        abstract = True
