"""`manage.py uncertain`: the calls of a tenant whose outcome nobody knows, with what their rows prove (DESIGN §4)."""

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand

from toolsys import selectors
from toolsys.trace import STEP_NAMES


class Command(BaseCommand):
    help = "List the uncertain calls that wait for somebody to find out; `resolve_uncertain` records what was found."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("tenant")
        parser.add_argument("--limit", type=int, default=100)

    def handle(self, *args: Any, **options: Any) -> None:
        found = selectors.uncertain_calls(options["tenant"], limit=max(1, min(options["limit"], 1_000)))
        for call in found:
            since = f"{call.effect_sent_at:%Y-%m-%d %H:%M:%S}" if call.effect_sent_at else "an older database"
            ended = f"{call.completed_at:%Y-%m-%d %H:%M:%S}" if call.completed_at else "-"
            self.stdout.write(
                f"{call.id}  {call.tool_name}  {call.idempotency_class}\n"
                f"  may have been felt from {since} to {ended} UTC\n"
                f"  last recorded step {call.last_step} ({STEP_NAMES.get(call.last_step, 'none')}), "
                f"claim {call.claim_epoch} of {call.claimed_by or 'nobody'}"
            )
        self.stdout.write(f"{len(found)} uncertain calls wait for somebody to find out")
