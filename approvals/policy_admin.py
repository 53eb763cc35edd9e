"""The policy pages: rules with their versions, profiles and tool permissions. Registered by `config.admin_site`.

Who belongs to the organisation reads; its admins write, one service call each. A rule is never changed: an edit is its
next version, and a form that shows an older one than the newest is refused. Trials are in `trial_admin`.
"""

from typing import Any, ClassVar

from django.conf import settings
from django.contrib import messages
from django.contrib.admin import display
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse

from approvals import policy_services, rule_forms, rule_history, trial_admin
from approvals.models import PolicyProfile, PolicyRule, ToolPermission
from approvals.policy_forms import PermissionForm
from approvals.rule_forms import RuleForm
from toolsys.console import ReadOnlyAdmin, has_role, parsed_id, tenant_of
from toolsys.domain.states import Role
from toolsys.models import Agent
from toolsys.problems import Problem
from toolsys.timeline import duration


def may_write(request: HttpRequest) -> bool:
    return has_role(request, Role.TENANT_ADMIN)


class PolicyRuleAdmin(ReadOnlyAdmin):
    def get_urls(self) -> list[URLPattern]:
        def page(view: Any) -> Any:
            return self.admin_site.admin_view(lambda request: view(self, request))

        return [
            path("replay/", page(trial_admin.replay_view), name="approvals_policyrule_replay"),
            path("foresee/", page(trial_admin.foresee_view), name="approvals_policyrule_foresee"),
            *super().get_urls(),
        ]

    def has_add_permission(self, request: HttpRequest) -> bool:
        return may_write(request)

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        if not self.has_view_permission(request):
            raise Http404
        context = {
            **self.admin_site.each_context(request), "title": "Policy rules", "opts": self.opts,
            "rules": rule_history.rules(), "may_write": may_write(request),
        }  # fmt: skip
        return TemplateResponse(request, "admin/approvals/rules.html", context)

    def add_view(
        self, request: HttpRequest, form_url: str = "", extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        if not may_write(request):
            raise Http404
        return self._page(request, [], RuleForm(request.POST or None))

    def change_view(
        self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        versions = rule_history.versions(parsed_id(object_id)) if self.has_view_permission(request) else []
        if not versions or (request.method == "POST" and not may_write(request)):
            raise Http404
        known = rule_forms.initial(versions[0].row)
        given = {**request.POST.dict(), "name": known["name"]}
        form = RuleForm(_posted(request, given), initial={**known, "note": ""})
        return self._page(request, versions, form)

    def _page(self, request: HttpRequest, versions: list[rule_history.Version], form: RuleForm) -> HttpResponse:
        is_stale, tried = False, None
        if request.method == "POST" and form.is_valid():
            is_stale = bool(versions) and form.cleaned_data["seen"] != versions[0].row.version
            if "try" in request.POST:
                tried = trial_admin.tried(request, form)
            elif not is_stale and (saved := self._saved(request, form, bool(versions))) is not None:
                return saved
        if versions:
            form.fields["name"].disabled = True
        context = {
            **self.admin_site.each_context(request), "title": versions[0].row.rule.name if versions else "New rule",
            "opts": self.opts, "versions": versions, "form": form, "may_write": may_write(request),
            "is_stale": is_stale, "tried": tried,
        }  # fmt: skip
        status = 409 if is_stale and tried is None else 422 if form.errors else None
        return TemplateResponse(request, "admin/approvals/rule.html", context, status=status)

    def _saved(self, request: HttpRequest, form: RuleForm, is_known: bool) -> HttpResponse | None:
        given = form.cleaned_data
        if not is_known and PolicyRule.objects.filter(name=given["name"]).exists():
            form.add_error("name", "There is a rule of this name: open it to write its next version.")
            return None
        try:
            row = policy_services.save_rule(
                tenant_id=tenant_of(request), user=request.user, name=given["name"], verdict=given["verdict"],
                match=form.match(), priority=given["priority"], note=given["note"], is_active=given["is_active"],
                seats=given["seats"],
            )  # fmt: skip
        except Problem as problem:
            form.add_problem(problem)
            return None
        messages.success(request, f"Version {row.version} of {given['name']} counts from now on.")
        return HttpResponseRedirect(reverse("admin:approvals_policyrule_change", args=[row.rule_id]))


class PolicyProfileAdmin(ReadOnlyAdmin):
    nothing = "No profile is written down: each is as strict as the matrix, and nothing may loosen it."
    list_display = ("name", "may_loosen", "time_to_decide", "time_to_use")
    sortable_by = ()
    ordering = ("name",)
    fields: ClassVar[Any] = ("name", "may_loosen", "time_to_decide", "time_to_use")
    readonly_fields: ClassVar[Any] = ("may_loosen", "time_to_decide", "time_to_use")

    def may_loosen(self, row: PolicyProfile) -> str:
        said = [f"{effect} down to {verdict}".replace("_", " ") for effect, verdict in sorted(row.mildest.items())]
        return "; ".join(said) or "nothing"

    @display(description="time to decide")
    def time_to_decide(self, row: PolicyProfile) -> str:
        return _time(row.expires_seconds, settings.TOOLSYS.approval_expiry_seconds)

    @display(description="time to use an approval")
    def time_to_use(self, row: PolicyProfile) -> str:
        return _time(row.consume_seconds, settings.TOOLSYS.approval_consume_seconds)


class ToolPermissionAdmin(ReadOnlyAdmin):
    """The whole list and its one form on one page; a row is enabled, disabled or taken away."""

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        if not self.has_view_permission(request) or (request.method == "POST" and not may_write(request)):
            raise Http404
        agents = list(Agent.objects.order_by("name").values_list("name", flat=True)[:1_000])
        is_adding = request.method == "POST" and "remove" not in request.POST
        form = PermissionForm(request.POST if is_adding else None, agents=agents)
        if request.method == "POST" and self._is_done(request, form, is_adding):
            return HttpResponseRedirect(request.path)
        context = {
            **self.admin_site.each_context(request), "title": "Tool permissions", "opts": self.opts, "form": form,
            "rows": ToolPermission.objects.select_related("agent").order_by("agent__name", "tools")[:1_000],
            "may_write": may_write(request),
        }  # fmt: skip
        return TemplateResponse(
            request, "admin/approvals/permissions.html", context, status=422 if form.errors else None
        )

    def _is_done(self, request: HttpRequest, form: PermissionForm, is_adding: bool) -> bool:
        tenant_id = tenant_of(request)
        if not is_adding:
            try:
                policy_services.remove_permission(tenant_id=tenant_id, permission_id=parsed_id(request.POST["remove"]))
            except Problem:
                raise Http404 from None
            messages.success(request, "Taken away. It counts from the next watermark on.")
            return True
        if not form.is_valid():
            return False
        given = form.cleaned_data
        policy_services.permit_tools(
            tenant_id=tenant_id, tools=given["tools"], is_enabled=given["is_enabled"],
            agent_name=given["agent"] or None,
        )  # fmt: skip
        messages.success(request, f"{given['tools']} is {'enabled' if given['is_enabled'] else 'disabled'}.")
        return True

    def change_view(self, *args: Any, **kwargs: Any) -> HttpResponse:
        raise Http404


def _time(own: float | None, of_deployment: float) -> str:
    """Say what counts, as `gate.SeatDesk` takes it."""
    return duration(own * 1000) if own else f"{duration(of_deployment * 1000)}, as everywhere in this deployment"


def _posted(request: HttpRequest, given: dict[str, Any]) -> Any:
    """The name of a rule is not the form's to say: it is put in, whatever was sent."""
    if request.method != "POST":
        return None
    sent = request.POST.copy()
    sent["name"] = given["name"]
    return sent


PAGES = {PolicyRule: PolicyRuleAdmin, PolicyProfile: PolicyProfileAdmin, ToolPermission: ToolPermissionAdmin}
