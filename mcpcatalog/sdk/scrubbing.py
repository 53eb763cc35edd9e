"""A server may say back what it was given: the connection's own secrets are taken out of whatever it returns.

A login is more than what was resolved: a token that was obtained, a client's forms. Only `mcpcatalog.sdk` imports it.
Source: DESIGN §8 "resolved values are scrubbed from everything that a tool returns".
"""

from collections.abc import Sequence
from typing import Any

from mcpcatalog.remote import RemoteError
from toolsys.domain.scrubbing import MINIMUM_LENGTH, cleaned, without


def scrubbed(value: Any, secrets: Sequence[str]) -> Any:
    """Return the JSON value without the secrets, keys included."""
    worth = [secret for secret in secrets if len(secret) >= MINIMUM_LENGTH]

    def clean(text: str) -> str:
        for secret in worth:
            text = without(text, secret)
        return text

    return cleaned(value, clean) if worth else value


def scrub_error(error: RemoteError, secrets: Sequence[str]) -> RemoteError:
    error.detail = scrubbed(error.detail, secrets)
    error.args = tuple(scrubbed(list(error.args), secrets))
    return error
