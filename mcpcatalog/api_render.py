"""How catalog reviews look over the API. Shapes only (`toolsys/api/answers.py`).

A server's words are given as they came, and say whose they are: whoever shows them must not obey them.
"""

from collections.abc import Sequence
from typing import Final

from mcpcatalog.models import CatalogTool
from mcpcatalog.review_selectors import Pending, ReviewLine, ReviewPage
from toolsys.domain.spec import JsonObject
from toolsys.domain.trust import TrustLevel

SHOWN: Final = 100


def lines(found: Sequence[ReviewLine], *, is_quarantining: bool) -> JsonObject:
    return {
        "is_quarantining": is_quarantining, "count": len(found), "data": [
            {
                "id": line.row.pk, "server_id": line.row.server_id, "is_reviewed": line.is_reviewed,
                "pending": line.count, "catalog_hash": line.row.catalog_hash,
            }
            for line in found[:SHOWN]
        ],
    }  # fmt: skip


def review(page: ReviewPage) -> JsonObject:
    return {
        "id": page.row.pk, "server_id": page.row.server_id, "is_quarantining": page.is_asked,
        "is_reviewed": page.is_reviewed, "seen": page.seen, "count": page.count,
        "pending": [_pending(each) for each in page.pending], "gone": list(page.gone),
    }  # fmt: skip


def _pending(each: Pending) -> JsonObject:
    row, before = each.row, each.before
    return {
        "id": row.pk, "name": row.registry_name, "remote_name": row.remote_name, "is_new": before is None,
        **_declared(row), "accepted_before": _declared(before) if before is not None else None,
        "differences": each.differences, "trust": TrustLevel.EXTERNAL_UNTRUSTED.value,
    }  # fmt: skip


def _declared(row: CatalogTool) -> JsonObject:
    return {"description": row.description, "input_schema": row.input_schema, "claims": row.claims}
