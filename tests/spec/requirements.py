"""The requirement manifest: what the specification and the design ask for, one behaviour a row of `chapters`.

`@gate("id")` binds a test to the requirement that it proves; `test_manifest.py` checks both directions from the source
of the tests, so that a partial run and a distributed one see the same. The sixteen hard gates keep their numbers; a
row that a later issue owes says so in `due`. Any test module may import `gate`; nothing else is for use elsewhere.
"""

from collections.abc import Callable
from typing import Final

from tests.spec.chapters import calls, egress, faces, faults, mcp, output, people, platform, policy, tools

REQUIREMENTS: Final = {
    row.id: row
    for chapter in (tools, calls, output, mcp, egress, faces, people, policy, platform, faults)
    for row in chapter.ROWS
}


def gate[F: Callable[..., object]](*identifiers: str) -> Callable[[F], F]:
    """Bind a test to the requirements that it proves. Write the ids as literals: they are read from the source."""
    unknown = [identifier for identifier in identifiers if identifier not in REQUIREMENTS]
    if unknown or not identifiers:
        raise LookupError(f"no such requirement: {', '.join(unknown) or 'none named'}")

    def bind(test: F) -> F:
        return test

    return bind
