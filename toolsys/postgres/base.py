"""The database wrapper that opens a transaction and names its tenant in one round trip.

The setting is transaction-local, so nothing is left on a pooled connection. Only `toolsys.tenancy` sets the
tenant; the literal is safe because tenant ids follow a grammar that has no quote. Source: DESIGN §9.
"""

import re
import time
from typing import Any, Final

from django.db.backends.postgresql import base
from psycopg.pq import ExecStatus, TransactionStatus
from psycopg_pool import PoolTimeout

from toolsys.postgres.liveness import is_ended
from toolsys.tenancy import current_tenant

WAIT_SECONDS: Final = 10.0
_TENANT: Final = re.compile(r"^[a-z][a-z0-9_-]{1,62}\Z")


class DatabaseWrapper(base.DatabaseWrapper):
    """Puts the context's tenant into each transaction that Django opens, and opens none over a dead connection."""

    def ensure_connection(self) -> None:
        """Outside a transaction nothing is lost with a connection that was ended: another one takes its place."""
        if self.connection is not None and not self.in_atomic_block and is_ended(self.connection):
            # Closed first, or the pool would take it back as a good one.
            self.connection.close()
            self.close()
        super().ensure_connection()

    def get_new_connection(self, conn_params: dict[str, Any]) -> Any:
        """Ask the pool until the time is up: each question has it try again to reach a server that was away.

        Raises: psycopg.OperationalError.
        """
        until = time.monotonic() + WAIT_SECONDS
        while True:
            try:
                return super().get_new_connection(conn_params)
            except PoolTimeout:
                if time.monotonic() >= until:
                    raise

    def apply_tenant(self, tenant_id: str | None) -> None:
        with self.wrap_database_errors:
            self.connection.execute("SELECT set_config('toolsys.tenant_id', %s, true)", [tenant_id or ""])

    def _set_autocommit(self, autocommit: bool) -> None:
        super()._set_autocommit(autocommit)  # type: ignore[misc]
        tenant_id = current_tenant.get()
        if autocommit or tenant_id is None:
            return
        link = self.connection.pgconn
        if link.transaction_status == TransactionStatus.IDLE and _TENANT.match(tenant_id):
            begun = link.exec_(f"BEGIN; SELECT set_config('toolsys.tenant_id','{tenant_id}',true)".encode())
            if begun.status == ExecStatus.TUPLES_OK:
                return
        self.apply_tenant(tenant_id)
