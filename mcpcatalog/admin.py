"""The pages of MCP servers: the list, one server with its tools, adding and editing, the credential, the check.

Tenant admins configure, operators classify and add programs of the deployment, developers and auditors read. Edges
only: a permission check, one service or selector call, one answer. Registered by `config.admin_site`.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, ClassVar, Final
from uuid import UUID

from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse
from django.utils.safestring import SafeString

from mcpcatalog import (
    administration,
    checking,
    classifying_pages,
    contracts,
    fleet_pages,
    import_page,
    page_selectors,
    review_pages,
)
from mcpcatalog.forms import (
    ClientForm,
    CredentialForm,
    NewServerForm,
    ProgramForm,
    RulesForm,
    ServerForm,
    contracts_text,
)
from mcpcatalog.models import McpServer
from mcpcatalog.page_selectors import ServerPage
from mcpcatalog.remote import AuthScheme, CatalogMode, Transport
from mcpcatalog.rules import rules
from mcpcatalog.selectors import config_of
from mcpcatalog.validators import InvalidConfiguration
from toolsys import inert
from toolsys.composition import composed
from toolsys.console import ReadOnlyAdmin, chip, has_role, is_still, looking_again, moment, parsed_id, tenant_of
from toolsys.domain.states import Role
from toolsys.problems import Problem

LIST: Final = "admin:mcpcatalog_mcpserver_changelist"
PAGE: Final = "admin:mcpcatalog_mcpserver_change"
TEMPLATES: Final = "admin/mcpcatalog/"
LOOK_SECONDS: Final = 2


class McpServerAdmin(ReadOnlyAdmin):
    readers = frozenset({Role.TENANT_ADMIN, Role.TENANT_AUDITOR, Role.DEVELOPER, Role.OPERATOR})
    change_list_template = "admin/mcpcatalog/servers.html"
    list_display = ("server_id", "state", "at", "counts_as", "seen", moment("last_discovered_at"))
    nothing = (
        "No server yet. Add one, or import a file: it arrives disabled, and is offered to agents once it is enabled."
    )
    sortable_by = ()
    list_filter = ("enabled", "transport")
    ordering = ("server_id",)
    search_fields: ClassVar[tuple[str, ...]] = ("server_id",)

    @admin.display(description="status")
    def state(self, row: McpServer) -> SafeString:
        return chip("enabled" if row.enabled else "disabled")

    @admin.display(description="at")
    def at(self, row: McpServer) -> str:
        return inert.visible(row.endpoint)

    @admin.display(description="counts as")
    def counts_as(self, row: McpServer) -> str:
        said = page_selectors.spoken(config_of(row, {}, 0).classification)
        return said if row.classified_at else f"{said} (nobody has classified it)"

    @admin.display(description="last seen")
    def seen(self, row: McpServer) -> SafeString:
        if row.consecutive_failures:
            return chip("failed")
        return chip("succeeded" if row.last_discovered_at else "pending")

    def has_add_permission(self, request: HttpRequest) -> bool:
        return has_role(request, Role.TENANT_ADMIN, Role.OPERATOR)

    def get_urls(self) -> list[URLPattern]:
        def page(route: str, view: Callable[..., HttpResponse], name: str) -> URLPattern:
            return path(route, self.admin_site.admin_view(view), name=f"mcpcatalog_mcpserver_{name}")

        return [
            page("import/", self._import, "import"),
            page("add-program/", self._add_program, "add_program"),
            page("everywhere/", self._everywhere, "everywhere"),
            page("reviews/", self._reviews, "reviews"),
            page("<uuid:server>/review/", self._review, "review"),
            page("<uuid:server>/edit/", self._edit, "edit"),
            page("<uuid:server>/credential/", self._credential, "credential"),
            page("<uuid:server>/enabled/", self._enabled, "enabled"),
            page("<uuid:server>/check/", self._request_check, "check"),
            page("<uuid:server>/checks/<uuid:check>/", self._check, "checked"),
            page("<uuid:server>/classify/", self._classify, "classify"),
            page("<uuid:server>/tools/<uuid:tool>/", self._tool, "tool"),
            *super().get_urls(),
        ]

    # -- one server

    def change_view(
        self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        if request.method != "GET":
            raise PermissionDenied
        return self._page(request, self._found(request, parsed_id(object_id)))

    def _page(self, request: HttpRequest, page: ServerPage, form: RulesForm | None = None) -> HttpResponse:
        may_act = self._may_act(request, page)
        has_secret = page.config.auth_scheme is not AuthScheme.NONE and (page.config.credential_ref or "").startswith(
            "store:"
        )
        context = {
            "page": page, "row": page.row, "may_act": may_act, "state_chip": chip(_state(page)),
            "is_operator": has_role(request, Role.OPERATOR), "has_secret": has_secret,
            "check_chip": chip(page.check.state) if page.check else "",
            "credential_form": (form or _secret_form(page)) if may_act and has_secret else None,
        }  # fmt: skip
        return self.render(request, "server.html", page.row.server_id, context)

    def _credential(self, request: HttpRequest, server: UUID) -> HttpResponse:
        """Set a new value, or take the newest back."""
        page = self._posted(request, server)
        taken = request.POST.get("take_back", "")
        if taken and "sure" not in request.POST:
            return self.render(request, "erase.html", f"Erase version {taken}", _erasing(page, taken))
        if taken:
            number = _taken_back(request, page, taken)
            left = f"Version {number} counts now." if number else "The server has no credential now."
            return self._done(request, server, f"Version {taken} is erased. {left}")
        form = _secret_form(page, request.POST)
        if form.is_valid():
            try:
                number = administration.set_credential(
                    tenant_of(request), server, form.value(), user=request.user, sealer=composed().runtime.sealer,
                    is_operator=page.is_operators,
                )  # fmt: skip
            except InvalidConfiguration as refused:
                form.refuse(refused.problems)
            else:
                return self._kept(request, server, number)
        return self._page(request, page, form)

    def _kept(self, request: HttpRequest, server: UUID, number: int) -> HttpResponse:
        said = f"Kept as version {number}. The next connection logs in with it."
        if "test" not in request.POST:
            return self._done(request, server, said)
        messages.success(request, said)
        check = checking.request_check(tenant_of(request), server, user=request.user, version=number)
        return HttpResponseRedirect(reverse("admin:mcpcatalog_mcpserver_checked", args=[server, check.pk]))

    def _enabled(self, request: HttpRequest, server: UUID) -> HttpResponse:
        page = self._posted(request, server)
        is_enabled = request.POST.get("enabled") == "1"
        try:
            administration.set_enabled(
                tenant_of(request), server, is_enabled=is_enabled, user=request.user, rules=rules(),
                is_operator=page.is_operators,
            )  # fmt: skip
        except InvalidConfiguration as refused:
            for problem in refused.problems:
                messages.error(request, f"{problem.field}: {problem.message}")
            return HttpResponseRedirect(reverse(PAGE, args=[server]))
        said = (
            "Enabled: new sessions are offered its tools." if is_enabled else "Disabled: none of its tools is called."
        )
        return self._done(request, server, said)

    def _request_check(self, request: HttpRequest, server: UUID) -> HttpResponse:
        """Ask for a check, of one version of the credential where the form names one."""
        self._posted(request, server)
        try:
            version = int(request.POST["version"]) if request.POST.get("version") else None
            check = checking.request_check(tenant_of(request), server, user=request.user, version=version)
        except (ValueError, Problem):
            raise Http404 from None
        return HttpResponseRedirect(reverse("admin:mcpcatalog_mcpserver_checked", args=[server, check.pk]))

    def _check(self, request: HttpRequest, server: UUID, check: UUID) -> HttpResponse:
        page = self._found(request, server)
        view = page_selectors.check_view(tenant_of(request), check)
        if view is None or view.row.server_id != page.row.server_id:
            raise Http404
        if view.is_going_on and not view.rungs:
            view = replace(view, rungs=page_selectors.rungs_to_come(page.config))
        context = {
            "page": page, "row": page.row, "check": view, "check_chip": chip(view.state),
            "may_check": self._may_act(request, page), "is_still": is_still(request),
        }  # fmt: skip
        answer = self.render(request, "check.html", f"Check of {page.row.server_id}", context)
        return looking_again(answer, request, LOOK_SECONDS) if view.is_going_on else answer

    # -- writing

    def add_view(
        self, request: HttpRequest, form_url: str = "", extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        if not has_role(request, Role.TENANT_ADMIN):
            if has_role(request, Role.OPERATOR):
                return HttpResponseRedirect(reverse("admin:mcpcatalog_mcpserver_add_program"))
            raise PermissionDenied
        form = NewServerForm(request.POST or None)
        return self._add(request, form, secret="", title="Add a server", is_operator=False)

    def _add_program(self, request: HttpRequest) -> HttpResponse:
        if not has_role(request, Role.OPERATOR):
            raise PermissionDenied
        form = ProgramForm(request.POST or None, programs=rules().stdio_names)
        return self._add(request, form, secret="", title="Add a program of the deployment", is_operator=True)

    def _add(
        self, request: HttpRequest, form: RulesForm, *, secret: str, title: str, is_operator: bool
    ) -> HttpResponse:
        if request.method == "POST" and form.is_valid():
            columns = form.columns()
            try:
                row = administration.add_server(
                    tenant_of(request), columns, user=request.user, rules=rules(),
                    sealer=composed().runtime.sealer, secret=form.cleaned_data.get("secret", secret),
                    is_operator=is_operator,
                )  # fmt: skip
            except InvalidConfiguration as refused:
                form.refuse(refused.problems)
            else:
                return self._done(request, row.pk, "Added. It is disabled: check it, then enable it.")
        programs = rules().stdio_names
        context = {"form": form, "is_new": True, "is_program": is_operator, "has_programs": bool(programs)}
        return self.render(request, "edit.html", title, context)

    def _edit(self, request: HttpRequest, server: UUID) -> HttpResponse:
        """Edit what an admin, or of a program of the deployment an operator, says of a server."""
        page = self._found(request, server)
        if not self._may_act(request, page):
            raise PermissionDenied
        form = _edit_form(request, page)
        if request.method == "POST" and form.is_valid():
            try:
                changed = administration.edit_server(
                    tenant_of(request), server, _edited(form, page.row), user=request.user, rules=rules(),
                    is_operator=page.is_operators,
                )  # fmt: skip
            except InvalidConfiguration as refused:
                form.refuse(refused.problems)
            else:
                return self._done(request, server, _said_of_edit(changed))
        context = {"form": form, "row": page.row, "page": page, "is_declaring": "declare" in request.GET}
        return self.render(request, "edit.html", f"Edit {page.row.server_id}", context)

    def _import(self, request: HttpRequest) -> HttpResponse:
        if not has_role(request, Role.TENANT_ADMIN):
            raise PermissionDenied
        return import_page.answer(self, request)

    def _classify(self, request: HttpRequest, server: UUID) -> HttpResponse:
        return classifying_pages.server_answer(self, request, self._found(request, server))

    def _tool(self, request: HttpRequest, server: UUID, tool: UUID) -> HttpResponse:
        return classifying_pages.tool_answer(self, request, self._found(request, server), tool)

    def _everywhere(self, request: HttpRequest) -> HttpResponse:
        return fleet_pages.answer(self, request)

    def _reviews(self, request: HttpRequest) -> HttpResponse:
        if not self.has_view_permission(request):
            raise PermissionDenied
        return review_pages.list_answer(self, request)

    def _review(self, request: HttpRequest, server: UUID) -> HttpResponse:
        return review_pages.server_answer(self, request, self._found(request, server))

    # -- shared

    def render(self, request: HttpRequest, template: str, title: str, context: dict[str, Any]) -> HttpResponse:
        shared = {**self.admin_site.each_context(request), "title": inert.visible(title), "opts": self.opts}
        return TemplateResponse(request, TEMPLATES + template, shared | context)

    def _found(self, request: HttpRequest, server: UUID) -> ServerPage:
        page = page_selectors.server_page(tenant_of(request), server) if self.has_view_permission(request) else None
        if page is None:
            raise Http404
        return page

    def _posted(self, request: HttpRequest, server: UUID) -> ServerPage:
        """Return the page that a form was sent from; nothing acts on GET. Raises: Http404, PermissionDenied."""
        page = self._found(request, server)
        if request.method != "POST" or not self._may_act(request, page):
            raise PermissionDenied
        return page

    def _may_act(self, request: HttpRequest, page: ServerPage) -> bool:
        """Whatever is done to a program or a secret of the deployment operators do, else the tenant's admins."""
        return has_role(request, Role.OPERATOR) if page.is_operators else has_role(request, Role.TENANT_ADMIN)

    def _done(self, request: HttpRequest, server: UUID, said: str) -> HttpResponse:
        messages.success(request, said)
        return HttpResponseRedirect(reverse(PAGE, args=[server]))


