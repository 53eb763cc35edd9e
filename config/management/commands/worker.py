"""`manage.py worker`: takes work from the queue and executes it, until SIGTERM; then finishes or leaves to recovery."""

import secrets
from contextlib import ExitStack
from functools import partial
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand

from config import metrics, wiring
from config.checks import require_safe_database
from toolsys import queue
from toolsys.execution import LoopThread, WorkerExecution
from toolsys.leases import LeaseKeeper
from toolsys.worker import ThreadWorker


class Command(BaseCommand):
    help = "Execute tool calls from the queue."

    def handle(self, *args: Any, **options: Any) -> None:
        require_safe_database()
        metrics.listen()
        loop = LoopThread()
        keeper = LeaseKeeper(wiring.SystemClock(), settings.TOOLSYS.lease_seconds)
        keeper.start()
        name = f"{wiring.worker_name()}:{secrets.token_hex(8)}"
        workbench = wiring.open_mcp(loop, name)
        execution = WorkerExecution(loop, keeper, wiring.SystemClock())
        runtime = wiring.compose_worker(execution, workbench).runtime
        shared = queue.call_queue()
        worker = ThreadWorker(
            [queue.queue_of(name), shared], runtime=runtime, threads=settings.TOOLSYS.worker_threads,
            connection=shared.connection, name=name, serializer=shared.serializer, stop_sending=execution.drain,
        )  # fmt: skip
        upkeep = wiring.mcp_upkeep(workbench)
        upkeep.start()
        # Each is done whatever becomes of the one before.
        with ExitStack() as leaving:
            for last in (loop.stop, keeper.stop, partial(queue.hand_back, name), workbench.close, upkeep.stop):
                leaving.callback(last)
            worker.work(logging_level="WARNING")
