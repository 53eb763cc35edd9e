"""The console's pages of toolsys: invocations with their fourteen steps, runs, MCP conversations, agents, keys.

Registered on the console's own site by `config.admin_site`. Edges only: a permission check, one service or selector
call, one answer.
"""

from typing import Any, ClassVar, Final
from uuid import UUID

from django.conf import settings
from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.db.models import Q, QuerySet
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString

from toolsys import allowances, evidence, explanations, inert, provisioning, resolutions, selectors, timeline
from toolsys.composition import composed
from toolsys.console import (
    READERS,
    ReadOnlyAdmin,
    TenantAdminOnly,
    chip,
    has_role,
    listed,
    moment,
    parsed_id,
    tenant_of,
)
from toolsys.domain.states import InvocationStatus, Role, RunStatus
from toolsys.evidence import EffectProbe
from toolsys.forms import AgentForm, AllowanceForm, ApiKeyForm, FindingForm, PrincipalForm
from toolsys.models import Agent, ApiKey, EgressAllowance, Invocation, McpClientSession, Principal, Run
from toolsys.problems import Problem

RUN_TIMES: Final = (moment("created_at"), moment("deadline_at"), moment("ended_at"))
CONVERSATION_TIMES: Final = (moment("created_at"), moment("last_call_at"), moment("closed_at"))


class ToolFilter(admin.SimpleListFilter):
    """Tools of the newest calls: a list of all that were ever called would read the whole table."""

    title = "tool"
    parameter_name = "tool"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [(name, inert.visible(name)) for name in selectors.recent_tool_names()]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Invocation]) -> QuerySet[Invocation]:
        return queryset.filter(tool_name=self.value()) if self.value() else queryset


class InvocationAdmin(ReadOnlyAdmin):
    list_display = ("tool", "state", "reason_code", moment("created_at"), "took", "side_effect")
    sortable_by = ()
    list_filter = ("status", "outcome_status", ToolFilter, "tool_source")
    search_fields = ("id",)
    search_help_text = "An invocation, run, idempotency key, call id or tool, exactly"
    ordering = ("-id",)
    nothing = "No call yet. What a runtime proposes with POST /v1/runs/…/steps appears here, whatever became of it."

    @admin.display(description="tool")
    def tool(self, row: Invocation) -> str:
        return inert.visible(row.tool_name)

    @admin.display(description="status")
    def state(self, row: Invocation) -> SafeString:
        return chip(row.outcome_status or row.status)

    @admin.display(description="took")
    def took(self, row: Invocation) -> str:
        if row.completed_at is None:
            return "-"
        return timeline.duration((row.completed_at - row.created_at).total_seconds() * 1000)

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Any], search_term: str
    ) -> tuple[QuerySet[Any], bool]:
        """Look for equality: a pattern over ids would read every row."""
        term = search_term.strip()
        if not term:
            return queryset, False
        try:
            found = Q(pk=UUID(term)) | Q(run_id=UUID(term))
        except ValueError:
            found = Q(idempotency_key=term) | Q(call_id=term) | Q(tool_name=term)
        return queryset.filter(found), False

    def change_view(
        self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        page = selectors.invocation_page(parsed_id(object_id)) if self.has_view_permission(request) else None
        if page is None:
            raise Http404
        context = {
            **self.admin_site.each_context(request), "title": inert.visible(page.row.tool_name), "page": page,
            "opts": self.opts, "chip": chip(page.status),
        }  # fmt: skip
        if page.row.status == InvocationStatus.UNCERTAIN:
            context |= {"evidence": evidence.evidence_of(page.row), "findings": evidence.findings_on(page.row.pk)}
            context["probe"] = _probes(request, {page.row.tool_name}).get(page.row.tool_name)
        return TemplateResponse(request, "admin/toolsys/invocation.html", context)

    def get_urls(self) -> list[URLPattern]:
        view = self.admin_site.admin_view
        return [
            path("uncertain/", view(self.uncertain_view), name="toolsys_invocation_uncertain"),
            path("uncertain/<uuid:call_id>/", view(self.finding_view), name="toolsys_invocation_finding"),
            path("<str:object_id>/explain/", view(self.explain_view), name="toolsys_invocation_explain"),
            *super().get_urls(),
        ]

    def uncertain_view(self, request: HttpRequest) -> HttpResponse:
        """Show what nobody knows, with what is proved of each: operators find out, the tenant's people wait for it."""
        if not has_role(request, *READERS, Role.OPERATOR):
            raise PermissionDenied
        found = evidence.uncertain_calls(tenant_of(request), limit=evidence.QUEUE_LENGTH + 1, using="default")
        shown = found[: evidence.QUEUE_LENGTH]
        probes = _probes(request, {call.tool_name for call in shown})
        context = {
            **self.admin_site.each_context(request), "title": "Uncertain calls", "may_record": _may_record(request),
            "calls": [(call, probes.get(call.tool_name)) for call in shown], "has_more": len(found) > len(shown),
        }  # fmt: skip
        return TemplateResponse(request, "admin/toolsys/uncertain.html", context)

    def finding_view(self, request: HttpRequest, call_id: UUID) -> HttpResponse:
        """Let an operator record what was found out about one of them; what others recorded before stays beside it."""
        if not _may_record(request):
            raise PermissionDenied
        call = evidence.uncertain_call(tenant_of(request), call_id)
        if call is None:
            raise Http404
        form = FindingForm(request.POST if request.method == "POST" else None)
        if form.is_valid() and _is_recorded(request, call_id, form):
            messages.success(request, f"Recorded for {inert.visible(call.tool_name)}.")
            return HttpResponseRedirect(reverse("admin:toolsys_invocation_uncertain"))
        context = {
            **self.admin_site.each_context(request), "title": "Record a finding", "call": call, "form": form,
            "findings": evidence.findings_on(call_id), "probe": _probes(request, {call.tool_name}).get(call.tool_name),
        }  # fmt: skip
        return TemplateResponse(request, "admin/toolsys/finding.html", context)

    def explain_view(self, request: HttpRequest, object_id: str) -> HttpResponse:
        found = explanations.explain(parsed_id(object_id)) if self.has_view_permission(request) else None
        if found is None:
            raise Http404
        context = {
            **self.admin_site.each_context(request), "title": f"Why {inert.visible(found.tool_name)} became this",
            "found": found, "opts": self.opts, "chip": chip(found.status),
        }  # fmt: skip
        return TemplateResponse(request, "admin/toolsys/explanation.html", context)


def _probes(request: HttpRequest, tool_names: set[str]) -> dict[str, EffectProbe]:
    return evidence.probes_of(tenant_of(request), tool_names, settings.TOOLSYS.effect_probes, composed().registry)


def _may_record(request: HttpRequest) -> bool:
    return has_role(request, Role.OPERATOR)


def _is_recorded(request: HttpRequest, call_id: UUID, form: FindingForm) -> bool:
    try:
        resolutions.resolve(tenant_id=tenant_of(request), invocation_id=call_id, user=request.user, **form.finding())
    except Problem as problem:
        form.add_problem(problem)
        return False
    return True


class RunFilter(admin.SimpleListFilter):
    title = "status"
    parameter_name = "status"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [(status.value, status.replace("_", " ")) for status in RunStatus]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Run]) -> QuerySet[Run]:
        return queryset.filter(status=self.value()) if self.value() else queryset


