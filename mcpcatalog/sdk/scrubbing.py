"""A server may say back what it was given: the connection's own secrets are taken out of whatever it returns.

Exact occurrences only; a server that encodes them cannot be outguessed. Only `mcpcatalog.sdk` imports it.
Source: DESIGN §8 "resolved values are scrubbed from everything that a tool returns".
"""

from collections.abc import Sequence
from typing import Any, Final

from mcpcatalog.remote import RemoteError

# Shorter ones occur by chance, and would tear holes into honest answers.
MINIMUM_LENGTH: Final = 8
SCRUBBED: Final = "[credential removed]"


def scrubbed(value: Any, secrets: Sequence[str]) -> Any:
    """Return the JSON value without the secrets, keys included."""
    worth = [secret for secret in secrets if len(secret) >= MINIMUM_LENGTH]
    return _without(value, worth) if worth else value


def scrub_error(error: RemoteError, secrets: Sequence[str]) -> RemoteError:
    error.detail = scrubbed(error.detail, secrets)
    error.args = tuple(scrubbed(list(error.args), secrets))
    return error


def _without(value: Any, secrets: Sequence[str]) -> Any:
    if isinstance(value, str):
        for secret in secrets:
            value = value.replace(secret, SCRUBBED)
        return value
    if isinstance(value, dict):
        return {_without(key, secrets): _without(inner, secrets) for key, inner in value.items()}
    return [_without(inner, secrets) for inner in value] if isinstance(value, list) else value
