"""`make bench-values`: checking one call, and the canonical form and hash of its arguments, each against a floor.

Medians in microseconds, of values that are typical and of some that are not. The floor of a check is the bare compiled
validator; that of the canonical form is `json.dumps` with sorted keys and the hash. It ends with one line of JSON.
"""

import hashlib
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).resolve().parent.parent.parent))

from toolsys import validation
from toolsys.domain import canonical

REPEATS: Final = 5_000
LIMITS: Final = {"check": 50.0, "canonical": 100.0}
SCHEMA: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {
        "path": {"type": "string", "minLength": 1, "maxLength": 200, "pattern": "^[a-z/._-]+$"},
        "limit": {"type": "integer", "minimum": 1, "maximum": 100, "default": 20},
        "tags": {"type": "array", "items": {"type": "string"}, "maxItems": 10},
        "mode": {"enum": ["read", "write"]},
        "options": {
            "type": "object",
            "properties": {"deep": {"type": "boolean", "default": False}, "depth": {"type": "integer"}},
        },
    },
    "required": ["path"],
}
ARGUMENTS: Final[dict[str, Any]] = {
    "path": "reports/summary.txt", "tags": ["x", "y", "z"], "mode": "read", "options": {"depth": 3}
}  # fmt: skip
LETTER: Final[dict[str, Any]] = {
    "to": ["jane@example.org"], "subject": "Your visit", "body": "Dear Jane, thank you for your letter. " * 45,
    "options": {"copies": 2, "weight": 1.5, "urgent": False}, "labels": [f"label {n}" for n in range(12)],
}  # fmt: skip
TABLE: Final[dict[str, Any]] = {
    "rows": [
        {"id": n, "name": f"item {n} é", "price": n * 1.25, "tags": ["a", "b"], "ok": True, "note": None}
        for n in range(22)
    ]
}
DECOMPOSED: Final = {**LETTER, "subject": "Ihr Besuch im Cafe\u0301"}


def median(work: Callable[[], object]) -> float:
    """Return microseconds."""
    took = []
    for _ in range(REPEATS):
        begun = time.perf_counter_ns()
        work()
        took.append(time.perf_counter_ns() - begun)
    return sorted(took)[REPEATS // 2] / 1000


def check(schema: dict[str, Any], arguments: dict[str, Any]) -> None:
    assert not validation.argument_errors(schema, validation.with_defaults(schema, arguments))


def plain(value: Any) -> str:
    data = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()
    return hashlib.sha256(data).hexdigest()


def main() -> int:
    bare = validation.compile_schema(SCHEMA).validator
    big = {**SCHEMA, "properties": {**SCHEMA["properties"], **{f"p{n}": {"type": "string"} for n in range(200)}}}
    rows: list[tuple[str, str, float, float]] = [
        ("check", "a call against its schema, defaults filled in", median(lambda: check(SCHEMA, ARGUMENTS)),
         median(lambda: bare.is_valid(ARGUMENTS))),
        ("check", "the same against 200 properties more", median(lambda: check(big, ARGUMENTS)),
         median(lambda: bare.is_valid(ARGUMENTS))),
    ]  # fmt: skip
    for name, value in (("a letter", LETTER), ("a table of 22 rows", TABLE), ("a letter, not in NFC", DECOMPOSED)):
        size = len(canonical.canonical_bytes(value))
        took = median(lambda value=value: canonical.sha256_hex(canonical.canonical_bytes(value)))  # type: ignore[misc]

        rows.append(("canonical", f"{name}, {size} bytes", took, median(lambda value=value: plain(value))))  # type: ignore[misc]
    for kind, name, took, floor in rows:
        kept = "within" if took <= LIMITS[kind] else "ABOVE"
        print(f"{kind:10} {name:48} {took:7.1f} µs  {took / floor:5.1f} x floor  {kept} {LIMITS[kind]:.0f} µs")
    print(json.dumps({name: {"us": round(took, 1), "ratio": round(took / floor, 2)} for _, name, took, floor in rows}))
    return 0 if all(took <= LIMITS[kind] for kind, _, took, _ in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
