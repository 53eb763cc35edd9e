"""What every admin class of the console shares: roles decide, and reading is the default.

Permissions come from memberships in the person's tenant, never from Django's permission rows or `is_superuser`. Writes
go through one service call each.
"""

from typing import TYPE_CHECKING, Any, Final

from django.contrib import admin
from django.db import models
from django.http import HttpRequest

from toolsys.domain.states import Role

READERS: Final = frozenset({
    Role.TENANT_ADMIN, Role.EXPERT_APPROVER, Role.CLIENT_APPROVER, Role.TENANT_AUDITOR, Role.DEVELOPER,
})  # fmt: skip


if TYPE_CHECKING:
    _ModelAdmin = admin.ModelAdmin[Any]
else:
    _ModelAdmin = admin.ModelAdmin


def has_role(request: HttpRequest, *roles: str) -> bool:
    console = getattr(request, "console", None)
    return console is not None and bool(console.roles & frozenset(roles))


class ReadOnlyAdmin(_ModelAdmin):
    """Shows rows of the person's tenant and changes none."""

    readers = READERS
    show_full_result_count = False
    list_per_page = 50
    actions: tuple[str, ...] | None = None

    def has_module_permission(self, request: HttpRequest) -> bool:
        return has_role(request, *self.readers)

    def has_view_permission(self, request: HttpRequest, obj: models.Model | None = None) -> bool:
        return has_role(request, *self.readers)

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: models.Model | None = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: models.Model | None = None) -> bool:
        return False


class TenantAdminOnly(ReadOnlyAdmin):
    """Configuration of the tenant: its admins read and write it, nobody deletes it."""

    readers = frozenset({Role.TENANT_ADMIN})

    def has_add_permission(self, request: HttpRequest) -> bool:
        return has_role(request, Role.TENANT_ADMIN)

    def has_change_permission(self, request: HttpRequest, obj: models.Model | None = None) -> bool:
        return has_role(request, Role.TENANT_ADMIN)
