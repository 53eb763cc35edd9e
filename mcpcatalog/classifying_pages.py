"""The pages where operators say what a server and its tools do, with the server's own claims beside.

A tenant admin sees the same and may tighten single tools. Called by `mcpcatalog.admin`.
"""

from typing import TYPE_CHECKING, Any
from uuid import UUID

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse

from mcpcatalog import classifying, page_selectors
from mcpcatalog.forms import ClassificationForm, ToolForm
from mcpcatalog.models import CatalogTool, McpServer, ToolOverride
from mcpcatalog.page_selectors import ServerPage
from mcpcatalog.rules import rules
from mcpcatalog.validators import InvalidConfiguration
from toolsys import inert
from toolsys.console import has_role, tenant_of
from toolsys.domain.states import Role

if TYPE_CHECKING:
    from mcpcatalog.admin import McpServerAdmin


def server_answer(pages: "McpServerAdmin", request: HttpRequest, page: ServerPage) -> HttpResponse:
    """Show what a server counts as; a POST of an operator changes it."""
    if not has_role(request, Role.OPERATOR):
        raise PermissionDenied
    form = ClassificationForm(request.POST or None, initial=_initial(page.row))
    if request.method == "POST" and form.is_valid():
        try:
            classifying.classify_server(
                tenant_of(request), page.row.pk, form.columns(), user=request.user, rules=rules()
            )
        except InvalidConfiguration as refused:
            form.refuse(refused.problems)
        else:
            return _back(request, page.row, "Classified. Calls are judged by it from now on.")
    context = {"form": form, "page": page, "row": page.row, "claims": inert.pretty(page.row.server_claims)}
    return pages.render(request, "classify.html", f"Classify {page.row.server_id}", context)


def tool_answer(pages: "McpServerAdmin", request: HttpRequest, page: ServerPage, tool_id: UUID) -> HttpResponse:
    """Show one tool as declared; a POST says what it does where that is not what its server does."""
    tool = CatalogTool.objects.filter(tenant_id=tenant_of(request), pk=tool_id, server_id=page.row.server_id).first()
    if tool is None:
        raise Http404
    is_operator = has_role(request, Role.OPERATOR)
    may_write = (is_operator or has_role(request, Role.TENANT_ADMIN)) and tool.catalog_hash == page.row.catalog_hash
    said = page_selectors.overrides_of(page.row, tool)
    form = ToolForm(request.POST or None, initial=_said(said.get(is_operator)))
    if request.method == "POST":
        if not may_write:
            raise PermissionDenied
        if form.is_valid():
            try:
                classifying.classify_tool(
                    tenant_of(request), page.row.pk, tool.remote_name, **form.columns(), user=request.user,
                    is_operator=is_operator,
                )  # fmt: skip
            except InvalidConfiguration as refused:
                form.refuse(refused.problems)
            else:
                return _back(request, page.row, f"Said of {tool.registry_name}. Calls are judged by it from now on.")
    context = {
        "form": form if may_write else None, "page": page, "row": page.row, "is_operator": is_operator,
        "tool": page_selectors.tool_line(tool, page.config), "by_operators": said.get(True),
        "by_tenant": said.get(False),
        "is_stale": True in said and said[True].declaration_hash != tool.declaration_hash,
        "schema": inert.pretty(tool.input_schema), "claims": inert.pretty(tool.claims),
    }  # fmt: skip
    return pages.render(request, "tool.html", tool.registry_name, context)


def _initial(row: McpServer) -> dict[str, Any]:
    found = {name: getattr(row, name) for name in ClassificationForm.base_fields}
    return found | {"required_scopes": "\n".join(row.required_scopes)}


def _said(override: ToolOverride | None) -> dict[str, Any]:
    return {name: getattr(override, name, "") or "" for name in ToolForm.base_fields}


def _back(request: HttpRequest, row: McpServer, said: str) -> HttpResponse:
    messages.success(request, said)
    return HttpResponseRedirect(reverse("admin:mcpcatalog_mcpserver_change", args=[row.pk]))
