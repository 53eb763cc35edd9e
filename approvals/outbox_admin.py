"""The outbox's pages: who is told of what, each message with its attempts, sending again. Registered by `admin_site`.

Tenant admins write, auditors read. A webhook's secret is shown in the answer that made it, and never again.
"""

from typing import Any, ClassVar
from uuid import UUID

from django import forms
from django.conf import settings
from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils.module_loading import import_string
from django.utils.safestring import SafeString

from approvals import notify
from approvals.messages import PING, TYPES
from approvals.models import Delivery, DeliveryAttempt, NotificationEndpoint
from approvals.outbox_models import EndpointKind
from toolsys.composition import composed
from toolsys.console import ReadOnlyAdmin, chip, has_role, moment, parsed_id, tenant_of
from toolsys.domain.states import Role
from toolsys.problems import Problem

READERS = frozenset({Role.TENANT_ADMIN, Role.TENANT_AUDITOR})
ATTEMPTS_SHOWN = 50


class EndpointForm(forms.Form):
    name = forms.CharField(max_length=notify.NAME_LIMIT)
    kind = forms.ChoiceField(choices=[(kind.value, kind.value) for kind in EndpointKind])
    target = forms.CharField(
        max_length=notify.TARGET_LIMIT, help_text="An https:// address, or an e-mail address; it sees no arguments"
    )
    types = forms.MultipleChoiceField(
        choices=[(name, f"{name}: {said}") for name, said in TYPES.items()], label="Tell it of",
        widget=forms.CheckboxSelectMultiple,
    )  # fmt: skip
    is_enabled = forms.BooleanField(required=False, initial=True, label="On")

    def add_problem(self, problem: Problem) -> None:
        for error in problem.errors:
            field = error.pointer.strip("/")
            self.add_error(field if field in self.fields else None, error.message)
        if not problem.errors:
            self.add_error(None, problem.reason_code)


class NotificationEndpointAdmin(ReadOnlyAdmin):
    readers = READERS
    nothing = "Nobody is told yet. Add a webhook or an e-mail address, and choose the events that it is told of."
    list_display = ("name", "kind", "target", "state", "told_of")
    sortable_by = ()
    ordering = ("name",)

    def state(self, row: NotificationEndpoint) -> SafeString | str:
        return "on" if row.is_enabled else f"off ({row.disabled_reason.replace('_', ' ')})"

    def told_of(self, row: NotificationEndpoint) -> str:
        return ", ".join(row.types)

    def has_add_permission(self, request: HttpRequest) -> bool:
        return has_role(request, Role.TENANT_ADMIN)

    def add_view(
        self, request: HttpRequest, form_url: str = "", extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        if not self.has_add_permission(request):
            raise Http404
        form = EndpointForm(request.POST or None)
        if request.method == "POST" and form.is_valid():
            given = form.cleaned_data
            try:
                row, secret = notify.create_endpoint(
                    tenant_id=tenant_of(request), user=request.user, name=given["name"],
                    kind=EndpointKind(given["kind"]), target=given["target"], types=given["types"],
                    sealer=composed().runtime.sealer, policy_for=_policy(),
                )  # fmt: skip
            except Problem as problem:
                form.add_problem(problem)
            else:
                return self._page(request, row, None, secret=secret)
        return self._page(request, None, form)

    def change_view(
        self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        found = NotificationEndpoint.objects.filter(pk=parsed_id(object_id)).select_related("created_by")
        row = found.first() if self.has_view_permission(request) else None
        if row is None or (request.method == "POST" and not self.has_add_permission(request)):
            raise Http404
        if request.method == "POST" and "rotate" in request.POST:
            row, secret = notify.rotate_secret(
                tenant_id=row.tenant_id, endpoint_id=row.pk, sealer=composed().runtime.sealer
            )
            return self._page(request, row, None, secret=secret)
        if request.method == "POST" and "test" in request.POST:
            sent = notify.send_test(tenant_id=row.tenant_id, endpoint_id=row.pk)
            messages.success(request, "A test message is on its way.")
            return HttpResponseRedirect(reverse("admin:approvals_delivery_change", args=[sent.pk]))
        return self._edited(request, row)

    def _edited(self, request: HttpRequest, row: NotificationEndpoint) -> HttpResponse:
        known = {name: getattr(row, name) for name in ("name", "kind", "target", "types", "is_enabled")}
        form = EndpointForm(request.POST if request.method == "POST" else None, initial=known)
        for name in ("name", "kind"):
            form.fields[name].disabled = True
        if request.method == "POST" and form.is_valid():
            given = form.cleaned_data
            try:
                notify.change_endpoint(
                    tenant_id=row.tenant_id, endpoint_id=row.pk, target=given["target"], types=given["types"],
                    is_enabled=given["is_enabled"], policy_for=_policy(),
                )  # fmt: skip
            except Problem as problem:
                form.add_problem(problem)
            else:
                messages.success(request, "Saved.")
                return HttpResponseRedirect(request.path)
        return self._page(request, row, form)

    def _page(
        self, request: HttpRequest, row: NotificationEndpoint | None, form: EndpointForm | None, secret: str = ""
    ) -> HttpResponse:
        context = {
            **self.admin_site.each_context(request), "title": row.name if row else "New endpoint", "opts": self.opts,
            "row": row, "form": form, "secret": secret, "may_write": self.has_add_permission(request),
        }  # fmt: skip
        status = 422 if form is not None and form.errors else None
        return TemplateResponse(request, "admin/approvals/endpoint.html", context, status=status)


class TypeFilter(admin.SimpleListFilter):
    """The types that there are: asking the table for them would read all of it."""

    title = "event"
    parameter_name = "type"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [(name, name) for name in (*TYPES, PING)]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Delivery]) -> QuerySet[Delivery]:
        return queryset.filter(event_type=self.value()) if self.value() else queryset


