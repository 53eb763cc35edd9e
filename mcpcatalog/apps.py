"""The Django app of MCP servers and their catalogs."""

from django.apps import AppConfig


class McpCatalogConfig(AppConfig):
    name = "mcpcatalog"
    verbose_name = "MCP servers"
    default_auto_field = "django.db.models.BigAutoField"
