"""`make hostile`: every row of the table through adapter and pipeline, and a thousand calls; ends with `N passed, N
failed`. Arguments are pytest's.
"""

import sys
from typing import Final

import pytest

from tests.hostile import kinds, piping
from tests.hostile.table import ROWS
from tests.races.__main__ import Progress

PATHS: Final = ("tests/hostile", "tests/integration/mcp/test_statuses.py")


def main(arguments: list[str]) -> int:
    """Return 0 where there were tests and all of them passed."""
    print(f"{len(ROWS)} behaviours over HTTP and {len(piping.ROWS)} over a pipe: {kinds.told((*ROWS, *piping.ROWS))}")
    progress = Progress("tests", "tests/")
    own = ("-o", "addopts=", "-p", "tests.servers", "-p", "no:terminal", "-p", "no:randomly", "-p", "no:cacheprovider")
    pytest.main([*own, *PATHS, *arguments], [progress])
    print(f"{len(progress.passed)} passed, {len(progress.failed)} failed", flush=True)
    return 1 if progress.failed or not progress.passed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