class RunAdmin(ReadOnlyAdmin):
    list_display = ("id", "state", "agent", "principal", *RUN_TIMES)
    sortable_by = ()
    list_filter = (RunFilter,)
    list_select_related = ("session__agent", "session__principal")
    ordering = ("-id",)
    nothing = "No run yet. A runtime starts one with POST /v1/sessions/…/runs."
    fields: ClassVar[Any] = (
        "id", "state", "agent", "principal", "calls", "manifest", *RUN_TIMES, "delivered_trust", "failure_reason_code",
        "correlation_id",
    )  # fmt: skip

    @admin.display(description="status")
    def state(self, row: Run) -> SafeString:
        return chip(row.status)

    @admin.display(description="agent")
    def agent(self, row: Run) -> str:
        return str(row.session.agent)

    @admin.display(description="for")
    def principal(self, row: Run) -> str:
        return inert.visible(str(row.session.principal))

    @admin.display(description="calls")
    def calls(self, row: Run) -> SafeString:
        where = f"{reverse('admin:toolsys_invocation_changelist')}?run__id__exact={row.pk}"
        return format_html('<a href="{}">its invocations</a>', where)


class ConversationAdmin(ReadOnlyAdmin):
    list_display = ("key", "state", "agent", "principal", "revision", "count", *CONVERSATION_TIMES)
    sortable_by = ()
    list_select_related = ("api_key", "session__agent", "session__principal")
    ordering = ("-id",)
    nothing = "No conversation yet. An MCP client that speaks to /mcp with a key of yours begins one."
    fields: ClassVar[Any] = (
        "id", "state", "key", "agent", "principal", "environment", "revision", "began", "count", "now", "calls",
        *CONVERSATION_TIMES,
    )  # fmt: skip

    @admin.display(description="key")
    def key(self, row: McpClientSession) -> str:
        return inert.visible(row.api_key.name)

    @admin.display(description="status")
    def state(self, row: McpClientSession) -> SafeString:
        return chip("closed" if row.closed_at else "open")

    @admin.display(description="agent")
    def agent(self, row: McpClientSession) -> str:
        return str(row.session.agent)

    @admin.display(description="for")
    def principal(self, row: McpClientSession) -> str:
        return inert.visible(str(row.session.principal))

    @admin.display(description="environment")
    def environment(self, row: McpClientSession) -> str:
        return inert.visible(row.session.environment)

    @admin.display(description="begun by")
    def began(self, row: McpClientSession) -> str:
        return "a handshake" if row.context is None else "its first request; the key and its headers name it"

    @admin.display(description="calls")
    def count(self, row: McpClientSession) -> int:
        return row.next_step - 1

    @admin.display(description="run of now")
    def now(self, row: McpClientSession) -> SafeString:
        return format_html('<a href="{}">{}</a>', reverse("admin:toolsys_run_change", args=[row.run_id]), row.run_id)

    @admin.display(description="calls of this run")
    def calls(self, row: McpClientSession) -> SafeString:
        where = f"{reverse('admin:toolsys_invocation_changelist')}?run__id__exact={row.run_id}"
        return format_html('<a href="{}">its invocations</a>', where)


