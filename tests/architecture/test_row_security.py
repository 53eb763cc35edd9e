"""What one tenant can do to the rows of another, through the ORM, in every tenant-owned table: nothing."""

from dataclasses import dataclass
from functools import cache
from typing import Any

import pytest
from django.db import DatabaseError, models

from tests.architecture.rows import make, make_tenant, parents, row_values, tenant_models
from tests.spec.requirements import gate
from toolsys.models import Tenant
from toolsys.tenancy import tenant_transaction

MODELS = tenant_models()
CHILDREN = [(model, field) for model in MODELS for field in parents(model)]
pytestmark = pytest.mark.usefixtures("database")


@dataclass(frozen=True, slots=True)
class Neighbours:
    """Two tenants with one row of a table each."""

    mine: str
    other: str
    own: models.Model
    foreign: models.Model


@cache
def neighbours(model: type[models.Model]) -> Neighbours:
    """Make them, with all parents, once: what is tried here must change nothing."""
    mine, other = make_tenant("acme"), make_tenant("globex")
    return Neighbours(mine, other, make(model, mine), make(model, other))


def attempt(tenant_id: str, change: Any) -> Any:
    """Return what the change did, or the reason why the database refused it."""
    try:
        with tenant_transaction(tenant_id):
            return change()
    except DatabaseError as refused:
        return "row-level security" if "row-level security" in str(refused) else str(refused).split(" for ")[0]


REFUSED_OR_UNSEEN = {0, "row-level security", "permission denied"}


@gate("rls.isolates")
@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.__name__)
def test_another_tenant_s_rows_are_neither_read_nor_changed(model: type[models.Model]) -> None:
    found = neighbours(model)
    mine, other, own, foreign = found.mine, found.other, found.own, found.foreign
    rows = model._base_manager
    with tenant_transaction(mine):
        assert set(rows.values_list("tenant_id", flat=True)) == {mine}
        assert rows.filter(pk=own.pk).exists()
        assert not rows.filter(pk=foreign.pk).exists()
    assert attempt(mine, lambda: rows.filter(pk=foreign.pk).update(tenant_id=other)) in REFUSED_OR_UNSEEN
    assert attempt(mine, lambda: rows.filter(pk=foreign.pk)._raw_delete("default")) in REFUSED_OR_UNSEEN
    assert rows.using("operator").filter(pk=foreign.pk).exists()


@gate("rls.isolates")
@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.__name__)
def test_no_row_is_written_for_another_tenant_or_moved_to_one(model: type[models.Model]) -> None:
    found = neighbours(model)
    mine, other, own, planted = found.mine, found.other, found.own, row_values(model, found.other)
    rows = model._base_manager
    assert attempt(mine, lambda: rows.create(**planted)) in REFUSED_OR_UNSEEN - {0}
    assert attempt(mine, lambda: rows.filter(pk=own.pk).update(tenant_id=other)) in REFUSED_OR_UNSEEN - {0}


@gate("rls.isolates")
@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.__name__)
def test_without_a_tenant_there_are_no_rows(model: type[models.Model]) -> None:
    neighbours(model)
    assert model._base_manager.count() == 0
    with tenant_transaction(make_tenant("initech")):
        assert model._base_manager.count() == 0
    assert model._base_manager.count() == 0, "the setting of an ended transaction is empty, and empty is nobody"


@gate("rls.isolates")
def test_a_tenant_sees_itself_only_and_makes_none() -> None:
    mine, other = make_tenant("acme"), make_tenant("globex")
    with tenant_transaction(mine):
        assert list(Tenant.objects.values_list("id", flat=True)) == [mine]
    assert attempt(mine, lambda: Tenant.objects.filter(pk=other).update(is_enabled=False)) == 0
    assert attempt(mine, lambda: Tenant.objects.create(id="planted", name="x")) in REFUSED_OR_UNSEEN - {0}
    assert Tenant.objects.count() == 0


@gate("rls.composite")
@pytest.mark.parametrize(("model", "field"), CHILDREN, ids=lambda value: getattr(value, "__name__", None) or value.name)
def test_a_child_of_another_tenant_s_parent_is_refused(
    model: type[models.Model], field: "models.ForeignKey[Any, Any]"
) -> None:
    mine, other = make_tenant("acme"), make_tenant("globex")
    values = row_values(model, mine) | {field.attname: row_values(model, other)[field.attname]}
    with pytest.raises(DatabaseError, match="violates foreign key constraint"), tenant_transaction(mine):
        model._base_manager.create(**values)
    assert not model._base_manager.using("operator").filter(tenant_id=mine).exists()
