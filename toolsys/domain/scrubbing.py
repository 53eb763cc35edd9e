"""Taking secrets out of what somebody returned: exact occurrences, in values and in names.

Whoever encodes them cannot be outguessed. Pure. Source: DESIGN §8 "resolved values are scrubbed from everything that
a tool returns".
"""

from collections.abc import Callable
from typing import Any, Final

# Shorter ones occur by chance, and would tear holes into honest answers.
MINIMUM_LENGTH: Final = 8
SCRUBBED: Final = "[credential removed]"

type Clean = Callable[[str], str]


def without[T: (str, bytes)](data: T, secret: str) -> T:
    """Return a text, or the bytes of one, without a secret."""
    if len(secret) < MINIMUM_LENGTH:
        return data
    if isinstance(data, bytes):
        return data.replace(secret.encode("utf-8", "surrogatepass"), SCRUBBED.encode())
    return data.replace(secret, SCRUBBED)


def cleaned(value: Any, clean: Clean) -> Any:
    """Return a value with every text in it cleaned, keys included."""
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, dict):
        return {cleaned(key, clean): cleaned(inner, clean) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        found = [cleaned(inner, clean) for inner in value]
        return found if isinstance(value, list) else tuple(found)
    return value
