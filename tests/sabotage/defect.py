"""One planted defect: an exact change of text, and the tests that must turn red with it."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Edit:
    """Replace `old`, which stands exactly once in the file, by `new`."""

    path: str
    old: str
    new: str

    def applied(self, text: str) -> str:
        """Raises: LookupError, where the text has moved on."""
        found = text.count(self.old)
        if found != 1:
            raise LookupError(f"{self.path}: the text to change stands there {found} times: {self.old[:60]!r}")
        return text.replace(self.old, self.new)


@dataclass(frozen=True, slots=True)
class Defect:
    """`says` is the rule that is taken out. Each test of `tests` is a node id without parameters."""

    name: str
    says: str
    edits: tuple[Edit, ...]
    tests: tuple[str, ...]

    def changed(self, root: Path) -> dict[str, str]:
        """Return the changed text of each file. Raises: LookupError."""
        found: dict[str, str] = {}
        for edit in self.edits:
            text = found.get(edit.path) or (root / edit.path).read_text()
            found[edit.path] = edit.applied(text)
        return found


def defect(name: str, says: str, path: str, old: str, new: str, *tests: str) -> Defect:
    return Defect(name, says, (Edit(path, old, new),), tests)
