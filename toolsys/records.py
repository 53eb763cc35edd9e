"""Notes what people changed, as events beside those of calls: who, what, and never a value that is secret.

Called by services inside the transaction of the change, so that there is no change without its event.
"""

from typing import Any
from uuid import uuid4

from django.db import DEFAULT_DB_ALIAS

from toolsys.models import ToolEvent


def note(tenant_id: str, kind: str, payload: dict[str, Any], *, user: Any, using: str = DEFAULT_DB_ALIAS) -> None:
    """Transaction: needs the change's own."""
    by = getattr(user, "pk", None)
    ToolEvent.objects.using(using).create(
        tenant_id=tenant_id, type=kind, payload={**payload, "by": by}, derivation_key=f"{kind}:{uuid4()}"
    )
