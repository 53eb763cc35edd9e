"""How many examples a property is tried with: an eighth of them by default, all of them in `make properties`."""

import os
from typing import Final

SHARE: Final = 1 if os.environ.get("TOOLSYS_PROPERTIES") == "all" else 8


def examples(number: int) -> int:
    return number // SHARE
