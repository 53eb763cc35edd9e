"""The console: Django's admin as a site of our own, for people of tenants.

Whoever belongs to a tenant may sign in; `is_staff` and `is_superuser` mean nothing here. Which tenant is always
visible, and switching is an explicit POST. Operators cross tenants elsewhere.
"""

from typing import Any

from django import forms
from django.contrib.admin import AdminSite
from django.contrib.auth.forms import AuthenticationForm
from django.contrib.auth.models import AbstractBaseUser
from django.http import HttpRequest, HttpResponse, HttpResponseNotAllowed, HttpResponseRedirect
from django.urls import URLPattern, URLResolver, path, reverse

from approvals import admin as approvals_admin
from approvals import selectors as approvals
from toolsys import admin as toolsys_admin
from toolsys.models import Tenant
from toolsys.tenancy import ConsoleTenantMiddleware, console_of


class ConsoleLoginForm(AuthenticationForm):
    """Refuses who belongs to no tenant, in the same words as a wrong password."""

    def confirm_login_allowed(self, user: AbstractBaseUser) -> None:
        super().confirm_login_allowed(user)  # type: ignore[arg-type]
        if console_of(user.pk, None) is None:
            raise forms.ValidationError(self.error_messages["invalid_login"], code="invalid_login")


class ConsoleSite(AdminSite):
    site_header = "toolsys console"
    site_title = "toolsys"
    index_title = "Console"
    login_form = ConsoleLoginForm
    enable_nav_sidebar = False

    def has_permission(self, request: HttpRequest) -> bool:
        return request.user.is_active and getattr(request, "console", None) is not None

    def each_context(self, request: HttpRequest) -> dict[str, Any]:
        context = super().each_context(request)
        console = getattr(request, "console", None)
        if console is not None:
            tenant = Tenant.objects.filter(pk=console.tenant_id).first()
            context |= {
                "console": console, "tenant_name": tenant.name if tenant else console.tenant_id,
                "waiting_for_me": approvals.counts(request.user)["mine"],
            }  # fmt: skip
        return context

    def get_urls(self) -> list[URLPattern | URLResolver]:
        return [path("switch-tenant/", self.admin_view(self.switch_tenant), name="switch-tenant"), *super().get_urls()]

    def switch_tenant(self, request: HttpRequest) -> HttpResponse:
        if request.method != "POST":
            return HttpResponseNotAllowed(["POST"])
        wanted = request.POST.get("tenant", "")
        if wanted in request.console.tenants:  # type: ignore[attr-defined]
            request.session[ConsoleTenantMiddleware.SESSION_KEY] = wanted
        return HttpResponseRedirect(reverse("admin:index"))


site = ConsoleSite(name="admin")
for pages in (toolsys_admin.PAGES, approvals_admin.PAGES):
    for model, page in pages.items():
        site.register(model, page)
