"""`manage.py up`, as listed by `manage.py help`.

`manage.py` itself calls `config.up` before Django loads; this module is reached through `django-admin` only.
"""

import sys
from typing import Any

from django.core.management.base import BaseCommand

from config import up


class Command(BaseCommand):
    """Start everything on this machine and keep it running."""

    help = "Start everything on this machine (servers, migrations, web, worker, scheduler) and keep it running."

    def handle(self, *_args: Any, **_options: Any) -> None:
        """Run until told to stop."""
        sys.exit(up.main([]))
