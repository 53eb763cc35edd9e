"""Standing grants and requests for access: proposing, confirming and revoking the ones, answering the others.

Everybody of the organisation reads grants; who may confirm or revoke is the services' to say. Requests for access are
for its admins. Registered by `config.admin_site`.
"""

from typing import Any

from django import forms
from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils import timezone
from django.utils.safestring import SafeString
from pydantic import ValidationError

from approvals import access, evidence, grantmatch, grants, reauthentication
from approvals.evidence import Alteration
from approvals.models import AccessRequest, AccessStatus, GrantConfirmation
from approvals.rule_forms import ConditionsField
from toolsys import inert
from toolsys.composition import composed
from toolsys.console import ReadOnlyAdmin, chip, has_role, parsed_id, tenant_of
from toolsys.domain.reasons import reason
from toolsys.domain.seats import Seat
from toolsys.domain.states import Role
from toolsys.models import ApprovalRequest, GrantUse, StandingGrant
from toolsys.problems import Problem

SHOWN = 200
_SAID = {"pending": "proposed", "approved": "in force", "consumed": "used up", "voided": "revoked"}
HOUR = 3_600.0


class GrantForm(forms.Form):
    """Drawn from one held call: its tool as it is now, its agent, its seats."""

    conditions = ConditionsField(
        max_length=20_000, label="Only calls where", help_text='One a line, all must hold: /line prefix "invoice "'
    )
    maximum_uses = forms.IntegerField(min_value=1, max_value=grants.USES_LIMIT, initial=10, label="Uses")
    hours = forms.FloatField(min_value=1 / 60, max_value=grants.LONGEST_SECONDS / HOUR, initial=8.0, label="For hours")
    is_for_principal = forms.BooleanField(
        required=False, initial=True, label="For this principal only", help_text="Unticked: whoever the agent acts for"
    )
    note = forms.CharField(max_length=grants.NOTE_LIMIT, help_text="Why; whoever confirms it reads it")


