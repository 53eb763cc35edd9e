"""`manage.py scheduler`: sweeps for work that a lost process, queue or message left behind, and delivers the outbox.

One sweeps at a time; the outbox may be delivered by several, each message by one of them.
"""

import signal
import threading
from functools import partial
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand

from approvals import retention
from config import metrics, wiring
from config.checks import require_safe_database
from mcpcatalog.retention import forget_catalogs
from toolsys import forgetting, sweeper
from toolsys.sweeper import Chore

# What is being sent may end; the lease of what does not passes, and the message goes out again.
STOP_SECONDS = 5.0
# How often messages, conversations and catalogs that have grown old are looked for.
OLD_SECONDS = 600.0
# How often runs are looked for whose deadline has passed; their refusals do not wait for it.
EXPIRY_SECONDS = 30.0


class Command(BaseCommand):
    help = "Ring again for calls that nobody is working on."

    def handle(self, *args: Any, **options: Any) -> None:
        require_safe_database()
        metrics.listen()
        stopping = threading.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: stopping.set())
        numbers = settings.TOOLSYS
        orphans = Chore(numbers.orphan_sweep_seconds, wiring.orphan_collector().collect)
        old = Chore(OLD_SECONDS, partial(retention.forget_deliveries, numbers.outbox_retention_days))
        silent = Chore(OLD_SECONDS, partial(forgetting.forget_conversations, numbers.mcp_retention_days))
        listed = Chore(OLD_SECONDS, partial(forget_catalogs, numbers.mcp_catalog_retention_days))
        runs = Chore(EXPIRY_SECONDS, forgetting.expire_runs)
        outbox = (numbers.outbox_seconds, stopping)
        courier = threading.Thread(target=wiring.courier().serve, args=outbox, name="courier", daemon=True)
        courier.start()
        sweeper.serve(numbers.sweep_seconds, numbers.sweep_seconds, stopping, [runs, orphans, old, silent, listed])
        courier.join(STOP_SECONDS)