def _state(page: ServerPage) -> str:
    return "enabled" if page.row.enabled else "disabled"


def _secret_form(page: ServerPage, data: Any = None) -> Any:
    kind = ClientForm if page.config.auth_scheme is AuthScheme.OAUTH2_CLIENT else CredentialForm
    return kind(data)


def _erasing(page: ServerPage, version: str) -> dict[str, Any]:
    """Return what the question says of erasing a version. Raises: Http404, for one that is not live."""
    live = [each.version for each in page.versions if each.retired_at is None]
    if version not in map(str, live):
        raise Http404
    left = max((number for number in live if str(number) != version), default=0)
    return {"page": page, "row": page.row, "version": version, "left": left}


def _taken_back(request: HttpRequest, page: ServerPage, version: str) -> int:
    """Raises: Http404, for a version that is not there."""
    try:
        return administration.take_back(
            tenant_of(request), page.row.pk, int(version), user=request.user, is_operator=page.is_operators
        )
    except (ValueError, Problem):
        raise Http404 from None


def _edit_form(request: HttpRequest, page: ServerPage) -> RulesForm:
    """Return the form of what a server is; `?declare` fills in what it lists now, and saves nothing."""
    row, data = page.row, request.POST or None
    initial = {name: getattr(row, name) for name in (*ServerForm.base_fields, "credential_ref")}
    initial["token_scopes"] = "\n".join(row.token_scopes or ())
    declared = row.fixed_tools
    if "declare" in request.GET:
        tools = [tool.row for tool in page.tools]
        declared = [contracts.listed(tool.remote_name, tool.description, tool.input_schema) for tool in tools]
        initial["mode"] = CatalogMode.FIXED
    initial["fixed_tools"] = contracts_text(declared)
    form: RulesForm
    if row.transport == Transport.STDIO:
        form = ProgramForm(data, initial=initial, programs={*rules().stdio_names, row.endpoint})
    else:
        form = ServerForm(data, initial=initial)
    form.fields["server_id"].disabled = True
    return form


def _edited(form: RulesForm, row: McpServer) -> dict[str, Any]:
    """Return the columns that the form says, with the reference that the scheme needs; a name is no secret."""
    columns = form.columns()
    if isinstance(form, ProgramForm):
        return columns
    if columns["auth_scheme"] == AuthScheme.NONE:
        return columns | {"credential_ref": None, "transport": Transport(row.transport)}
    return columns | {"credential_ref": row.credential_ref or f"store:{administration.credential_name(row.server_id)}"}


def _said_of_edit(changed: list[str]) -> str:
    if not changed:
        return "Nothing changed."
    if "endpoint" in changed:
        return "Changed. It is at another address, so that operators classify it anew. Check it."
    return "Changed. Check it before you rely on it."


PAGES = {McpServer: McpServerAdmin}
