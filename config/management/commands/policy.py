"""`manage.py policy`: why a call became what it became, what a draft of rules would change, and the switches.

The people's part is the console's; this is for operators at a terminal, who are named with `--by`.
"""

import json
import logging
from argparse import ArgumentParser
from pathlib import Path
from typing import Any
from uuid import UUID

from django.contrib.auth import get_user_model
from django.core.management.base import BaseCommand, CommandError

from approvals import policy_services, replays
from approvals.matchers import Rule
from approvals.replays import Replayed
from approvals.ruleset import SwitchKind
from toolsys import explanations
from toolsys.composition import composed
from toolsys.models import Invocation, Tenant
from toolsys.problems import Problem
from toolsys.tenancy import OPERATOR_ALIAS, tenant_transaction

log = logging.getLogger("toolsys.policy")


class Command(BaseCommand):
    help = "Explain what policy decided, replay a draft of rules, write rules, or throw a kill switch."

    def add_arguments(self, parser: ArgumentParser) -> None:
        ways = parser.add_subparsers(dest="way", required=True)
        self._add_readers(ways)
        apply = ways.add_parser("apply", help="write a version of each rule in a file that says something new")
        apply.add_argument("file", type=Path)
        apply.add_argument("--tenant", required=True)
        apply.add_argument("--by", required=True, help="the user name of who answers for it")
        apply.add_argument("--note", default="", help="why")
        switch = ways.add_parser("switch", help="turn everything, a tenant, a server, a tool or a key off, or on again")
        switch.add_argument("kind", choices=["platform", *SwitchKind])
        switch.add_argument("state", choices=["off", "on"])
        switch.add_argument("--tenant", default="")
        switch.add_argument("--target", default="", help="the server's id, the tool's name or a glob, or the key's id")
        switch.add_argument("--by", required=True, help="the user name of who answers for it")
        switch.add_argument("--note", default="", help="why")

    def _add_readers(self, ways: Any) -> None:
        explain = ways.add_parser("explain", help="the fourteen steps of one call: what each saw and decided")
        explain.add_argument("invocation", type=UUID)
        replay = ways.add_parser("replay", help="which verdicts a draft of rules would have changed")
        replay.add_argument("file", type=Path, help="a JSON list of rules, or an object with `rules`")
        replay.add_argument("--tenant", required=True)
        replay.add_argument("--last", type=int, default=1_000, help="how many calls, the newest first")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            match options["way"]:
                case "explain":
                    self._explain(options["invocation"])
                case "replay":
                    self._replay(options["file"], options["tenant"], options["last"])
                case "apply":
                    self._apply(options)
                case _:
                    self._switch(options)
        except Problem as problem:
            fields = "; ".join(f"{error.pointer}: {error.message}" for error in problem.errors)
            raise CommandError(f"{problem.reason_code} {fields}".strip()) from None

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
        _known_tenant(tenant_id)
        if not 1 <= last <= replays.CALLS_LIMIT:
            raise CommandError(f"--last is a number from 1 to {replays.CALLS_LIMIT}")
        rules = _drafted(file)
        self._report(replays.replay(tenant_id, rules, last, composed().runtime.sealer))

    def _apply(self, options: dict[str, Any]) -> None:
        tenant_id, user = options["tenant"], _user(options["by"])
        _known_tenant(tenant_id)
        rules = _drafted(options["file"])
        written = policy_services.apply_rules(tenant_id=tenant_id, user=user, rules=rules, note=options["note"])
        for version in written:
            self.stdout.write(f"{version.rule.name}@{version.version} {version.verdict}")
        self.stdout.write(f"{len(written)} rules written, {len(rules) - len(written)} as they were")

    def _switch(self, options: dict[str, Any]) -> None:
        kind, is_off, tenant_id = options["kind"], options["state"] == "off", options["tenant"]
        user = _user(options["by"])
        if kind == "platform":
            policy_services.set_platform_switch(is_enabled=not is_off, user=user, note=options["note"])
        elif kind == "tenant":
            policy_services.set_tenant_switch(tenant_id, is_enabled=not is_off, user=user, note=options["note"])
        else:
            _known_tenant(tenant_id)
            if not options["target"]:
                raise CommandError("name what the switch is of, with --target")
            policy_services.throw_switch(
                tenant_id=tenant_id, kind=SwitchKind(kind), target=options["target"], is_off=is_off, user=user,
                note=options["note"],
            )  # fmt: skip
        log.warning("switch %s %s tenant=%s target=%s by=%s", kind, options["state"], tenant_id or "-",
                    options["target"] or "-", user.get_username())  # fmt: skip
        self.stdout.write(f"{kind} is {options['state']}: nothing passes its watermark any more" if is_off else
                          f"{kind} is on")  # fmt: skip

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


def _user(name: str) -> Any:
    found = get_user_model().objects.filter(username=name, is_active=True).first()
    if found is None:
        raise CommandError(f"no active user {name!r}: create one in the console first")
    return found


def _known_tenant(tenant_id: str) -> None:
    if not Tenant.objects.using(OPERATOR_ALIAS).filter(pk=tenant_id).exists():
        raise CommandError(f"there is no tenant {tenant_id!r}")


def _drafted(file: Path) -> list[Rule]:
    try:
        return replays.drafted(json.loads(file.read_text()))
    except (OSError, ValueError) as error:
        raise CommandError(f"{file}: {error}") from None