class StandingGrantAdmin(ReadOnlyAdmin):
    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        if not self.has_view_permission(request):
            raise Http404
        rows = StandingGrant.objects.select_related("agent", "principal", "proposed_by").order_by("-id")[:SHOWN]
        context = {"title": "Standing grants", "rows": [(row, _chip(row)) for row in rows]}
        return self._answer(request, "admin/approvals/grants.html", context)

    def add_view(
        self, request: HttpRequest, form_url: str = "", extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        """`?request=` names the held call that the grant is drawn from."""
        if not has_role(request, *grants.MAKERS):
            raise Http404
        found = ApprovalRequest.objects.select_related("invocation").filter(
            pk=parsed_id(request.GET.get("request", ""))
        )
        held = found.first()
        if held is None:
            raise Http404
        form = GrantForm(request.POST or None)
        if request.method == "POST" and form.is_valid():
            given = form.cleaned_data
            try:
                row = grants.propose_grant(
                    tenant_id=tenant_of(request), user=request.user, request_id=held.pk,
                    conditions=given["conditions"], maximum_uses=given["maximum_uses"],
                    expires_seconds=given["hours"] * HOUR, note=given["note"],
                    is_for_principal=given["is_for_principal"], sealer=composed().runtime.sealer,
                )  # fmt: skip
            except Problem as problem:
                for error in problem.errors:
                    form.add_error("conditions" if error.pointer.startswith("/conditions") else None, error.message)
                if not problem.errors:
                    form.add_error(None, reason(problem.reason_code).message)
            else:
                messages.success(request, "Proposed. It stands for nothing until others confirm it.")
                return HttpResponseRedirect(reverse("admin:toolsys_standinggrant_change", args=[row.pk]))
        context = {"title": "Propose a standing grant", "held": held, "form": form}
        return self._answer(request, "admin/approvals/grant_new.html", context, 422 if form.errors else None)

    def change_view(
        self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        found = StandingGrant.objects.select_related("agent", "principal", "proposed_by", "revoked_by", "request")
        row = found.filter(pk=parsed_id(object_id)).first() if self.has_view_permission(request) else None
        if row is None:
            raise Http404
        problem = None
        if request.method == "POST":
            try:
                messages.success(request, _acted(request, row))
                return HttpResponseRedirect(request.path)
            except Problem as refused:
                problem = reason(refused.reason_code)
        is_pending = _state(row) == "pending"
        altered = _alterations(row)
        context = {
            "title": f"Grant of {inert.visible(row.tool_name)}", "row": row, "chip": _chip(row),
            "conditions": _lines(row.conditions), "problem": problem,
            "confirmations": GrantConfirmation.objects.filter(grant=row).select_related("user").order_by("created_at"),
            "uses": GrantUse.objects.filter(grant=row).order_by("-id")[:SHOWN],
            "may_confirm": is_pending and not altered and _may_confirm(request, row), "altered": altered,
            "may_revoke": _state(row) in {"pending", "approved"} and _may_revoke(request, row),
            "is_pending": is_pending,
        }  # fmt: skip
        status = problem.http_status if problem else None
        return self._answer(request, "admin/approvals/grant.html", context, status)

    def _answer(
        self, request: HttpRequest, template: str, context: dict[str, Any], status: int | None = None
    ) -> HttpResponse:
        shared = {**self.admin_site.each_context(request), "opts": self.opts, **context}
        return TemplateResponse(request, template, shared, status=status)


class AccessRequestAdmin(ReadOnlyAdmin):
    readers = frozenset({Role.TENANT_ADMIN, Role.TENANT_AUDITOR})

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        may_answer = has_role(request, Role.TENANT_ADMIN)
        if not self.has_view_permission(request) or (request.method == "POST" and not may_answer):
            raise Http404
        if request.method == "POST":
            return self._answered(request)
        known = AccessRequest.objects.exclude(status=AccessStatus.OPEN).select_related("answered_by")
        context = {
            **self.admin_site.each_context(request), "title": "Requests for access", "opts": self.opts,
            "rows": access.open_access_requests(), "answered": known.order_by("-id")[:50], "may_answer": may_answer,
        }  # fmt: skip
        return TemplateResponse(request, "admin/approvals/access.html", context)

    def change_view(self, *args: Any, **kwargs: Any) -> HttpResponse:
        raise Http404

    def _answered(self, request: HttpRequest) -> HttpResponse:
        answer = request.POST.get("answer", "")
        if answer not in {"grant", "dismiss"}:
            raise Http404
        try:
            access.answer_access(
                tenant_id=tenant_of(request), access_id=parsed_id(request.POST.get("id", "")), user=request.user,
                is_granted=answer == "grant", answer=request.POST.get("words", ""),
            )  # fmt: skip
            messages.success(request, "Answered. Give the permission itself on its own page.")
        except Problem as problem:
            if problem.reason_code == "request.not_found":
                raise Http404 from None
            messages.error(request, reason(problem.reason_code).message)
        return HttpResponseRedirect(request.path)


def _acted(request: HttpRequest, row: StandingGrant) -> str:
    """Confirm or revoke; return what to say. Raises: Problem."""
    who: dict[str, Any] = {"tenant_id": row.tenant_id, "grant_id": row.pk, "user": request.user}
    if "revoke" in request.POST:
        grants.revoke_grant(**who)
        return "Revoked. Nothing that it stood for passes any more."
    is_confirmed = reauthentication.is_confirmed(request.user, request.POST.get("password", ""))
    found = grants.confirm_grant(
        **who, note=request.POST.get("note", ""), is_reauthenticated=is_confirmed, sealer=composed().runtime.sealer
    )
    return "It is in force." if found.activated_at else "Your confirmation counts. Another seat is still free."


def _may_confirm(request: HttpRequest, row: StandingGrant) -> bool:
    """Whether the page offers it; whether it counts is the service's to say."""
    seats = {Seat(seat).role for seat in row.seats}
    return row.proposed_by_id != request.user.pk and has_role(request, *seats)


def _may_revoke(request: HttpRequest, row: StandingGrant) -> bool:
    return row.proposed_by_id == request.user.pk or has_role(request, *grants.MAKERS)


def _state(row: StandingGrant) -> str:
    if row.revoked_at is not None:
        return "voided"
    if row.expires_at <= timezone.now():
        return "expired"
    if row.activated_at is None:
        return "pending"
    return "consumed" if row.uses >= row.maximum_uses else "approved"


def _alterations(row: StandingGrant) -> list[Alteration]:
    """What was altered of one that may still count. The call that one in force was drawn from may be purged by now."""
    sealer = composed().runtime.sealer
    if _state(row) == "pending":
        return evidence.grant_alterations(row, sealer)
    return [Alteration.WORDS] if _state(row) == "approved" and evidence.is_reworded(row, sealer) else []


def _lines(conditions: Any) -> list[str]:
    """Conditions as they are written; what cannot be read, as it stands in its row."""
    try:
        said = [each.model_dump(mode="json") for each in grantmatch.parsed(conditions)]
    except ValidationError:
        return inert.pretty(conditions).splitlines()
    return str(ConditionsField().prepare_value(said)).splitlines()


def _chip(row: StandingGrant) -> SafeString:
    """Grants have words of their own for where they stand."""
    state = _state(row)
    if state in {"pending", "approved"} and evidence.is_reworded(row, composed().runtime.sealer):
        return chip("refused", "altered")
    return chip(state, _SAID.get(state, ""))


PAGES = {StandingGrant: StandingGrantAdmin, AccessRequest: AccessRequestAdmin}
