"""`manage.py operator USER --tenant T`: gives somebody the operator's role for a tenant, or takes it away.

Tenant admins cannot: whoever classifies servers answers to the deployment, not to the tenant.
"""

import logging
from argparse import ArgumentParser
from typing import Any

from django.contrib.auth import get_user_model
from django.core.management.base import BaseCommand, CommandError

from toolsys import provisioning
from toolsys.models import Tenant
from toolsys.tenancy import OPERATOR_ALIAS

log = logging.getLogger("toolsys.roles")


class Command(BaseCommand):
    help = "Make a person an operator for a tenant: they classify its MCP servers in the console."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("user", help="the user name")
        parser.add_argument("--tenant", required=True)
        parser.add_argument("--end", action="store_true", help="take the role away")

    def handle(self, *args: Any, **options: Any) -> None:
        user = get_user_model().objects.filter(username=options["user"], is_active=True).first()
        if user is None:
            raise CommandError(f"no active user {options['user']!r}")
        tenant_id = options["tenant"]
        if not Tenant.objects.using(OPERATOR_ALIAS).filter(pk=tenant_id).exists():
            raise CommandError(f"there is no tenant {tenant_id!r}")
        if options["end"]:
            if not provisioning.remove_operator(tenant_id, user):
                raise CommandError(f"{user} is no operator for {tenant_id}")
        else:
            provisioning.add_operator(tenant_id, user)
        state = "ended" if options["end"] else "given"
        log.warning("operator role %s user=%s tenant=%s", state, user.get_username(), tenant_id)
        self.stdout.write(f"{user}: operator for {tenant_id} {state}")