class DeliveryAdmin(ReadOnlyAdmin):
    readers = READERS
    list_display = ("event_type", "state", "endpoint", moment("created_at"), "attempts", "outcome")
    list_display_links = ("event_type",)
    nothing = "No message yet. Each event that an endpoint is told of appears here, with the attempts to deliver it."
    sortable_by = ()
    list_filter: ClassVar[Any] = ("status", TypeFilter)
    list_select_related = ("endpoint",)
    ordering = ("-created_at",)

    def state(self, row: Delivery) -> SafeString:
        return chip(row.status)

    def change_view(
        self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        row = self._found(request, parsed_id(object_id))
        if request.method == "POST":
            if not has_role(request, Role.TENANT_ADMIN):
                raise Http404
            notify.send_again(tenant_id=row.tenant_id, delivery_id=row.pk)
            messages.success(request, "It goes out again, under the same id.")
            return HttpResponseRedirect(request.path)
        context = {
            **self.admin_site.each_context(request), "title": row.event_type, "opts": self.opts, "row": row,
            "chip": chip(row.status), "may_write": has_role(request, Role.TENANT_ADMIN),
            "attempts": DeliveryAttempt.objects.filter(delivery=row).order_by("-number")[:ATTEMPTS_SHOWN],
        }  # fmt: skip
        return TemplateResponse(request, "admin/approvals/delivery.html", context)

    def _found(self, request: HttpRequest, delivery_id: UUID) -> Delivery:
        found = Delivery.objects.select_related("endpoint").filter(pk=delivery_id)
        row = found.first() if self.has_view_permission(request) else None
        if row is None:
            raise Http404
        return row


def _policy() -> notify.PolicyFor:
    """What a webhook may lead to, as the deployment says."""
    found: notify.PolicyFor = import_string(settings.TOOLSYS_WEBHOOK_POLICY)
    return found


PAGES = {NotificationEndpoint: NotificationEndpointAdmin, Delivery: DeliveryAdmin}
