"""The migration operation that installs the SQL functions kept under `toolsys/sql/`.

The files are the current source; a change to one ships with a migration that installs it again (each function is
CREATE OR REPLACE), and a test compares the files with what the migrated database holds.
"""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from django.db.migrations.operations.base import Operation

FOLDER: Final = Path(__file__).parent / "sql"
_FUNCTION: Final = re.compile(r"^CREATE OR REPLACE FUNCTION (\w+)", re.MULTILINE)


class InstallFunctions(Operation):
    """Run the named files of `toolsys/sql/`. Reversed by dropping the functions that they define.

    Not `is_first`: they were installed by an earlier migration, and going back leaves them to that one.
    """

    reduces_to_sql = True
    reversible = True

    def __init__(self, files: Sequence[str], *, is_first: bool = True) -> None:
        self.files = tuple(files)
        self.is_first = is_first

    def deconstruct(self) -> tuple[str, list[Any], dict[str, Any]]:
        return type(self).__name__, [self.files], {"is_first": self.is_first}

    def describe(self) -> str:
        return f"Install SQL functions from {', '.join(self.files)}"

    def state_forwards(self, app_label: str, state: Any) -> None:
        return None

    def database_forwards(self, app_label: str, schema_editor: Any, from_state: Any, to_state: Any) -> None:
        # Bodies are checked when they run: a later migration may add a column that a function already names.
        schema_editor.execute("SET LOCAL check_function_bodies = off", params=None)
        for name in self.files:
            schema_editor.execute((FOLDER / name).read_text(), params=None)

    def database_backwards(self, app_label: str, schema_editor: Any, from_state: Any, to_state: Any) -> None:
        if not self.is_first:
            return
        for name in reversed(self.files):
            for function in reversed(defined_functions((FOLDER / name).read_text())):
                schema_editor.execute(f"DROP FUNCTION IF EXISTS {function} CASCADE", params=None)


def defined_functions(source: str) -> list[str]:
    return _FUNCTION.findall(source)
