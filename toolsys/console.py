"""What every admin class of the console shares: roles decide, reading is the default, lists never count a whole table.

Permissions come from memberships in the person's tenant, never from Django's permission rows or `is_superuser`. Writes
go through one service call each. Imported by the admin modules of every app.
"""

from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from django.conf import settings
from django.contrib import admin
from django.core.paginator import Paginator
from django.db import models
from django.http import Http404, HttpRequest, HttpResponse
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.text import capfirst

from toolsys import inert
from toolsys.domain.states import Role
from toolsys.tenancy import OPERATOR_ALIAS

READERS: Final = frozenset({
    Role.TENANT_ADMIN, Role.EXPERT_APPROVER, Role.CLIENT_APPROVER, Role.TENANT_AUDITOR, Role.DEVELOPER,
})  # fmt: skip
LIST_LIMIT: Final = 1_000
_ICONS: Final = {
    "succeeded": "✓", "completed": "✓", "approved": "✓", "consumed": "✓", "failed": "✗", "rejected": "✗", "denied": "⊘",
    "cancelled": "⊘", "voided": "⊘", "expired": "⊘", "unavailable": "✗", "uncertain": "?", "running": "▶",
    "waiting_for_approval": "‖", "pending": "‖", "delivered": "✓", "enabled": "✓", "disabled": "⊘",
    "new": "+", "written": "✓", "refused": "⊘", "exists": "=", "differs": "≠",
    "open": "▶", "closed": "■",
}  # fmt: skip


if TYPE_CHECKING:
    _ModelAdmin = admin.ModelAdmin[Any]
    _Paginator = Paginator[Any]
else:
    _ModelAdmin = admin.ModelAdmin
    _Paginator = Paginator


def is_still(request: HttpRequest) -> bool:
    """Tell whether the person has asked that the page does not look again by itself."""
    return "still" in request.GET


def looking_again(response: HttpResponse, request: HttpRequest, seconds: int) -> HttpResponse:
    """Let a page of something that goes on ask again by itself, without scripts; it must offer `?still` beside."""
    if not is_still(request):
        response["Refresh"] = str(seconds)
    return response


def chip(status: str, said: str = "") -> SafeString:
    """Return a status as icon and text; colour only repeats what they say. `said` is a page's own word for it."""
    return format_html(
        '<span class="chip chip-{}"><span aria-hidden="true">{}</span> {}</span>',
        status, _ICONS.get(status, "…"), said or status.replace("_", " "),
    )  # fmt: skip


def moment(field: str) -> Callable[[Any], str]:
    """Return a column for a time in UTC, to the second; lists and pages then agree in one form."""

    @admin.display(description=f"{field.removesuffix('_at').replace('_', ' ')} (UTC)", ordering=field)
    def shown(row: Any) -> str:
        value = getattr(row, field)
        return f"{value:%Y-%m-%d %H:%M:%S}" if value is not None else "-"

    shown.__name__ = field
    return shown


def has_role(request: HttpRequest, *roles: str) -> bool:
    """Operators write over a connection of their own: a process that was given none has no operators."""
    console = getattr(request, "console", None)
    held = console.roles & frozenset(roles) if console is not None else frozenset()
    return bool(held - {Role.OPERATOR} if OPERATOR_ALIAS not in settings.DATABASES else held)


def listed(field: str) -> Callable[[Any], str]:
    """Return a column for a list of strings, as people write one."""

    @admin.display(description=field.replace("_", " "))
    def shown(row: Any) -> str:
        return inert.visible(", ".join(getattr(row, field))) or "-"

    shown.__name__ = field
    return shown


def tenant_of(request: HttpRequest) -> str:
    return str(request.console.tenant_id)  # type: ignore[attr-defined]


def parsed_id(text: str) -> UUID:
    """Raises: Http404 for what is no id."""
    try:
        return UUID(text)
    except ValueError:
        raise Http404 from None


class BoundedPaginator(_Paginator):
    """Pages through the first thousand rows: counting all calls of a tenant would cost more than showing them."""

    @cached_property
    def count(self) -> int:
        rows: Any = self.object_list
        return int(rows.order_by()[:LIST_LIMIT].count())


class ReadOnlyAdmin(_ModelAdmin):
    """Shows rows of the person's tenant and changes none."""

    readers = READERS
    paginator = BoundedPaginator
    show_full_result_count = False
    show_facets = admin.ShowFacets.NEVER
    list_per_page = 50
    list_max_show_all = 0
    actions: tuple[str, ...] | None = None
    # What an empty list says: what will be in it, and how it gets there.
    nothing = "There is nothing yet."
    # Django notes changes that its own forms make; rows that no form changes have no history worth a page.
    has_history = False

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        title = {"title": capfirst(str(self.opts.verbose_name_plural))}
        return super().changelist_view(request, title | (extra_context or {}))

    def history_view(
        self, request: HttpRequest, object_id: str, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        if not self.has_history:
            raise Http404
        return super().history_view(request, object_id, extra_context)

    def render_change_form(
        self, request: HttpRequest, context: dict[str, Any], *args: Any, **kwargs: Any
    ) -> HttpResponse:
        if kwargs.get("change") and not self.has_change_permission(request, kwargs.get("obj")):
            context |= {"title": capfirst(str(self.opts.verbose_name))}
        return super().render_change_form(request, context, *args, **kwargs)

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
    """Configuration of the tenant: its admins read and write it, nobody deletes it.

    `identity` names the field that a service finds the row by: it is set once.
    """

    readers = frozenset({Role.TENANT_ADMIN})
    identity = ""
    has_history = True

    def has_add_permission(self, request: HttpRequest) -> bool:
        return has_role(request, Role.TENANT_ADMIN)

    def has_change_permission(self, request: HttpRequest, obj: models.Model | None = None) -> bool:
        return has_role(request, Role.TENANT_ADMIN)

    def get_readonly_fields(self, request: HttpRequest, obj: models.Model | None = None) -> tuple[str, ...]:
        return (self.identity,) if obj is not None and self.identity else ()

    def render_change_form(
        self, request: HttpRequest, context: dict[str, Any], *args: Any, **kwargs: Any
    ) -> HttpResponse:
        one_way_to_save = {"show_save_and_add_another": False, "show_save_and_continue": False}
        return super().render_change_form(request, context | one_way_to_save, *args, **kwargs)
