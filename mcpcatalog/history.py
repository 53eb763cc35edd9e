"""How much history a server can have us keep: changes of its catalog in a day, and the bytes of their declarations.

The history is append-only and a call's schema stays answerable, so the bound is at what comes in. Past it a discovery
fails: what was known stays known, and nothing of the new list is offered or called until the day has passed.
Source: issue 4 "Discovery" (catalog history), house rule on bounds.
"""

from datetime import datetime, timedelta
from typing import Final

from django.db.models import Sum, TextField
from django.db.models.functions import Cast, Length

from mcpcatalog.mapping import Generation
from mcpcatalog.models import CatalogChange, CatalogTool
from mcpcatalog.remote import CatalogChurning, ServerConfig
from toolsys.domain.canonical import canonical_bytes

DAY: Final = timedelta(days=1)
CHANGES_A_DAY: Final = 96
BYTES_A_DAY: Final = 64 * 1024 * 1024


def require_room(config: ServerConfig, old_hash: str, generation: Generation, at: datetime) -> None:
    """Refuse one change too many. A first catalog has room. Transaction: needs the tenant's.

    Raises: CatalogChurning.
    """
    if not old_hash:
        return
    changes = CatalogChange.objects.filter(tenant_id=config.tenant_id, server_id=config.server_id)
    recent = changes.filter(created_at__gt=at - DAY).order_by("-id").values_list("new_hash", flat=True)
    hashes = list(recent[:CHANGES_A_DAY])
    if len(hashes) >= CHANGES_A_DAY:
        raise CatalogChurning(f"its catalog changed {CHANGES_A_DAY} times in a day", effect="not_applied")
    rows = CatalogTool.objects.filter(
        tenant_id=config.tenant_id, server_id=config.server_id, catalog_hash__in=set(hashes)
    )  # fmt: skip
    written = Length(Cast("input_schema", TextField())) + Length(Cast("claims", TextField()))
    kept = rows.aggregate(found=Sum(written))["found"] or 0
    if kept + _size(generation) > BYTES_A_DAY:
        raise CatalogChurning("its catalogs of a day are too large together", effect="not_applied")


def _size(generation: Generation) -> int:
    return sum(len(canonical_bytes([tool.input_schema, tool.claims])) for tool, _ in generation.tools)
