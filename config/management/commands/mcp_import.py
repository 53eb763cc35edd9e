"""`manage.py mcp_import FILE`: takes the servers of an `mcp.json` or a registry's `server.json` into a tenant.

It runs as an operator: a stdio entry is taken where the deployment defines a program with the same command line.
"""

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.conf import settings
from django.contrib.auth import get_user_model
from django.core.management.base import BaseCommand, CommandError

from config import wiring
from mcpcatalog import manifests
from mcpcatalog.imports import Importer, Planned
from toolsys import inert
from toolsys.envelope import Envelope
from toolsys.models import Tenant
from toolsys.tenancy import OPERATOR_ALIAS


class Command(BaseCommand):
    help = "Import MCP servers from a file: everything arrives disabled and unclassified, secrets are sealed."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("file", type=Path, help="an mcp.json, opencode.json, Zed's settings or server.json")
        parser.add_argument("--tenant", required=True)
        parser.add_argument("--by", required=True, help="the user name of who answers for it")
        parser.add_argument("--allow-hosts", action="store_true", help="let the tenant's servers reach the hosts in it")
        parser.add_argument("--preview", action="store_true", help="say what would be done, and write nothing")

    def handle(self, *args: Any, **options: Any) -> None:
        importer = _importer(options)
        try:
            data = _bounded(options["file"])
            found = importer.plan(data) if options["preview"] else importer.write(data)
        except manifests.Unreadable as error:
            raise CommandError(f"{options['file']}: {error}") from None
        for planned in found:
            self.stdout.write(_line(planned))
            for note in planned.entry.notes:
                self.stdout.write(f"    {inert.visible(note)}")
        if any(planned.state == "written" for planned in found):
            self.stdout.write(
                f"Next: manage.py mcp_check NAME --tenant {options['tenant']}, then enable it in the console."
            )
        refused = sum(planned.state == "refused" for planned in found)
        if refused:
            raise CommandError(f"{refused} of {len(found)} entries refused")


def _importer(options: dict[str, Any]) -> Importer:
    user = get_user_model().objects.filter(username=options["by"], is_active=True).first()
    if user is None:
        raise CommandError(f"no active user {options['by']!r}: create one in the console first")
    if not Tenant.objects.using(OPERATOR_ALIAS).filter(pk=options["tenant"]).exists():
        raise CommandError(f"there is no tenant {options['tenant']!r}")
    return Importer(
        options["tenant"], user, wiring.mcp_rules(), Envelope(settings.MASTER_ENCRYPTION_KEYS), is_operator=True,
        allows_hosts=options["allow_hosts"], commands=wiring.stdio_commands(),
    )  # fmt: skip


def _bounded(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(manifests.MAXIMUM_BYTES + 1)
    except OSError as error:
        raise CommandError(f"{path}: {error.strerror}") from None


def _line(planned: Planned) -> str:
    entry = planned.entry
    host = f" It needs {planned.host} to be reachable." if planned.host and planned.state == "refused" else ""
    sealed = " Its secret is kept sealed." if planned.keeps_secret else ""
    return f"{planned.state:8} {entry.server_id:24} {inert.visible(planned.says)}{host}{sealed}"
