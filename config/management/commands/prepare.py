"""`manage.py prepare`: migrate as the owner, seed the demo where it is on, print the seed's report as JSON.

One process instead of two because loading Django takes seconds. Started by `config.up`; its standard output holds
one-time passwords, so it goes to a pipe and never to a log.
"""

import dataclasses
import json
from typing import Any

from django.conf import settings
from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError


class Command(BaseCommand):
    """Make the database ready for this version of the program."""

    help = "Migrate as the owner role, seed the demo tenants where TOOLSYS_DEMO is on, print what was made as JSON."

    def handle(self, *_args: Any, **_options: Any) -> None:
        """Migrate, seed, report."""
        if "owner" not in settings.DATABASES:
            raise CommandError("DATABASE_OWNER_URL is not set: migrations run as the role that owns the database")
        call_command("migrate", database="owner", interactive=False, verbosity=1, stdout=self.stderr)
        self.stdout.write(json.dumps(seed() if settings.TOOLSYS.demo else {}))


def seed() -> dict[str, Any]:
    """Seed the demo tenants; nothing where this installation ships without the demo."""
    try:
        from config.demo_seed import seed_demo
    except ModuleNotFoundError as error:
        if error.name != "config.demo_seed":
            raise
        return {}
    return dataclasses.asdict(seed_demo())
