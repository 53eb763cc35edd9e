"""The row of a pinned set of tools: written once a tenant, shared by every session with the same set.

Used by `services` only, when a session is opened.
"""

from typing import Final

from toolsys import database
from toolsys.ids import uuid7
from toolsys.models import ToolSet
from toolsys.pins import Pin

# Another session that writes the same set at this moment is waited for. A parameter of the server's: quoting half a
# megabyte costs more than storing it.
INSERT: Final = (
    "INSERT INTO tool_sets (id, tenant_id, sha256, tools) VALUES (%s, %s, %s, %s::jsonb) "
    "ON CONFLICT (tenant_id, sha256) DO NOTHING RETURNING id"
)


def of_pin(tenant_id: str, pin: Pin) -> ToolSet:
    """Return the row that all sessions with this set share; write it where this is the first one.

    Transaction: needs the session's.
    """
    known = ToolSet.objects.filter(tenant_id=tenant_id, sha256=pin.sha256).values_list("pk", flat=True)
    found = known.first()
    if found is None:
        database.call(INSERT, (uuid7(), tenant_id, pin.sha256, database.as_json(pin.tools)))
        found = known.get()
    return ToolSet(pk=found, tenant_id=tenant_id, sha256=pin.sha256, tools=pin.tools)
