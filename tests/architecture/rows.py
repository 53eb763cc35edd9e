"""Makes one valid row of any tenant-owned model, parents included, so that a new table is tested without a line."""

import uuid
from collections.abc import Callable
from typing import Any

from django.apps import apps
from django.contrib.auth import get_user_model
from django.db import models
from django.utils import timezone

from tests.architecture.source import ROOMS
from toolsys.models import Tenant

OPERATOR = "operator"
VALUES: dict["type[models.Field[Any, Any]]", Callable[[], Any]] = {
    models.JSONField: dict,
    models.UUIDField: uuid.uuid4,
    models.DateTimeField: timezone.now,
    models.BinaryField: lambda: b"x",
    models.BooleanField: lambda: True,
    models.FloatField: lambda: 1.0,
    models.IntegerField: lambda: 1,
    models.TextField: lambda: f"x_{uuid.uuid4().hex}",
}


# Repeat what the parent row holds, which is checked there; the call path is spared three locks (`TenantTables.copied`).
COPIED = {"Invocation.session", "Invocation.api_key", "PolicyDecision.run"}


# Where one column's value decides what another may hold, or its form is checked: a value, or how to make one.
VALID: dict[str, dict[str, Any]] = {
    "McpServer": {
        "auth_scheme": "none", "auth_name": None, "credential_ref": None, "token_endpoint": None, "token_scopes": None,
        "required_scopes": [], "mode": "discovered", "fixed_tools": [], "key_place": "none", "key_name": "",
        "is_stateless": False, "classified_at": None,
    },
    "ToolOverride": {"is_operators": False},
    "Skill": {"source": "agent", "server_id": None},
    "Invocation": {"idempotency_key": lambda: uuid.uuid4().hex * 2},
}  # fmt: skip


def is_of_tenant(model: type[models.Model]) -> bool:
    return any(field.column == "tenant_id" for field in model._meta.local_fields)


def tenant_models() -> list[type[models.Model]]:
    ours = [model for model in apps.get_models() if model._meta.app_label in ROOMS]
    return sorted((model for model in ours if is_of_tenant(model)), key=lambda model: model.__name__)


def parents(model: type[models.Model]) -> list["models.ForeignKey[Any, Any]"]:
    """The keys to other tenant-owned rows that the database must check."""
    return [
        field
        for field in model._meta.local_fields
        if isinstance(field, models.ForeignKey)
        and f"{model.__name__}.{field.name}" not in COPIED
        and field.column != "tenant_id"
        and is_of_tenant(field.related_model)
    ]


def row_values(model: type[models.Model], tenant_id: str) -> dict[str, Any]:
    """Values of a row that can be inserted; its parents are made by the operators' role."""
    found: dict[str, Any] = {"tenant_id": tenant_id}
    for field in model._meta.local_fields:
        if field.column == "tenant_id" or isinstance(field, models.AutoField):
            continue
        if isinstance(field, models.ForeignKey):
            found[field.attname] = _parent(field, tenant_id)
        elif field.choices:
            found[field.attname] = list(field.flatchoices)[-1][0]
        elif field.db_default is models.NOT_PROVIDED or field.primary_key:
            found[field.attname] = next(make for kind, make in VALUES.items() if isinstance(field, kind))()
    valid = VALID.get(model.__name__, {})
    return found | {name: value() if callable(value) else value for name, value in valid.items()}


def _parent(field: "models.ForeignKey[Any, Any]", tenant_id: str) -> Any:
    model = field.related_model
    assert isinstance(model, type)
    if is_of_tenant(model):
        return make(model, tenant_id).pk
    return get_user_model().objects.using(OPERATOR).create(username=uuid.uuid4().hex).pk


def make(model: type[models.Model], tenant_id: str) -> models.Model:
    return model._base_manager.using(OPERATOR).create(**row_values(model, tenant_id))


def make_tenant(name: str) -> str:
    tenant_id = f"{name}-{uuid.uuid4().hex[:10]}"
    Tenant.objects.using(OPERATOR).create(id=tenant_id, name=name)
    return tenant_id
