"""The web process's entry point: `granian --interface wsgi config.wsgi:application`."""

import os

from django.core.wsgi import get_wsgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
application = get_wsgi_application()

from config.checks import require_safe_database  # noqa: E402 - needs the settings that the line above loads

require_safe_database()
