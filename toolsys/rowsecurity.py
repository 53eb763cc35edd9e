"""Migration operations that make a table a tenant's: row-level security, composite keys, append-only.

Used by the migrations of every app that owns tenant tables, in the same migration that creates them. Nothing else
may relax a policy. Source: DESIGN §9 and §11.
"""

from collections.abc import Sequence
from typing import Any

from django.db import models
from django.db.migrations.operations.base import Operation

SETTING = "(SELECT nullif(current_setting('toolsys.tenant_id', true), ''))"
OPERATOR_ROLE = "toolsys_operator"
APP_ROLE = "toolsys_app"
DEFINER_ROLE = "toolsys_definer"


class _Sql(Operation):
    """An operation that runs statements computed from the migration's own model state."""

    reduces_to_sql = True
    reversible = True

    def state_forwards(self, app_label: str, state: Any) -> None:
        return None

    def forwards(self, app_label: str, state: Any) -> list[str]:
        raise NotImplementedError

    def backwards(self, app_label: str, state: Any) -> list[str]:
        raise NotImplementedError

    def database_forwards(self, app_label: str, schema_editor: Any, from_state: Any, to_state: Any) -> None:
        _run(schema_editor, self.forwards(app_label, to_state))

    def database_backwards(self, app_label: str, schema_editor: Any, from_state: Any, to_state: Any) -> None:
        _run(schema_editor, self.backwards(app_label, from_state))


def _run(schema_editor: Any, statements: Sequence[str]) -> None:
    for statement in statements:
        schema_editor.execute(statement, params=None)


class TenantTables(_Sql):
    """ENABLE and FORCE row-level security on each model, with `UNIQUE (tenant_id, id)` and composite foreign keys.

    `definer` lists models that the definer functions look into before a tenant is known; `leaves` those that no
    composite key will ever point at, which are spared the index; `copied` are foreign keys (`Model.field`) that repeat
    what a parent row holds and are checked there.
    """

    def __init__(
        self,
        names: Sequence[str],
        *,
        definer: Sequence[str] = (),
        leaves: Sequence[str] = (),
        copied: Sequence[str] = (),
    ) -> None:
        self.names = tuple(names)
        self.copied = tuple(copied)
        self.definer = tuple(definer)
        self.leaves = tuple(leaves)

    def deconstruct(self) -> tuple[str, list[Any], dict[str, Any]]:
        return (
            type(self).__name__,
            [self.names],
            {
                "definer": self.definer,
                "leaves": self.leaves,
                "copied": self.copied,
            },
        )

    def describe(self) -> str:
        return f"Tenant row-level security on {', '.join(self.names)}"

    def forwards(self, app_label: str, state: Any) -> list[str]:
        found = [state.apps.get_model(app_label, name) for name in self.names]
        statements = [line for model in found for line in _protect(model)]
        statements += [_referable(model) for model in found if self._is_referable(model)]
        statements += [line for model in found for line in _composite_keys(model, self.copied)]
        for name in self.definer:
            table = state.apps.get_model(app_label, name)._meta.db_table
            statements.append(f"CREATE POLICY definer_lookup ON {table} TO {DEFINER_ROLE} USING (true)")
            statements.append(f"GRANT SELECT ON {table} TO {DEFINER_ROLE}")
        return statements

    def backwards(self, app_label: str, state: Any) -> list[str]:
        found = [state.apps.get_model(app_label, name) for name in self.names]
        statements = [
            f"ALTER TABLE {m._meta.db_table} DROP CONSTRAINT {k}" for m in found for k in _key_names(m, self.copied)
        ]
        for name in self.definer:
            table = state.apps.get_model(app_label, name)._meta.db_table
            statements.append(f"DROP POLICY definer_lookup ON {table}")
        for model in reversed(found):
            table = model._meta.db_table
            statements += [f"DROP POLICY {policy} ON {table}" for policy in ("tenant_isolation", "operator_all")]
            statements.append(f"ALTER TABLE {table} NO FORCE ROW LEVEL SECURITY")
            statements.append(f"ALTER TABLE {table} DISABLE ROW LEVEL SECURITY")
            if self._is_referable(model):
                statements.append(f"ALTER TABLE {table} DROP CONSTRAINT {table}_tenant_id_id_key")
        return statements

    def _is_referable(self, model: type[models.Model]) -> bool:
        return _has_tenant(model) and model.__name__ not in self.leaves


