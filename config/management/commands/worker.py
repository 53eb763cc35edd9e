"""`manage.py worker`: takes work from the queue and executes it, until SIGTERM; then finishes or leaves to recovery."""

from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand

from config import wiring
from config.checks import require_safe_database
from toolsys.execution import LoopThread, WorkerExecution
from toolsys.leases import LeaseKeeper
from toolsys.queue import call_queue
from toolsys.worker import ThreadWorker


class Command(BaseCommand):
    help = "Execute tool calls from the queue."

    def handle(self, *args: Any, **options: Any) -> None:
        require_safe_database()
        loop = LoopThread()
        keeper = LeaseKeeper(wiring.SystemClock(), settings.TOOLSYS.lease_seconds)
        keeper.start()
        workbench = wiring.open_mcp(loop)
        execution = WorkerExecution(loop, keeper, wiring.SystemClock())
        runtime = wiring.compose_worker(execution, workbench).runtime
        queue = call_queue()
        worker = ThreadWorker(
            [queue], runtime=runtime, threads=settings.TOOLSYS.worker_threads, connection=queue.connection,
            name=f"{wiring.worker_name()}:{runtime.ids.nonce()}", serializer=queue.serializer,
            stop_sending=execution.drain,
        )  # fmt: skip
        try:
            worker.work(logging_level="WARNING")
        finally:
            workbench.close()
            keeper.stop()
            loop.stop()
