"""`manage.py mcp_check SERVER`: walks up the ladder of one MCP server and says what to do where it breaks."""

from argparse import ArgumentParser
from collections.abc import Callable, Iterable
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from config import wiring
from mcpcatalog import checking, selectors
from mcpcatalog.checks import Rung
from mcpcatalog.models import McpServer
from mcpcatalog.remote import ServerConfig
from toolsys import inert
from toolsys.execution import LoopThread
from toolsys.tenancy import OPERATOR_ALIAS

MARKS = {"passed": "✓", "failed": "✗", "not_tried": "·", "running": "…"}


class Command(BaseCommand):
    help = "Check one MCP server: DNS, address, TCP, TLS, protocol, authentication and tools. Exits 1 where it breaks."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("server", help="the server's name, as in mcp.NAME.tool")
        parser.add_argument("--tenant", default="", help="whose server; not needed where one tenant only has it")

    def handle(self, *args: Any, **options: Any) -> None:
        config = _configured(options["server"], options["tenant"])
        loop, shown = LoopThread(), _Shown(self.stdout.write)
        workbench = wiring.open_mcp(loop)
        try:
            found = checking.walk(
                config, workbench.look, clock=wiring.SystemClock(),
                ceiling=settings.TOOLSYS.global_output_ceiling_bytes, tell=shown.reached,
            )  # fmt: skip
        finally:
            workbench.close()
            loop.stop()
        shown.ended(found.rungs)
        broken = found.first_failed
        if broken is not None:
            raise CommandError(f"{broken.title}: {broken.fix} [{broken.reason}]")
        self.stdout.write(f"{config.tenant_id} {config.server_id}: usable")


class _Shown:
    """Prints a rung once it is passed, and at the end those that are left or turned out otherwise."""

    def __init__(self, write: Callable[[str], object]) -> None:
        self._write = write
        self._passed: set[str] = set()

    def reached(self, rungs: Iterable[Rung]) -> None:
        for rung in rungs:
            if rung.status == "passed" and rung.name not in self._passed:
                self._passed.add(rung.name)
                self._write(_line(rung))

    def ended(self, rungs: Iterable[Rung]) -> None:
        for rung in rungs:
            if rung.status != "passed" or rung.name not in self._passed:
                self._write(_line(rung))


def _configured(server_id: str, tenant_id: str) -> ServerConfig:
    rows = McpServer.objects.using(OPERATOR_ALIAS).filter(server_id=server_id)
    owners = sorted(rows.filter(tenant_id=tenant_id) if tenant_id else rows, key=lambda row: row.tenant_id)
    if not owners:
        raise CommandError(f"there is no server {server_id!r}" + (f" of {tenant_id!r}" if tenant_id else ""))
    if len(owners) > 1:
        raise CommandError(f"several tenants have it, say --tenant: {', '.join(row.tenant_id for row in owners)}")
    state = selectors.server(owners[0].tenant_id, server_id, wiring.stdio_commands())
    assert state is not None
    return state.config


def _line(rung: Rung) -> str:
    took = "" if rung.seconds is None else f"{rung.seconds * 1_000:,.0f} ms"
    return f"{MARKS[rung.status]} {rung.title:18} {took:>9}  {inert.visible(rung.fact)}".rstrip()
