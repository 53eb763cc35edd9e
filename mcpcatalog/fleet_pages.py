"""The operators' page over all organisations that they work for: it shows, and changes nothing.

Classifying happens in the organisation itself: each line has a button that switches to it, which is a POST and logged
like every switch. Looking here is logged as well. Called by `mcpcatalog.admin`. Source: DESIGN §9; notes console 43.
"""

import logging
from typing import TYPE_CHECKING, Any, Final

from django.conf import settings
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse

from mcpcatalog import fleet_selectors
from toolsys.domain.states import Role
from toolsys.tenancy import OPERATOR_ALIAS, tenants_as

if TYPE_CHECKING:
    from mcpcatalog.admin import McpServerAdmin

log = logging.getLogger("toolsys.operators")

TABS: Final = {"unclassified": "Unclassified servers", "tools": "Tools that are new", "all": "All servers"}


def answer(pages: "McpServerAdmin", request: HttpRequest) -> HttpResponse:
    """Raises: PermissionDenied for who is an operator of nobody, or where operators have no connection."""
    user, has_operators = request.user, OPERATOR_ALIAS in settings.DATABASES
    tenants = tenants_as(user.pk, Role.OPERATOR) if user.is_authenticated and has_operators else ()
    if request.method != "GET" or not tenants:
        raise PermissionDenied
    tab = request.GET.get("tab", "")
    tab = tab if tab in TABS else "unclassified"
    log.info("operators.fleet_viewed", extra={"user_id": request.user.pk, "tab": tab, "tenant_count": len(tenants)})
    context: dict[str, Any] = {"tab": tab, "tabs": TABS.items(), "organisations": len(tenants)}
    if tab == "tools":
        context["tools"] = fleet_selectors.new_tools(tenants)
    else:
        number = _number(request.GET.get("page", ""))
        is_unclassified = tab == "unclassified"
        context["found"] = fleet_selectors.servers(tenants, is_unclassified=is_unclassified, number=number)
    return pages.render(request, "fleet.html", "Servers of all organisations", context)


def _number(text: str) -> int:
    return int(text) if text.isdecimal() and len(text) < 7 else 1
