"""`manage.py resolve_uncertain`: record what was found out about a call whose outcome is unknown (DESIGN §4)."""

from argparse import ArgumentParser
from typing import Any
from uuid import UUID

from django.contrib.auth import get_user_model
from django.core.management.base import BaseCommand, CommandError

from toolsys import resolutions
from toolsys.models import Resolution, WorkerProof
from toolsys.problems import Problem


class Command(BaseCommand):
    help = "Record whether an uncertain call happened, with the evidence."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("tenant")
        parser.add_argument("invocation", type=UUID)
        parser.add_argument("resolution", choices=Resolution.values)
        parser.add_argument("--evidence", required=True, help="what was looked at, and what it showed")
        parser.add_argument("--worker", choices=WorkerProof.values, help="needed for not_happened")
        parser.add_argument("--by", required=True, help="the user name of the operator who answers for it")

    def handle(self, *args: Any, **options: Any) -> None:
        user = get_user_model().objects.filter(username=options["by"], is_active=True).first()
        if user is None:
            raise CommandError(f"no active user {options['by']!r}: create one in the console first")
        try:
            row = resolutions.resolve(
                tenant_id=options["tenant"], invocation_id=options["invocation"],
                resolution=Resolution(options["resolution"]), evidence=options["evidence"],
                worker_proof=WorkerProof(options["worker"]) if options["worker"] else None, user=user,
            )  # fmt: skip
        except Problem as problem:
            fields = "; ".join(f"{error.pointer}: {error.message}" for error in problem.errors)
            raise CommandError(f"{problem.reason_code} {fields}".strip()) from None
        self.stdout.write(f"recorded {row.resolution} for {options['invocation']}")
