"""The console: Django's admin as a site of our own, for people of tenants.

Whoever belongs to a tenant may sign in; `is_staff` and `is_superuser` mean nothing here. Which tenant is always
visible; who has several chooses one, and switching is an explicit POST. Operators cross tenants elsewhere.
"""

import logging
from typing import Any, Final

from django.contrib.admin import AdminSite
from django.contrib.auth.forms import AuthenticationForm
from django.contrib.auth.models import AbstractBaseUser
from django.contrib.auth.views import redirect_to_login
from django.core.exceptions import ValidationError
from django.db.models import Model
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.middleware.csrf import rotate_token
from django.template.response import TemplateResponse
from django.urls import URLPattern, URLResolver, path, reverse
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.cache import never_cache

from approvals import admin as approvals_admin
from approvals import grant_admin, outbox_admin, policy_admin, switch_admin
from approvals import selectors as approvals
from approvals.models import (
    AccessRequest,
    Delivery,
    KillSwitch,
    NotificationEndpoint,
    PolicyProfile,
    PolicyRule,
    ToolPermission,
)
from mcpcatalog import admin as mcp_admin
from mcpcatalog.models import McpServer
from toolsys import admin as toolsys_admin
from toolsys import evidence, guesses, selectors
from toolsys.console import READERS, has_role, tenant_of
from toolsys.domain.states import Role
from toolsys.guesses import Bound
from toolsys.models import (
    Agent,
    ApiKey,
    ApprovalRequest,
    EgressAllowance,
    Invocation,
    McpClientSession,
    Principal,
    Run,
    StandingGrant,
)
from toolsys.tenancy import Console, ConsoleTenantMiddleware, console_of

# The start page, by what people come for. A model that is named nowhere is under "Other".
GROUPS: Final[tuple[tuple[str, tuple[type[Model], ...]], ...]] = (
    ("Decide", (ApprovalRequest, StandingGrant, AccessRequest)),
    ("What happened", (Invocation, Run, McpClientSession)),
    ("Policy", (PolicyRule, PolicyProfile, ToolPermission, KillSwitch)),
    ("Who calls", (Agent, Principal, ApiKey)),
    ("What they reach", (McpServer, EgressAllowance)),
    ("Who is told", (NotificationEndpoint, Delivery)),
)

logger = logging.getLogger(__name__)


# Of one account from one address, of one account from everywhere, and from one address at all.
LOGIN_LIMIT: Final = 5
ACCOUNT_LIMIT: Final = 50
ADDRESS_LIMIT: Final = 100
LOGIN_WINDOW_SECONDS: Final = 900


class ConsoleLoginForm(AuthenticationForm):
    """Refuses who belongs to no tenant, in the same words as a wrong password; bounds guesses, whoever is guessed."""

    def clean(self) -> dict[str, Any]:
        """Raises: ValidationError, which names the wait."""
        account, shared = _login_bounds(self.cleaned_data.get("username") or "", self.request)
        wait = guesses.wait_before([*account, shared])
        if wait:
            raise ValidationError(f"Too many attempts. Try again in {guesses.said(wait)}.", code="throttled")
        found = super().clean()
        # Whoever has one account of their own may not forget with it what they guessed of others from their address.
        guesses.forget(account)
        guesses.take_back([shared])
        return found

    def confirm_login_allowed(self, user: AbstractBaseUser) -> None:
        super().confirm_login_allowed(user)  # type: ignore[arg-type]
        if console_of(user.pk, None) is None:
            raise self.get_invalid_login_error()


def _login_bounds(username: str, request: HttpRequest | None) -> tuple[list[Bound], Bound]:
    """Return the bounds of the account, and that of the address, which other accounts share."""
    account = username.casefold()[:200]
    address = request.META.get("REMOTE_ADDR", "") if request is not None else ""
    window = LOGIN_WINDOW_SECONDS
    own = [Bound(f"login of {account} from {address}", LOGIN_LIMIT, window)]
    return [*own, Bound(f"login of {account}", ACCOUNT_LIMIT, window)], Bound(
        f"login from {address}", ADDRESS_LIMIT, window
    )


