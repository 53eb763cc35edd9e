"""The console's pages of toolsys: invocations with their fourteen steps, runs, agents, principals, API keys.

Registered on the console's own site by `config.admin_site`. Edges only: a permission check, one service or selector
call, one answer.
"""

from typing import Any
from uuid import UUID

from django import forms
from django.contrib import admin, messages
from django.http import Http404, HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.utils.html import format_html
from django.utils.safestring import SafeString

from toolsys import provisioning, selectors
from toolsys.console import ReadOnlyAdmin, TenantAdminOnly
from toolsys.models import Agent, ApiKey, Invocation, Principal, Run

ICONS = {
    "succeeded": "✓", "failed": "✗", "denied": "⊘", "uncertain": "?", "running": "▶", "authorized": "…",
    "waiting_for_approval": "‖", "proposed": "…", "unavailable": "✗",
}  # fmt: skip


def chip(status: str) -> SafeString:
    """A status as icon and text; colour only repeats what they say."""
    label = status.replace("_", " ")
    return format_html('<span class="chip chip-{}">{} {}</span>', status, ICONS.get(status, "·"), label)


class InvocationAdmin(ReadOnlyAdmin):
    list_display = ("tool_name", "state", "reason_code", "created_at", "duration", "side_effect", "attempt_number")
    list_filter = ("status", "tool_source", "outcome_status", "side_effect")
    search_fields = ("tool_name", "call_id", "idempotency_key", "id")
    search_help_text = "Tool, call id, idempotency key or invocation id"
    ordering = ("-id",)

    @admin.display(description="status")
    def state(self, row: Invocation) -> SafeString:
        return chip(row.outcome_status or row.status)

    @admin.display(description="took")
    def duration(self, row: Invocation) -> str:
        if row.completed_at is None:
            return "-"
        return f"{(row.completed_at - row.created_at).total_seconds() * 1000:,.0f} ms"

    def change_view(
        self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        page = selectors.invocation_page(_uuid(object_id)) if self.has_view_permission(request) else None
        if page is None:
            raise Http404
        context = {
            **self.admin_site.each_context(request), "title": page.row.tool_name, "page": page, "opts": self.opts,
            "chip": chip(page.row.outcome_status or page.row.status),
        }  # fmt: skip
        return TemplateResponse(request, "admin/toolsys/invocation.html", context)


class RunAdmin(ReadOnlyAdmin):
    list_display = ("id", "state", "session", "created_at", "deadline_at", "ended_at")
    list_filter = ("status",)
    ordering = ("-id",)
    fields = ("id", "status", "manifest", "deadline_at", "delivered_trust", "correlation_id", "created_at", "ended_at")

    @admin.display(description="status")
    def state(self, row: Run) -> SafeString:
        return chip(row.status)


class AgentAdmin(TenantAdminOnly):
    list_display = ("name", "enabled_tools", "profile", "is_enabled")
    fields = ("name", "enabled_tools", "profile")

    def save_model(self, request: HttpRequest, obj: Agent, form: Any, change: bool) -> None:
        saved = provisioning.save_agent(_tenant(request), obj.name, obj.enabled_tools, obj.profile)
        obj.pk, obj.tenant_id = saved.pk, saved.tenant_id


class PrincipalAdmin(TenantAdminOnly):
    list_display = ("external_id", "display_name", "scopes")
    fields = ("external_id", "display_name", "scopes")

    def save_model(self, request: HttpRequest, obj: Principal, form: Any, change: bool) -> None:
        saved = provisioning.save_principal(_tenant(request), obj.external_id, obj.scopes, obj.display_name)
        obj.pk, obj.tenant_id = saved.pk, saved.tenant_id


class ApiKeyForm(forms.ModelForm):  # type: ignore[type-arg]
    class Meta:
        model = ApiKey
        fields = ("name", "scopes", "expires_at")


class ApiKeyAdmin(TenantAdminOnly):
    form = ApiKeyForm
    list_display = ("name", "prefix", "scopes", "owner", "last_used_at", "expires_at", "revoked_at")
    actions = ("revoke",)

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return obj is None and super().has_change_permission(request)

    def save_model(self, request: HttpRequest, obj: ApiKey, form: Any, change: bool) -> None:
        row, key = provisioning.create_api_key(
            _tenant(request), obj.name, obj.scopes, owner=request.user, expires_at=obj.expires_at
        )
        obj.pk, obj.tenant_id = row.pk, row.tenant_id
        messages.warning(request, f"Copy the key now, it is shown once: {key}")

    @admin.action(description="Revoke the selected keys")
    def revoke(self, request: HttpRequest, chosen: Any) -> None:
        for row in chosen:
            provisioning.revoke_api_key(row.tenant_id, row.pk)
        messages.success(request, "Revoked. Calls of these keys are denied from now on.")


def _tenant(request: HttpRequest) -> str:
    return str(request.console.tenant_id)  # type: ignore[attr-defined]


def _uuid(text: str) -> UUID:
    try:
        return UUID(text)
    except ValueError:
        raise Http404 from None


PAGES = {Invocation: InvocationAdmin, Run: RunAdmin, Agent: AgentAdmin, Principal: PrincipalAdmin, ApiKey: ApiKeyAdmin}
