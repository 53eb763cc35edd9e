"""The password once more, for what is of high risk. Guesses are bounded for each person, whatever process they reach.

The console's issue brings second factors; then this is where they are asked. Called by edges only.
"""

from typing import Any, Final

from toolsys import guesses
from toolsys.guesses import Bound
from toolsys.problems import FieldError, Problem

WRONG_LIMIT: Final = 5
WINDOW_SECONDS: Final = 900


def is_confirmed(user: Any, password: str) -> bool:
    """Say whether this is the person's password; an empty one asks nothing and counts for nothing.

    Raises: Problem (request.throttled), with how long to wait.
    """
    if not password:
        return False
    bounds = [Bound(f"password of {user.pk}", WRONG_LIMIT, WINDOW_SECONDS)]
    wait = guesses.wait_before(bounds)
    if wait:
        raise Problem("request.throttled", [FieldError("/password", f"try again in {guesses.said(wait)}")])
    if not user.check_password(password):
        return False
    guesses.forget(bounds)
    return True