class ConsoleSite(AdminSite):
    site_header = "toolsys console"
    site_title = "toolsys"
    index_title = "Console"
    site_url = None
    login_form = ConsoleLoginForm
    enable_nav_sidebar = False

    def has_permission(self, request: HttpRequest) -> bool:
        console = _console(request)
        return request.user.is_active and console is not None and console.tenant_id is not None

    def each_context(self, request: HttpRequest) -> dict[str, Any]:
        context = super().each_context(request)
        console = _console(request)
        if console is not None and console.tenant_id is not None:
            context |= {
                "console": console,
                "tenant_name": selectors.tenant_name(console.tenant_id),
                "roles": sorted(role.replace("_", " ") for role in console.roles),
                "reads_calls": has_role(request, *READERS),
                "waiting_for_me": approvals.waiting_count(request.user),
            }
        return context

    def index(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> TemplateResponse:
        found = {page["model"]: page for app in self.get_app_list(request) for page in app["models"]}
        groups = [(name, [found.pop(model) for model in models if model in found]) for name, models in GROUPS]
        groups.append(("Other", list(found.values())))
        shown: dict[str, Any] = {"groups": [(name, pages) for name, pages in groups if pages]}
        if has_role(request, *READERS, Role.OPERATOR):
            shown["uncertain"] = evidence.waiting_count(tenant_of(request))
        return super().index(request, shown | (extra_context or {}))

    def app_index(  # type: ignore[override]  # a redirect, where Django has a page
        self, request: HttpRequest, app_label: str, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        """Which app a page belongs to is nothing that people look for."""
        return HttpResponseRedirect(reverse("admin:index"))

    def get_urls(self) -> list[URLPattern | URLResolver]:
        return [path("organisation/", never_cache(self.choose_tenant), name="choose-tenant"), *super().get_urls()]

    def login(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        """Sign in; whoever is signed in and has yet to choose an organisation does that first."""
        if request.method == "GET" and _console(request) is not None and not self.has_permission(request):
            query = request.META.get("QUERY_STRING", "")
            return HttpResponseRedirect(reverse("admin:choose-tenant") + (f"?{query}" if query else ""))
        return super().login(request, extra_context)

    def choose_tenant(self, request: HttpRequest) -> HttpResponse:
        """Show the person's organisations; a POST chooses one of them."""
        console = _console(request)
        if console is None:
            return redirect_to_login(request.get_full_path(), reverse("admin:login"))
        wanted = request.POST.get("tenant", "")
        if request.method == "POST" and wanted in console.tenants:
            request.session[ConsoleTenantMiddleware.SESSION_KEY] = wanted
            # A form that is open in another tab belongs to the organisation before: its token is void from here on.
            rotate_token(request)
            logger.info("console.tenant_chosen", extra={"user_id": request.user.pk, "tenant_id": wanted})
            return HttpResponseRedirect(_next(request))
        context = {
            **self.each_context(request), "title": "Choose an organisation", "next": _next(request),
            "choices": [(tenant_id, selectors.tenant_name(tenant_id)) for tenant_id in console.tenants],
        }  # fmt: skip
        return TemplateResponse(request, "admin/choose_tenant.html", context)


def _console(request: HttpRequest) -> Console | None:
    return getattr(request, "console", None)


def _next(request: HttpRequest) -> str:
    wanted = request.POST.get("next") or request.GET.get("next") or ""
    is_ours = url_has_allowed_host_and_scheme(wanted, {request.get_host()}, require_https=request.is_secure())
    return wanted if is_ours and reverse("admin:choose-tenant") not in wanted else reverse("admin:index")


site = ConsoleSite(name="admin")
for pages in (
    toolsys_admin.PAGES, approvals_admin.PAGES, mcp_admin.PAGES, policy_admin.PAGES, switch_admin.PAGES,
    outbox_admin.PAGES, grant_admin.PAGES,
):  # fmt: skip
    for model, page in pages.items():
        site.register(model, page)