class AppendOnly(_Sql):
    """Refuse UPDATE, DELETE and TRUNCATE on each model, by grant and by trigger, for whoever asks."""

    def __init__(self, names: Sequence[str]) -> None:
        self.names = tuple(names)

    def deconstruct(self) -> tuple[str, list[Any], dict[str, Any]]:
        return type(self).__name__, [self.names], {}

    def describe(self) -> str:
        return f"Append-only: {', '.join(self.names)}"

    def forwards(self, app_label: str, state: Any) -> list[str]:
        statements = []
        for name in self.names:
            table = state.apps.get_model(app_label, name)._meta.db_table
            statements.append(f"REVOKE UPDATE, DELETE, TRUNCATE ON {table} FROM {APP_ROLE}, {OPERATOR_ROLE}")
            statements.append(
                f"CREATE TRIGGER append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON {table} "
                "FOR EACH STATEMENT EXECUTE FUNCTION toolsys_refuse_change()"
            )
        return statements

    def backwards(self, app_label: str, state: Any) -> list[str]:
        statements = []
        for name in self.names:
            table = state.apps.get_model(app_label, name)._meta.db_table
            statements.append(f"DROP TRIGGER append_only ON {table}")
            statements.append(f"GRANT UPDATE, DELETE ON {table} TO {APP_ROLE}, {OPERATOR_ROLE}")
        return statements


class RaisesAuthzEpoch(_Sql):
    """Raise the tenant's authorization epoch when one of these columns changes, or a row goes (DESIGN §4).

    `on_insert`: a new row changes verdicts too, as a rule does; a new key or agent was in no verdict before.
    """

    def __init__(self, name: str, columns: Sequence[str], *, on_insert: bool = False) -> None:
        self.name = name
        self.columns = tuple(columns)
        self.on_insert = on_insert

    def deconstruct(self) -> tuple[str, list[Any], dict[str, Any]]:
        return type(self).__name__, [self.name, self.columns], {"on_insert": self.on_insert}

    def describe(self) -> str:
        return f"Changes of {self.name} raise the authorization epoch"

    def forwards(self, app_label: str, state: Any) -> list[str]:
        model = state.apps.get_model(app_label, self.name)
        table, columns = model._meta.db_table, ", ".join(self.columns)
        if not _has_tenant(model):
            when, function = "BEFORE UPDATE", "toolsys_raise_own_epoch"
        else:
            events = "INSERT OR DELETE OR UPDATE" if self.on_insert else "DELETE OR UPDATE"
            when, function = f"AFTER {events}", "toolsys_raise_authz_epoch"
        trigger = f"CREATE TRIGGER raises_authz_epoch {when} OF {columns} ON {table} FOR EACH ROW"
        return [f"{trigger} EXECUTE FUNCTION {function}()"]

    def backwards(self, app_label: str, state: Any) -> list[str]:
        return [f"DROP TRIGGER raises_authz_epoch ON {state.apps.get_model(app_label, self.name)._meta.db_table}"]


def _has_tenant(model: type[models.Model]) -> bool:
    return any(field.column == "tenant_id" for field in model._meta.local_fields)


def _protect(model: type[models.Model]) -> list[str]:
    table = model._meta.db_table
    column = "tenant_id" if _has_tenant(model) else "id"
    test = f"{column} = {SETTING}"
    return [
        f"ALTER TABLE {table} ENABLE ROW LEVEL SECURITY",
        f"ALTER TABLE {table} FORCE ROW LEVEL SECURITY",
        f"CREATE POLICY tenant_isolation ON {table} USING ({test}) WITH CHECK ({test})",
        f"CREATE POLICY operator_all ON {table} TO {OPERATOR_ROLE} USING (true) WITH CHECK (true)",
    ]


def _referable(model: type[models.Model]) -> str:
    table = model._meta.db_table
    return f"ALTER TABLE {table} ADD CONSTRAINT {table}_tenant_id_id_key UNIQUE (tenant_id, id)"


def _tenant_keys(model: type[models.Model], copied: Sequence[str]) -> list["models.ForeignKey[Any, Any]"]:
    return [
        field
        for field in model._meta.local_fields
        if f"{model.__name__}.{field.name}" not in copied
        and isinstance(field, models.ForeignKey)
        and field.column != "tenant_id"
        and not field.db_constraint  # type: ignore[attr-defined]
    ]


def _key_names(model: type[models.Model], copied: Sequence[str]) -> list[str]:
    return [f"{model._meta.db_table}_{field.column}_of_tenant" for field in _tenant_keys(model, copied)]


def _composite_keys(model: type[models.Model], copied: Sequence[str]) -> list[str]:
    return [
        f"ALTER TABLE {model._meta.db_table} ADD CONSTRAINT {name} FOREIGN KEY (tenant_id, {field.column}) "
        f"REFERENCES {field.related_model._meta.db_table} (tenant_id, id)"
        for name, field in zip(_key_names(model, copied), _tenant_keys(model, copied), strict=True)
    ]
