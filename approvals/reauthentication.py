"""The password once more, for what is of high risk. Wrong ones are bounded for each person and process.

The console's issue brings second factors; then this is where they are asked. Called by edges only.
"""

import time
from typing import Any, Final

from toolsys.kept import Kept
from toolsys.problems import Problem

WRONG_LIMIT: Final = 5
WINDOW_SECONDS: Final = 900.0
_wrong: Kept[tuple[float, ...]] = Kept(4096)


def is_confirmed(user: Any, password: str) -> bool:
    """Say whether this is the person's password; an empty one asks nothing and counts for nothing.

    Raises: Problem (request.throttled).
    """
    if not password:
        return False
    now = time.monotonic()
    recent = tuple(moment for moment in _wrong.get(user.pk) or () if now - moment < WINDOW_SECONDS)
    if len(recent) >= WRONG_LIMIT:
        raise Problem("request.throttled")
    if user.check_password(password):
        return True
    _wrong.put(user.pk, (*recent, now))
    return False
