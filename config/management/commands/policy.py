"""`manage.py policy explain | replay`: why a call became what it became, and what a draft of rules would change."""

import json
from argparse import ArgumentParser
from pathlib import Path
from typing import Any
from uuid import UUID

from django.core.management.base import BaseCommand, CommandError

from approvals import replays
from approvals.replays import Replayed
from toolsys import explanations
from toolsys.composition import composed
from toolsys.models import Invocation, Tenant
from toolsys.tenancy import OPERATOR_ALIAS, tenant_transaction


class Command(BaseCommand):
    help = "Explain what policy decided about a call, or replay a draft of rules over recorded calls."

    def add_arguments(self, parser: ArgumentParser) -> None:
        ways = parser.add_subparsers(dest="way", required=True)
        explain = ways.add_parser("explain", help="the fourteen steps of one call: what each saw and decided")
        explain.add_argument("invocation", type=UUID)
        replay = ways.add_parser("replay", help="which verdicts a draft of rules would have changed")
        replay.add_argument("file", type=Path, help="a JSON list of rules, or an object with `rules`")
        replay.add_argument("--tenant", required=True)
        replay.add_argument("--last", type=int, default=1_000, help="how many calls, the newest first")

    def handle(self, *args: Any, **options: Any) -> None:
        if options["way"] == "explain":
            self._explain(options["invocation"])
        else:
            self._replay(options["file"], options["tenant"], options["last"])

    def _explain(self, invocation_id: UUID) -> None:
        rows = Invocation.objects.using(OPERATOR_ALIAS).filter(pk=invocation_id)
        tenant_id = rows.values_list("tenant_id", flat=True).first()
        if tenant_id is None:
            raise CommandError(f"there is no call {invocation_id}")
        with tenant_transaction(tenant_id):
            found = explanations.explain(invocation_id)
        assert found is not None
        for line in explanations.lines(found):
            self.stdout.write(line)

    def _replay(self, file: Path, tenant_id: str, last: int) -> None:
        if not Tenant.objects.using(OPERATOR_ALIAS).filter(pk=tenant_id).exists():
            raise CommandError(f"there is no tenant {tenant_id}")
        if not 1 <= last <= replays.CALLS_LIMIT:
            raise CommandError(f"--last is a number from 1 to {replays.CALLS_LIMIT}")
        try:
            rules = replays.drafted(json.loads(file.read_text()))
        except (OSError, ValueError) as error:
            raise CommandError(f"{file}: {error}") from None
        self._report(replays.replay(tenant_id, rules, last, composed().runtime.sealer))

    def _report(self, found: Replayed) -> None:
        changed = found.changes.total()
        self.stdout.write(f"{found.calls} calls judged over {found.days:.1f} days, {found.left_out} left out")
        self.stdout.write(f"{changed} verdicts change")
        for (then, now), count in sorted(found.changes.items()):
            self.stdout.write(f"  {count:6} {then} -> {now}")
        for change in found.examples:
            call = change.call
            self.stdout.write(f"  {call.id} {call.action.tool_name}: {call.verdict} -> {change.verdict}, {change.rule}")
        self.stdout.write(
            f"approvals: {found.approvals_then} then, {found.approvals_with_draft} with the draft, "
            f"{found.approvals_a_day:+.1f} a day"
        )
