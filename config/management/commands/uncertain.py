"""`manage.py uncertain`: the calls of a tenant whose outcome nobody knows, with what their rows prove (DESIGN §4)."""

from argparse import ArgumentParser
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand

from toolsys import evidence
from toolsys.composition import composed
from toolsys.evidence import EffectProbe


class Command(BaseCommand):
    help = "List the uncertain calls that wait for somebody to find out; `resolve_uncertain` records what was found."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("tenant")
        parser.add_argument("--limit", type=int, default=100)

    def handle(self, *args: Any, **options: Any) -> None:
        tenant_id = options["tenant"]
        found = evidence.uncertain_calls(tenant_id, limit=max(1, min(options["limit"], 1_000)))
        named, registry = settings.TOOLSYS.effect_probes, composed().registry
        probes = evidence.probes_of(tenant_id, {call.tool_name for call in found}, named, registry)
        for call in found:
            since = f"{call.effect_sent_at:%Y-%m-%d %H:%M:%S}" if call.effect_sent_at else "an older database"
            ended = f"{call.completed_at:%Y-%m-%d %H:%M:%S}" if call.completed_at else "-"
            self.stdout.write(
                f"{call.id}  {call.tool_name}  {call.idempotency_class}\n"
                f"  may have been felt from {since} to {ended} UTC\n"
                f"  last proven step {call.last_step} ({call.last_step_name}), "
                f"claim {call.claim_epoch} of {call.claimed_by or 'nobody'}\n"
                f"  first byte {call.first_byte}\n"
                f"  look with {_said(probes.get(call.tool_name))}"
            )
        self.stdout.write(f"{len(found)} uncertain calls wait for somebody to find out")


def _said(probe: EffectProbe | None) -> str:
    if probe is None:
        return "no read that an operator named (TOOLSYS_EFFECT_PROBES)"
    return f"{probe.name}, but {probe.fault}" if probe.fault else probe.name
