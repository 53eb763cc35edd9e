"""Whether what is remembered of a server may stand in for a look at it when a session opens.

What failed is not reused, however good it was; what it said is kept, and pinned while nobody can say better (decision
record 31). Pure. Source: TS "Discovery" (ADR-0131).
"""

from datetime import datetime, timedelta
from typing import Final

from mcpcatalog.remote import CatalogMode, Transport
from mcpcatalog.selectors import ServerState

# A server that is down must not make every new session wait for its connect time-out.
RETRY_SECONDS: Final = 30


def has_failed(state: ServerState) -> bool:
    """Say whether the last look at a server failed."""
    seen, failed = state.last_discovered_at, state.last_failed_at
    return failed is not None and (seen is None or failed > seen)


def is_stale(state: ServerState, now: datetime, reuse_seconds: int) -> bool:
    """Say whether a discovery must precede the next pin.

    A stdio server's catalog ships with the deployment, so its fingerprint decides, as it does for a fixed catalog; an
    HTTP one ages.
    """
    if state.config.mode is CatalogMode.FIXED:
        return state.discovered_fingerprint != state.config.fingerprint
    seen, failed = state.last_discovered_at, state.last_failed_at
    if failed is not None and has_failed(state):
        # What failed with another endpoint or credential says nothing of this one.
        is_of_this = state.failed_fingerprint == state.config.fingerprint
        return not is_of_this or now - failed >= timedelta(seconds=RETRY_SECONDS)
    if seen is None or state.discovered_fingerprint != state.config.fingerprint:
        return True
    if state.list_changed_at is not None and state.list_changed_at > seen:
        return True
    return state.config.transport is Transport.HTTP and now - seen > timedelta(seconds=reuse_seconds)
