"""Tenants, and the platform's one row of switches."""

from django.core.validators import RegexValidator
from django.db import models
from django.db.models.functions import Now


class Tenant(models.Model):
    """An organisation. Written by operators; never deleted while it owns rows. Holds no personal data.

    `authz_epoch` is bumped, in its own transaction, by every change that a verdict or a digest depends on; the
    watermark statement compares it (DESIGN §4).
    """

    id = models.TextField(primary_key=True, validators=[RegexValidator(r"^[a-z][a-z0-9_-]{1,62}\Z")])
    name = models.TextField()
    is_enabled = models.BooleanField(db_default=True, help_text="The tenant's switch: off denies every call.")
    is_tool_calling_enabled = models.BooleanField(
        db_default=False, help_text="The feature flag tool_calling_enabled: off until the tenant is rolled out."
    )
    authz_epoch = models.BigIntegerField(db_default=1, editable=False)
    created_at = models.DateTimeField(db_default=Now(), editable=False)

    class Meta:
        db_table = "tenants"

    def __str__(self) -> str:
        return self.name


class PlatformState(models.Model):
    """The one row of platform-wide switches; written by operators only.

    `database_epoch` is raised by `manage.py recovery_fence` after a promotion or a restore: a non-terminal row of an
    older epoch counts as sent, because its watermark may have been lost.
    """

    id = models.SmallIntegerField(primary_key=True, default=1)
    is_execution_enabled = models.BooleanField(db_default=True)
    database_epoch = models.BigIntegerField(db_default=1)

    class Meta:
        db_table = "platform_state"
        constraints = [models.CheckConstraint(condition=models.Q(id=1), name="platform_state_has_one_row")]
