"""How much history a server can have us keep: changes of its catalog in a day, the bytes of their declarations, and
versions of its prompts.

A call's schema stays answerable, so the bound is at what comes in; what no session pinned goes with age
(`mcpcatalog.retention`). Past it a discovery fails: what was known stays known, and nothing of the new list is offered
or called until the day has passed.
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
from toolsys.selectors import skills_recorded

DAY: Final = timedelta(days=1)
CHANGES_A_DAY: Final = 96
BYTES_A_DAY: Final = 64 * 1024 * 1024
# Ten times as many as a server may list at once.
SKILLS_A_DAY: Final = 2_000


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


def require_room_for_skills(config: ServerConfig, at: datetime) -> None:
    """Refuse what was just written where it is too much. Transaction: needs the one that wrote.

    Raises: CatalogChurning.
    """
    if skills_recorded(config.tenant_id, config.server_id, at - DAY) > SKILLS_A_DAY:
        raise CatalogChurning(f"more than {SKILLS_A_DAY} versions of its prompts in a day", effect="not_applied")


def _size(generation: Generation) -> int:
    return sum(len(canonical_bytes([tool.input_schema, tool.claims])) for tool, _ in generation.tools)
