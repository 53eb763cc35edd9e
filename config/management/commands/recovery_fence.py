"""`manage.py recovery_fence`: after a promotion or a restore, which may have lost watermarks (DESIGN §4).

Every call that was not terminal then counts as sent: writes that cannot be repeated end as uncertain, for a person.
"""

from typing import Any

from django.core.management.base import BaseCommand
from django.db.models import F

from toolsys.models import PlatformState
from toolsys.tenancy import OPERATOR_ALIAS


class Command(BaseCommand):
    help = "Raise the database epoch after a promotion or a restore, before workers start again."

    def handle(self, *args: Any, **options: Any) -> None:
        state = PlatformState.objects.using(OPERATOR_ALIAS)
        state.update(database_epoch=F("database_epoch") + 1)
        self.stdout.write(
            f"database epoch {state.get().database_epoch}: every open call of an older one counts as sent"
        )
