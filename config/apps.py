"""The Django application of the composition root.

It exists so that management commands can live in `config`; it has no models and does nothing at start.
"""

from django.apps import AppConfig


class ConfigConfig(AppConfig):
    """Makes `config` an installed application; no models."""

    name = "config"

    def ready(self) -> None:
        """Register the system checks: Django offers no other place."""
        from config import checks  # noqa: F401
