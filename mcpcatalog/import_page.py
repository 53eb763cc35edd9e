"""The import page: a file or its text, a plan, and then the same plan done.

Between the two the file travels sealed in the form: what is confirmed is byte for byte what was shown, and the secrets
in it are readable for nobody on the way. Called by `mcpcatalog.admin`.
"""

import base64
import binascii
import time
import uuid
from typing import TYPE_CHECKING, Any, Final

from django.http import HttpRequest, HttpResponse

from mcpcatalog import manifests
from mcpcatalog.forms import ImportForm
from mcpcatalog.imports import Importer, Planned
from mcpcatalog.rules import rules
from toolsys.composition import composed
from toolsys.console import chip, tenant_of
from toolsys.envelope import CannotOpen

if TYPE_CHECKING:
    from mcpcatalog.admin import McpServerAdmin

KIND: Final = "import"
SEALED_SECONDS: Final = 1_800


def answer(pages: "McpServerAdmin", request: HttpRequest) -> HttpResponse:
    """GET asks for a file, one POST shows the plan, the next does it."""
    if request.method == "POST" and "sealed" in request.POST:
        return _write(pages, request)
    form = ImportForm(request.POST or None, request.FILES or None)
    if request.method == "POST" and form.is_valid():
        data = form.data_given()
        importer = _importer(request, allows_hosts=form.cleaned_data["allows_hosts"])
        try:
            planned = importer.plan(data)
        except manifests.Unreadable as error:
            form.add_error(None, str(error))
        else:
            sealed = _seal(request, data)
            return _show(pages, request, planned, sealed=sealed, allows_hosts=importer.allows_hosts)
    return pages.render(request, "import.html", "Import servers", {"form": form})


def _write(pages: "McpServerAdmin", request: HttpRequest) -> HttpResponse:
    data = _open(request, request.POST["sealed"])
    if data is None:
        form = ImportForm()
        context = {"form": form, "is_void": True}
        return pages.render(request, "import.html", "Import servers", context)
    importer = _importer(request, allows_hosts=request.POST.get("allows_hosts") == "1")
    return _show(pages, request, importer.write(data))


def _show(
    pages: "McpServerAdmin", request: HttpRequest, planned: list[Planned], *, sealed: str = "",
    allows_hosts: bool = False,
) -> HttpResponse:  # fmt: skip
    context: dict[str, Any] = {
        "lines": [(each, chip(each.state)) for each in planned], "sealed": sealed, "allows_hosts": allows_hosts,
        "new": sum(each.state == "new" for each in planned), "is_plan": bool(sealed),
        "written": sum(each.state == "written" for each in planned),
        "unreachable": sum(each.state == "refused" and bool(each.host) for each in planned),
        "hosts": sorted({each.host for each in planned if each.host and each.state == "new"}),
    }  # fmt: skip
    return pages.render(request, "imported.html", "What would be imported" if sealed else "Imported", context)


def _importer(request: HttpRequest, *, allows_hosts: bool) -> Importer:
    sealer = composed().runtime.sealer
    return Importer(tenant_of(request), request.user, rules(), sealer, allows_hosts=allows_hosts)


def _row(request: HttpRequest) -> uuid.UUID:
    """A seal is opened for the person and the tenant that it was made for."""
    return uuid.uuid5(uuid.NAMESPACE_OID, f"{tenant_of(request)}/{request.user.pk}")


def _seal(request: HttpRequest, data: bytes) -> str:
    stamped = int(time.time()).to_bytes(8, "big") + data
    sealer = composed().runtime.sealer
    sealed = sealer.seal(stamped, tenant_id=tenant_of(request), kind=KIND, row=_row(request))
    return base64.urlsafe_b64encode(sealed).decode()


def _open(request: HttpRequest, text: str) -> bytes | None:
    """Return the file, or None where the seal is not ours, of somebody else, or too old."""
    try:
        sealed = base64.b64decode(text.encode("ascii", "replace"), altchars=b"-_", validate=True)
        stamped = composed().runtime.sealer.open(
            sealed, tenant_id=tenant_of(request), kind=KIND, row=_row(request)
        )  # fmt: skip
    except (CannotOpen, binascii.Error, ValueError):
        return None
    is_fresh = 0 <= time.time() - int.from_bytes(stamped[:8], "big") <= SEALED_SECONDS
    return stamped[8:] if is_fresh else None
