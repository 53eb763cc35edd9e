"""`make policy-check`: every proof of policy and approvals, with a line of progress; ends with `N passed, N failed`.

Arguments are pytest's. The proofs are files of the suite: this only says which ones they are.
"""

import sys
from typing import Final

import pytest

from tests.races.__main__ import ROOT, Progress

PROOFS: Final = (
    "tests/unit/test_policy_*.py", "tests/unit/test_approval_*.py", "tests/unit/test_seats.py",
    "tests/property/test_policy_properties.py", "tests/integration/approvals/test_*.py",
    "tests/contract/store/test_approved_intent.py", "tests/contract/store/test_grants.py",
    "tests/integration/test_lock_order.py", "tests/integration/test_guesses.py",
    "tests/integration/api/test_dry_run.py", "tests/integration/api/test_explain.py",
    "tests/integration/console/test_decision_page.py", "tests/integration/console/test_grant_pages.py",
    "tests/integration/console/test_judging.py", "tests/integration/console/test_outbox_pages.py",
    "tests/integration/console/test_policy_pages.py", "tests/e2e/test_deciding.py",
)  # fmt: skip


def proofs() -> list[str]:
    """Return the files, each once. Raises: LookupError, for a pattern that says nothing: its file has another name."""
    found = {pattern: list(ROOT.glob(pattern)) for pattern in PROOFS}
    if lost := [pattern for pattern, paths in found.items() if not paths]:
        raise LookupError(f"no file of {', '.join(lost)}")
    return sorted({str(path.relative_to(ROOT)) for paths in found.values() for path in paths})


def main(arguments: list[str]) -> int:
    """Return 0 where there were proofs and all of them passed."""
    progress = Progress("proofs", "tests/")
    own = ("-o", "addopts=", "-p", "tests.servers", "-p", "no:terminal", "-p", "no:randomly", "-p", "no:cacheprovider")
    pytest.main([*own, *proofs(), *arguments], [progress])
    print(f"{len(progress.passed)} passed, {len(progress.failed)} failed", flush=True)
    return 1 if progress.failed or not progress.passed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
