"""What servers and single tools are believed to do: the operators' word, and how a tenant tightens it.

What a server claims of itself is shown beside and used for nothing. Every change is an event with what was said before
and now, and raises the authorization epoch by trigger. Source: TS "Mapping"; DESIGN §7.
"""

from typing import Any, Final
from uuid import UUID

from django.utils import timezone

from mcpcatalog import drafts
from mcpcatalog.administration import alias, locked
from mcpcatalog.drafts import Columns
from mcpcatalog.models import CatalogTool, McpServer, ToolOverride
from mcpcatalog.remote import Override
from mcpcatalog.rules import Rules
from mcpcatalog.selectors import config_of, override_of
from mcpcatalog.validators import InvalidConfiguration, Problem, contradictions
from toolsys import records
from toolsys.domain.spec import Classification, IdempotencyClass, RiskLevel, SideEffectClass
from toolsys.problems import Problem as RequestProblem
from toolsys.tenancy import OPERATOR_ALIAS, tenant_transaction

CLASSIFIED: Final = (
    "side_effect", "risk", "idempotency", "required_scopes", "key_place", "key_name", "is_stateless"
)  # fmt: skip
NOTE_LIMIT: Final = 500


def classify_server(tenant_id: str, server: UUID, columns: Columns, *, user: Any, rules: Rules) -> list[str]:
    """Say what a server does, and how it takes idempotency keys. Operators only. Return what changed.

    Saying the same again says that it still holds, for whatever the server lists now.

    Transaction: opens one. Raises: InvalidConfiguration, Problem (request.not_found).
    """
    foreign = columns.keys() - set(CLASSIFIED)
    if foreign:
        raise InvalidConfiguration(
            tuple(Problem(name, "unknown", "This is no part of it.") for name in sorted(foreign))
        )
    with tenant_transaction(tenant_id, OPERATOR_ALIAS):
        row = locked(tenant_id, server, OPERATOR_ALIAS)
        before = drafts.columns_of(config_of(row, {}, 0))
        now = drafts.columns_of(
            rules.checked(tenant_id, {**before, **columns}, is_operator=True, using=OPERATOR_ALIAS)
        )  # fmt: skip
        changed = [name for name in CLASSIFIED if before[name] != now[name]]
        for name in changed:
            setattr(row, name, now[name])
        row.classified_at = timezone.now()
        row.save(using=OPERATOR_ALIAS, update_fields=[*changed, "classified_at"])
        said = {
            "server": row.server_id, "from": {name: before[name] for name in changed},
            "to": {name: now[name] for name in changed},
        }  # fmt: skip
        records.note(tenant_id, "mcp.server.classified", said, user=user, using=OPERATOR_ALIAS)
    return changed


def classify_tool(
    tenant_id: str, server: UUID, remote_name: str, *, side_effect: str | None, risk: str | None,
    idempotency: str | None, user: Any, is_operator: bool, note: str = "",
) -> None:  # fmt: skip
    """Say what one tool does where it is not what its server does; all None takes that back.

    An operator's word holds for the endpoint and the declaration that stand now. Transaction: opens one.
    Raises: InvalidConfiguration, Problem (request.not_found).
    """
    using = alias(is_operator=is_operator)
    said = {"side_effect": side_effect or None, "risk": risk or None, "idempotency": idempotency or None}
    _require_known(said, note)
    with tenant_transaction(tenant_id, using):
        row = locked(tenant_id, server, using)
        tool = CatalogTool.objects.using(using).filter(
            tenant_id=tenant_id, server_id=row.server_id, catalog_hash=row.catalog_hash, remote_name=remote_name
        ).first()  # fmt: skip
        if tool is None:
            raise RequestProblem("request.not_found")
        rows = ToolOverride.objects.using(using).filter(
            tenant_id=tenant_id, server_id=row.server_id, remote_name=remote_name, is_operators=is_operator
        )  # fmt: skip
        known = rows.first()
        _write(row, tool, known, said, user=user, is_operator=is_operator, note=note, using=using)
        what = {
            "server": row.server_id, "tool": tool.registry_name, "by_operator": is_operator,
            "from": _spoken(known), "to": said,
        }  # fmt: skip
        records.note(tenant_id, "mcp.tool.classified", what, user=user, using=using)


def _require_known(said: dict[str, str | None], note: str) -> None:
    kinds = {"side_effect": SideEffectClass, "risk": RiskLevel, "idempotency": IdempotencyClass}
    bad = [name for name, value in said.items() if value is not None and value not in set(kinds[name])]
    if bad:
        raise InvalidConfiguration(tuple(Problem(name, "kind", "There is no such class.") for name in bad))
    if len(note) > NOTE_LIMIT or "\0" in note:
        raise InvalidConfiguration((Problem("note", "length", f"At most {NOTE_LIMIT} characters."),))


def _write(
    row: McpServer, tool: CatalogTool, known: ToolOverride | None, said: dict[str, str | None], *, user: Any,
    is_operator: bool, note: str, using: str,
) -> None:  # fmt: skip
    if not any(said.values()):
        if known is not None:
            known.delete(using=using)
        return
    override = known or ToolOverride(
        tenant_id=row.tenant_id, server_id=row.server_id, remote_name=tool.remote_name, is_operators=is_operator
    )
    for name, value in said.items():
        setattr(override, name, value)
    override.endpoint = row.endpoint if is_operator else ""
    override.declaration_hash = tool.declaration_hash if is_operator else ""
    override.note, override.set_by_id = note.strip(), user.pk
    found = tuple(contradictions(_effective(override_of(override), config_of(row, {}, 0).classification)))
    if found:
        raise InvalidConfiguration(found)
    override.save(using=using)


def _effective(override: Override, base: Classification) -> Classification:
    said = override.over(base)
    return said if override.is_operators else base.stricter(said)


def _spoken(known: ToolOverride | None) -> dict[str, str | None]:
    return {name: getattr(known, name, None) for name in ("side_effect", "risk", "idempotency")}
