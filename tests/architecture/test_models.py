"""Foreign keys and migrations point down, as imports do."""

from collections.abc import Iterator

import pytest
from django.apps import apps
from django.db import models
from django.db.migrations.loader import MigrationLoader

from tests.architecture.source import ROOMS
from tests.spec.requirements import gate

# A key may point to a room of the same number only inside itself; rooms above 0 never meet.
HEIGHT = {"toolsys": 0, "approvals": 1, "mcpcatalog": 1, "config": 2}
BELOW_US = {"auth", "contenttypes", "sessions", "admin"}


def points_down(app: str, target: str) -> bool:
    return target == app or target in BELOW_US or HEIGHT.get(target, 9) < HEIGHT[app]


def our_models() -> list[type[models.Model]]:
    return [model for model in apps.get_models(include_auto_created=True) if model._meta.app_label in ROOMS]


def relations() -> Iterator[tuple[str, str, str]]:
    for model in our_models():
        for field in model._meta.get_fields():
            if field.is_relation and field.concrete and field.related_model is not None:
                target = field.related_model._meta.app_label
                yield model._meta.app_label, f"{model.__name__}.{field.name}", target


@gate("house.direction")
def test_every_relation_points_down_or_sideways_inside_its_app() -> None:
    assert len(list(relations())) > 20
    assert [(key, target) for app, key, target in relations() if not points_down(app, target)] == []


@gate("house.direction")
def test_migrations_depend_downwards_without_a_cycle() -> None:
    loader = MigrationLoader(None)
    edges = {
        (app, parent.key[0])
        for (app, _), node in loader.graph.node_map.items()
        for parent in node.parents
        if app in ROOMS and parent.key[0] != app
    }
    assert ("approvals", "toolsys") in edges
    assert {edge for edge in edges if not points_down(*edge)} == set()
    assert loader.detect_conflicts() == {}


@pytest.mark.parametrize("app", sorted(BELOW_US))
def test_nothing_below_us_knows_us(app: str) -> None:
    if not apps.is_installed(f"django.contrib.{app}"):
        pytest.skip("not installed")
    keys = [field for model in apps.get_app_config(app).get_models() for field in model._meta.local_fields]
    assert [str(f) for f in keys if f.remote_field and f.remote_field.model._meta.app_label in ROOMS] == []
