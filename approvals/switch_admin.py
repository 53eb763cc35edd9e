"""The kill switches of an organisation: what is off, who threw it and why; a throw is confirmed by a second POST.

The switches of the platform and of the organisation itself are the operators': they are shown here and not thrown.
Registered on the console's site by `config.admin_site`.
"""

import fnmatch
from typing import Any

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse

from approvals import policy_selectors, policy_services
from approvals.models import KillSwitch
from approvals.policy_forms import SwitchForm
from approvals.ruleset import SwitchKind
from toolsys.console import ReadOnlyAdmin, has_role, tenant_of
from toolsys.domain.reasons import reason
from toolsys.domain.states import Role
from toolsys.models import ApiKey, Invocation, Tenant
from toolsys.problems import Problem

COUNT_LIMIT = 1_000
HISTORY = 50


class KillSwitchAdmin(ReadOnlyAdmin):
    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        may_throw = has_role(request, Role.TENANT_ADMIN)
        if not self.has_view_permission(request) or (request.method == "POST" and not may_throw):
            raise Http404
        form = SwitchForm(request.POST if request.method == "POST" else None)
        is_asked = request.method == "POST" and form.is_valid() and _is_meant(form)
        if is_asked and "confirm" in request.POST and self._is_thrown(request, form):
            return HttpResponseRedirect(request.path)
        if is_asked and not form.errors:
            return self._page(request, form, "admin/approvals/switch_confirm.html", _consequences(form.cleaned_data))
        context = {
            "switches": policy_selectors.newest_switches(), "may_throw": may_throw,
            "throws": KillSwitch.objects.select_related("thrown_by").order_by("-id")[:HISTORY],
            "tenant": Tenant.objects.get(pk=tenant_of(request)),
            "keys": ApiKey.objects.filter(revoked_at=None).order_by("name")[:HISTORY],
        }  # fmt: skip
        return self._page(request, form, "admin/approvals/switches.html", context)

    def change_view(self, *args: Any, **kwargs: Any) -> HttpResponse:
        raise Http404

    def _is_thrown(self, request: HttpRequest, form: SwitchForm) -> bool:
        given = form.cleaned_data
        try:
            policy_services.throw_switch(
                tenant_id=tenant_of(request), kind=SwitchKind(given["kind"]), target=given["target"],
                is_off=given["is_off"], user=request.user, note=given["note"],
            )  # fmt: skip
        except Problem as problem:
            form.add_error("target", reason(problem.reason_code).message)
            return False
        state = "off: nothing of it passes its watermark any more" if given["is_off"] else "on again"
        messages.success(request, f"The {given['kind']} {given['target']} is {state}.")
        return True

    def _page(self, request: HttpRequest, form: SwitchForm, template: str, context: dict[str, Any]) -> HttpResponse:
        shared = {
            **self.admin_site.each_context(request), "title": "Kill switches", "opts": self.opts, "form": form,
            **context,
        }  # fmt: skip
        return TemplateResponse(request, template, shared, status=422 if form.errors else None)


def _is_meant(form: SwitchForm) -> bool:
    """Put what the switch would be of in place of what was written, or say what is wrong with it."""
    given = form.cleaned_data
    try:
        given["target"] = policy_services.switch_target(SwitchKind(given["kind"]), given["target"])
    except Problem as problem:
        words = [error.message for error in problem.errors] or [reason(problem.reason_code).message]
        form.add_error("target", words[0])
        return False
    return True


def _consequences(given: dict[str, Any]) -> dict[str, Any]:
    """Count what is under way and would not be sent any more: of open calls there are few."""
    field = {"server": "server_id", "tool": "tool_name__in", "key": "api_key_id"}[given["kind"]]
    waiting = Invocation.objects.filter(completed_at=None, effect_sent_at=None, status__in=[
        "proposed", "authorized", "waiting_for_approval", "running",
    ])  # fmt: skip
    target = given["target"]
    if given["kind"] == "tool":
        names = waiting.order_by().values_list("tool_name", flat=True).distinct()[:COUNT_LIMIT]
        target = fnmatch.filter(names, target)
    return {"count": waiting.filter(**{field: target})[:COUNT_LIMIT].count(), "given": given}


PAGES = {KillSwitch: KillSwitchAdmin}
