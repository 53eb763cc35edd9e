"""The sealed credential store: a name that references carry, and its versions, each sealed on its own."""

from django.core.validators import RegexValidator
from django.db import models

from toolsys.models.base import TenantOwned, tenant_key


class Credential(TenantOwned):
    """One secret of a tenant by its name; `store:<name>` refers to it. Written by `toolsys.vault` only.

    `current_version` is what the resolver opens; 0 means that nothing is left to open. A change of it raises the
    tenant's authorization epoch by trigger. Never deleted: rows and events name it.
    """

    name = models.TextField(validators=[RegexValidator(r"^[a-z][a-z0-9_-]{0,62}\Z")])
    current_version = models.IntegerField(db_default=0)
    retired_at = models.DateTimeField(null=True)

    class Meta:
        db_table = "credentials"
        constraints = [models.UniqueConstraint(fields=["tenant", "name"], name="credential_name_is_unique")]

    def __str__(self) -> str:
        return self.name


class CredentialVersion(TenantOwned):
    """One value of a credential. `sealed` can be written and never selected: only the definer function
    `toolsys_take_credential` reads it (grants see to it), so a query must defer it. Retiring erases it.
    """

    credential = tenant_key("toolsys.Credential")
    version = models.IntegerField()
    sealed = models.BinaryField(null=True)
    retired_at = models.DateTimeField(null=True)
    last_used_at = models.DateTimeField(null=True, help_text="Exact to a minute.")

    class Meta:
        db_table = "credential_versions"
        constraints = [
            models.UniqueConstraint(fields=["tenant", "credential", "version"], name="credential_version_is_unique"),
        ]

    def __str__(self) -> str:
        return str(self.version)
