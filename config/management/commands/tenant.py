"""`manage.py tenant`: makes an organisation, gives people their roles in it, and rolls tool calling out or back.

For whoever operates the deployment: it needs the operators' database. A password of a new person is made here, printed
once and stored as a hash only.
"""

import logging
import secrets
from argparse import ArgumentParser
from typing import Any

from django.contrib.auth import get_user_model
from django.core.exceptions import ValidationError
from django.core.management.base import BaseCommand, CommandError
from django.db import IntegrityError

from toolsys import provisioning
from toolsys.domain.states import Role
from toolsys.models import Tenant
from toolsys.tenancy import OPERATOR_ALIAS

log = logging.getLogger("toolsys.roles")
GIVEN = sorted({*Role} - {Role.OPERATOR, Role.PLATFORM_AUDITOR, Role.ANONYMOUS})


class Command(BaseCommand):
    help = "Make an organisation, give somebody a role in it or take it away, turn tool calling on or off."

    def add_arguments(self, parser: ArgumentParser) -> None:
        ways = parser.add_subparsers(dest="way", required=True)
        create = ways.add_parser("create", help="make an organisation; its tool calling is off until it is turned on")
        create.add_argument("tenant")
        create.add_argument("--name", required=True)
        member = ways.add_parser("member", help="give a person a role; who is unknown is made, with a password")
        member.add_argument("tenant")
        member.add_argument("user")
        member.add_argument("role", choices=GIVEN)
        member.add_argument("--end", action="store_true", help="take the role away")
        calling = ways.add_parser("tool-calling", help="the organisation's feature flag")
        calling.add_argument("tenant")
        calling.add_argument("state", choices=["on", "off"])

    def handle(self, *args: Any, **options: Any) -> None:
        if options["way"] == "create":
            self._create(options["tenant"], options["name"])
            return
        if not Tenant.objects.using(OPERATOR_ALIAS).filter(pk=options["tenant"]).exists():
            raise CommandError(f"there is no tenant {options['tenant']!r}")
        if options["way"] == "member":
            self._member(options["tenant"], options["user"], Role(options["role"]), is_ended=options["end"])
            return
        provisioning.set_tool_calling(options["tenant"], is_enabled=options["state"] == "on")
        log.warning("tool calling %s tenant=%s", options["state"], options["tenant"])
        self.stdout.write(f"{options['tenant']}: tool calling is {options['state']}")

    def _create(self, tenant_id: str, name: str) -> None:
        try:
            provisioning.create_tenant(tenant_id, name)
        except ValidationError as error:
            raise CommandError("; ".join(error.messages)) from None
        except IntegrityError:
            raise CommandError(f"there is a tenant {tenant_id!r} already") from None
        self.stdout.write(f"{tenant_id}: made; its tool calling is off")

    def _member(self, tenant_id: str, username: str, role: Role, *, is_ended: bool) -> None:
        users = get_user_model().objects
        user = users.filter(username=username).first()
        if is_ended:
            if user is None or not provisioning.remove_member(tenant_id, user, role):
                raise CommandError(f"{username} is no {role} of {tenant_id}")
        else:
            if user is None:
                password = secrets.token_urlsafe(12)
                user = users.create_user(username=username, password=password)
                self.stdout.write(f"{username}: made, with the password {password} (change it after signing in)")
            provisioning.add_member(tenant_id, user, role)
        state = "ended" if is_ended else "given"
        log.warning("role %s %s user=%s tenant=%s", role, state, username, tenant_id)
        self.stdout.write(f"{username}: {role} of {tenant_id} {state}")
