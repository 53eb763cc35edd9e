"""Which worker does a session's calls to a server that keeps state in its connection.

A route is taken in PostgreSQL by the first worker that needs it and stays with that worker while it lives; everybody
else rings there. While its own lease is live a worker need not ask again. A lease that had passed may have cost it
everything: then it lets go of what it held, because others may have gone on without it. Source: DESIGN §7.
"""

import logging
import threading
from collections.abc import Callable
from typing import Final, NamedTuple
from uuid import UUID

from django.db import DatabaseError

from mcpcatalog import metrics
from mcpcatalog.models import ServerRoute
from toolsys import database
from toolsys.ports import Clock
from toolsys.tenancy import tenant_transaction

log = logging.getLogger(__name__)
RENEWALS_PER_LEASE: Final = 3


class Route(NamedTuple):
    tenant_id: str
    session_id: UUID
    server_id: str


class Routes:
    """The routes of one worker process, which is also the name of its queue. Safe under threads."""

    def __init__(
        self,
        worker: str,
        clock: Clock,
        lease_seconds: float,
        *,
        on_lost: Callable[[Route], object] = lambda _route: None,
    ) -> None:
        self.worker = worker
        self._clock = clock
        self._lease_seconds = lease_seconds
        self._on_lost = on_lost
        self._held: set[Route] = set()
        self._live_until = float("-inf")
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._beat, name="route-keeper", daemon=True)

    def start(self) -> None:
        """Be known before the first call comes: a worker without a lease holds nothing."""
        self.renew()
        self._thread.start()

    def stop(self) -> None:
        """Give everything back, so that the next call of each session finds another worker at once."""
        self._stopping.set()
        self._thread.join(self._lease_seconds)
        self._held.clear()
        try:
            database.call("SELECT mcpcatalog_release_worker(%s)", (self.worker,))
        except DatabaseError:  # who stops has connections to close, whether or not this can be written
            log.warning("a worker's routes could not be given back; they pass to others when its lease ends")
            database.discard_connection()
        finally:
            database.release_connection()

    def elsewhere(self, route: Route) -> str:
        """Return the worker that holds this route, or an empty string for this one, which it may become by asking.

        Transaction: its own.
        """
        found = self._elsewhere(route)
        metrics.ROUTED.labels("elsewhere" if found else "here").inc()
        return found

    def _elsewhere(self, route: Route) -> str:
        if route in self._held and self._clock.boottime() < self._live_until:
            return ""
        asked = (route.tenant_id, route.session_id, route.server_id, self.worker)
        found: str = database.call("SELECT mcpcatalog_take_route(%s, %s, %s, %s)", asked)[0][0]
        if found == self.worker:
            self._held.add(route)
            return ""
        if route in self._held:
            self._lose([route])
        return found

    def release(self, tenant_id: str, session_id: UUID) -> None:
        """A session has ended: nobody need look for its connections here. Transaction: opens one."""
        self._held -= {route for route in self._held if (route.tenant_id, route.session_id) == (tenant_id, session_id)}
        with tenant_transaction(tenant_id):
            ServerRoute.objects.filter(tenant_id=tenant_id, session_id=session_id, worker=self.worker).delete()

    def renew(self) -> None:
        """Renew this worker's lease once. Raises: DatabaseError."""
        before = self._clock.boottime()
        was_live = database.call("SELECT mcpcatalog_renew_worker(%s, %s)", (self.worker, self._lease_seconds))[0][0]
        if not was_live:
            self._lose(list(self._held))
        self._live_until = before + self._lease_seconds

    def _lose(self, routes: list[Route]) -> None:
        """Let go of each, whatever becomes of the connections of the others: they may be somebody else's by now."""
        self._held.difference_update(routes)
        for route in routes:
            try:
                self._on_lost(route)
            except TimeoutError:
                log.warning("a connection whose route was lost could not be let go of in time")

    def _beat(self) -> None:
        """Keep one connection from beat to beat, as the lease keeper does, and give it back in the end."""
        try:
            while not self._stopping.wait(self._lease_seconds / RENEWALS_PER_LEASE):
                try:
                    self.renew()
                except DatabaseError:
                    log.warning("a worker's lease could not be renewed; its routes pass to others when it ends")
                    database.discard_connection()
        finally:
            database.release_connection()
