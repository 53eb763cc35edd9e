"""`make policy-check`: every proof of policy and approvals, with a line of progress; ends with `N passed, N failed`.

Arguments are pytest's. The proofs are files of the suite: this only says which ones they are.
"""

import sys
from typing import Final

import pytest

from tests.races.__main__ import ROOT, Progress

PROOFS: Final = (
    "tests/unit/test_policy_*.py", "tests/unit/test_approval_*.py", "tests/unit/test_seats.py",
    "tests/unit/test_rule_*.py", "tests/property/test_policy_properties.py", "tests/integration/approvals/test_*.py",
    "tests/contract/store/test_approved_intent.py", "tests/contract/store/test_grants.py",
    "tests/integration/test_lock_order.py", "tests/integration/api/test_dry_run.py",
    "tests/integration/console/test_decision*.py", "tests/integration/console/test_inbox*.py",
    "tests/integration/console/test_policy*.py", "tests/integration/console/test_rule*.py",
    "tests/e2e/test_decision*.py", "tests/e2e/test_polic*.py", "tests/e2e/test_approv*.py",
)  # fmt: skip


def proofs() -> list[str]:
    """Return the files that there are, each once."""
    found = {path for pattern in PROOFS for path in ROOT.glob(pattern)}
    return sorted(str(path.relative_to(ROOT)) for path in found)


def main(arguments: list[str]) -> int:
    """Return 0 where there were proofs and all of them passed."""
    progress = Progress("proofs", "tests/")
    own = ("-o", "addopts=", "-p", "tests.servers", "-p", "no:terminal", "-p", "no:randomly", "-p", "no:cacheprovider")
    pytest.main([*own, *proofs(), *arguments], [progress])
    print(f"{len(progress.passed)} passed, {len(progress.failed)} failed", flush=True)
    return 1 if progress.failed or not progress.passed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
