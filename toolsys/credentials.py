"""Resolves credential references to short-lived values. References travel; values never do.

For now a reference names a variable of the worker's environment that an operator set for this purpose
(`env:TOOLSYS_CREDENTIAL_...`); the sealed store is another resolver behind the same port. Source: DESIGN §8.
"""

import os
from typing import Final

from toolsys.domain.context import SecretValue
from toolsys.ports import NotAvailable

PREFIX: Final = "env:TOOLSYS_CREDENTIAL_"


class EnvironmentCredentials:
    """Implements `ports.CredentialResolver`; reads only variables with the prefix that operators use for it."""

    async def resolve(self, credential_ref: str) -> SecretValue:
        """Raises: NotAvailable (tool.credentials_missing)."""
        value = os.environ.get(credential_ref.removeprefix("env:")) if credential_ref.startswith(PREFIX) else None
        if not value:
            raise NotAvailable("tool.credentials_missing", "the reference resolves to nothing")
        return SecretValue(value)
