"""People of a tenant, the agents' principals, and the keys that agent runtimes hold."""

from django.conf import settings
from django.db import models

from toolsys.domain.states import Role
from toolsys.models.base import TenantOwned


def _choices(kind: type[Role]) -> list[tuple[str, str]]:
    return [(role.value, role.value.replace("_", " ")) for role in kind if role is not Role.ANONYMOUS]


class Membership(TenantOwned):
    """One role of one person in one tenant. Written by tenant admins; removing it ends the access at once.

    Personal data: the link between a person and an organisation.
    """

    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="memberships")
    role = models.TextField(choices=_choices(Role))

    class Meta:
        db_table = "memberships"
        constraints = [
            models.UniqueConstraint(fields=["tenant", "user", "role"], name="membership_is_unique"),
        ]

    def __str__(self) -> str:
        return f"{self.role} of {self.tenant_id}"


class Principal(TenantOwned):
    """Who an agent acts for, as the tenant's runtime names them. Personal data: `external_id`, `display_name`."""

    external_id = models.TextField()
    display_name = models.TextField(blank=True)
    scopes = models.JSONField(default=list, blank=True)

    class Meta:
        db_table = "principals"
        constraints = [
            models.UniqueConstraint(fields=["tenant", "external_id"], name="principal_external_id_is_unique")
        ]

    def __str__(self) -> str:
        return self.display_name or self.external_id


class ApiKey(TenantOwned):
    """A runtime's bearer key: only the SHA-256 of its 256-bit secret is stored. Revoked, never deleted.

    `prefix` is unique over all tenants because it is looked up before a tenant is known; it tells nothing.
    `owner` is the person who answers for the key: they cannot approve what it proposes (four eyes).
    """

    name = models.TextField()
    prefix = models.TextField(unique=True)
    secret_sha256 = models.TextField()
    scopes = models.JSONField(default=list, blank=True)
    owner = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, null=True, related_name="+")
    expires_at = models.DateTimeField(null=True, blank=True)
    revoked_at = models.DateTimeField(null=True, blank=True)
    last_used_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        db_table = "api_keys"
        verbose_name = "API key"
        constraints = [models.UniqueConstraint(fields=["tenant", "name"], name="api_key_name_is_unique")]

    def __str__(self) -> str:
        return f"{self.name} (tsk_{self.prefix}_…)"
