"""One heartbeat for all claims of a worker process, and the process's own view of how long each still holds.

The database's clock decides; the boottime clock only ever makes this process more careful: a process that was frozen
finds its lease passed before it sends. A lease that is not renewed any more cancels its call. Source: DESIGN §4.
"""

import logging
import threading
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final
from uuid import UUID

from django.db import DatabaseError

from toolsys import database
from toolsys.domain.calls import Claim
from toolsys.ports import Clock

log = logging.getLogger("toolsys.leases")
RENEWALS_PER_LEASE: Final = 3
# A renewal reaches no further past the operation deadline (30_commits.sql): it is the time to record what has ended.
SETTLE_SECONDS: Final = 2.0


@dataclass(slots=True)
class Held:
    """A claim in hand. `is_cancelled` is what the tool's cancellation token reads."""

    claim: Claim
    live_until: float
    is_cancelled: bool = field(default=False)

    def renewed(self, asked_at: float) -> None:
        """Count as the renewing statement does, from before it was sent (boottime)."""
        claim = self.claim
        deadline = claim.claimed_at_boottime + claim.remaining_seconds
        self.live_until = max(self.live_until, min(asked_at + claim.lease_seconds, deadline + SETTLE_SECONDS))


class LeaseKeeper:
    """Renews the leases that this process holds, three times a lease, one statement a tenant."""

    def __init__(self, clock: Clock, lease_seconds: float) -> None:
        self._clock = clock
        self._lease_seconds = lease_seconds
        self._held: dict[tuple[UUID, int], Held] = {}
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._beat, name="lease-keeper", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join(self._lease_seconds)

    def hold(self, claim: Claim) -> None:
        with self._lock:
            self._held[_key(claim)] = Held(claim, claim.claimed_at_boottime + claim.lease_seconds)

    def drop(self, claim: Claim) -> None:
        with self._lock:
            self._held.pop(_key(claim), None)

    def live_until(self, claim: Claim) -> float:
        held = self._held.get(_key(claim))
        return held.live_until if held is not None else 0.0

    def token(self, claim: Claim) -> Held:
        return self._held.get(_key(claim)) or Held(claim, 0.0, is_cancelled=True)

    def renew(self) -> None:
        """Renew once. A database that does not answer renews nothing: the lease then passes by itself."""
        with self._lock:
            held = list(self._held.values())
        for tenant_id in {each.claim.tenant_id for each in held}:
            self._renew_tenant(tenant_id, [each for each in held if each.claim.tenant_id == tenant_id])

    def _renew_tenant(self, tenant_id: str, held: Iterable[Held]) -> None:
        mine = list(held)
        before = self._clock.boottime()
        rows = database.call(
            "SELECT * FROM toolsys_renew(%s, %s, %s, %s)",
            (
                tenant_id,
                [each.claim.invocation_id for each in mine],
                [each.claim.epoch for each in mine],
                self._lease_seconds,
            ),
        )
        renewed = {row[0] for row in rows}
        for each in mine:
            if each.claim.invocation_id in renewed:
                each.renewed(before)
            elif self._clock.boottime() > each.live_until:
                each.is_cancelled = True

    def _beat(self) -> None:
        """Keep one connection from beat to beat, so that a busy pool costs no lease; give it back in the end."""
        try:
            while not self._stopping.wait(self._lease_seconds / RENEWALS_PER_LEASE):
                try:
                    self.renew()
                except DatabaseError:
                    log.warning("leases could not be renewed; what they guard stops before they pass")
                    database.discard_connection()
        finally:
            database.release_connection()


def _key(claim: Claim) -> tuple[UUID, int]:
    return claim.invocation_id, claim.epoch
