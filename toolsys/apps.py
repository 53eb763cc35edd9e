"""Django's registration of toolsys. No work in `ready()`: wiring is explicit, in `config.wiring`."""

from django.apps import AppConfig


class ToolsysConfig(AppConfig):
    name = "toolsys"
    verbose_name = "Tool execution"
    default_auto_field = "django.db.models.BigAutoField"