class AgentAdmin(TenantAdminOnly):
    form = AgentForm
    identity = "name"
    list_display = ("name", listed("enabled_tools"), "profile", "is_enabled")
    nothing = "No agent yet. Add one: a session is opened for an agent, and gets the tools that it enables."

    def save_model(self, request: HttpRequest, obj: Agent, form: Any, change: bool) -> None:
        saved = provisioning.save_agent(
            tenant_of(request), obj.name, obj.enabled_tools, obj.profile, is_enabled=obj.is_enabled
        )
        obj.pk = saved.pk


class PrincipalAdmin(TenantAdminOnly):
    form = PrincipalForm
    identity = "external_id"
    list_display = ("called", "display_name", listed("scopes"))
    nothing = "No principal yet. Add whoever agents act for: a call needs its scopes from principal and key alike."

    @admin.display(description="external id")
    def called(self, row: Principal) -> str:
        return inert.visible(row.external_id)

    def save_model(self, request: HttpRequest, obj: Principal, form: Any, change: bool) -> None:
        saved = provisioning.save_principal(tenant_of(request), obj.external_id, obj.scopes, obj.display_name)
        obj.pk = saved.pk


class ApiKeyAdmin(TenantAdminOnly):
    form = ApiKeyForm
    list_display = (
        "name", "prefix", listed("scopes"), "owner", moment("created_at"), moment("last_used_at"), moment("expires_at"),
        moment("revoked_at"),
    )  # fmt: skip
    nothing = "No key yet. A runtime proposes calls with a key: add one, and copy it then."
    fields = ("name", "scopes", "expires_at")
    actions = ("revoke",)

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """A key is never changed: it is revoked, and another made."""
        return obj is None and super().has_change_permission(request)

    def save_model(self, request: HttpRequest, obj: ApiKey, form: Any, change: bool) -> None:
        row, key = provisioning.create_api_key(
            tenant_of(request), obj.name, obj.scopes, owner=request.user, expires_at=obj.expires_at
        )
        obj.pk = row.pk
        request.key_shown_once = key  # type: ignore[attr-defined]

    def response_add(self, request: HttpRequest, obj: ApiKey, post_url_continue: str | None = None) -> HttpResponse:
        """Show the key in this answer: a redirect would need it stored somewhere."""
        context = {
            **self.admin_site.each_context(request), "title": "API key created", "opts": self.opts, "row": obj,
            "key": request.key_shown_once,  # type: ignore[attr-defined]
        }  # fmt: skip
        return TemplateResponse(request, "admin/toolsys/api_key_created.html", context)

    @admin.action(description="Revoke the selected keys", permissions=["change"])
    def revoke(self, request: HttpRequest, chosen: QuerySet[ApiKey]) -> None:
        for row in chosen:
            provisioning.revoke_api_key(row.tenant_id, row.pk)
        messages.success(request, "Revoked. Calls of these keys are denied from now on.")


class EgressAllowanceAdmin(TenantAdminOnly):
    """Which hosts the tenant's servers may reach. A row is added and withdrawn, never changed."""

    readers = frozenset({Role.TENANT_ADMIN, Role.TENANT_AUDITOR, Role.OPERATOR})
    form = AllowanceForm
    list_display = ("origin", "note", "added_by", moment("created_at"))
    nothing = "No host yet. An MCP server can only be added at a host that is listed here."
    fields = ("origin", "note")
    actions = ("withdraw",)

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return obj is None and super().has_change_permission(request)

    def save_model(self, request: HttpRequest, obj: EgressAllowance, form: Any, change: bool) -> None:
        saved = allowances.allow(tenant_of(request), obj.origin, user=request.user, note=obj.note)
        obj.pk = saved.pk

    @admin.action(description="Withdraw the selected hosts", permissions=["change"])
    def withdraw(self, request: HttpRequest, chosen: QuerySet[EgressAllowance]) -> None:
        for row in chosen:
            allowances.withdraw(row.tenant_id, row.pk, user=request.user)
        messages.success(request, "Withdrawn. No server is dialled there from now on.")


PAGES = {
    Invocation: InvocationAdmin,
    Run: RunAdmin,
    McpClientSession: ConversationAdmin,
    Agent: AgentAdmin,
    Principal: PrincipalAdmin,
    ApiKey: ApiKeyAdmin,
    EgressAllowance: EgressAllowanceAdmin,
}
