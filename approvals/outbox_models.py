"""The outbox's tables: who is told of what, each message with its attempts. Imported through `approvals.models`.

Messages are written by a trigger on the events, in the transaction of the fact that they tell of; the courier delivers.
"""

from enum import StrEnum

from django.conf import settings
from django.db import models

from toolsys.models.base import TenantOwned, tenant_key


class EndpointKind(StrEnum):
    WEBHOOK = "webhook"
    EMAIL = "email"


class DeliveryStatus(StrEnum):
    PENDING = "pending"
    DELIVERED = "delivered"
    FAILED = "failed"


def _choices(kind: type[StrEnum]) -> list[tuple[str, str]]:
    return [(member.value, member.value) for member in kind]


class NotificationEndpoint(TenantOwned):
    """Where an organisation wants to be told, and of which events. Written by `approvals.notify` only; never deleted.

    `target` is a URL, or an e-mail address (personal data). `credential` names the signing secret in the sealed store;
    empty for e-mail. `disabled_reason` says why it is off: `by_hand`, or `gone` where the receiver answered 410.
    """

    name = models.TextField()
    kind = models.TextField(choices=_choices(EndpointKind))
    target = models.TextField()
    types = models.JSONField(default=list)
    credential = models.TextField(blank=True)
    is_enabled = models.BooleanField(default=True)
    disabled_reason = models.TextField(blank=True)
    created_by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+")

    class Meta:
        db_table = "notification_endpoints"
        constraints = [models.UniqueConstraint(fields=["tenant", "name"], name="notification_endpoint_name_is_unique")]

    def __str__(self) -> str:
        return self.name


class Delivery(TenantOwned):
    """One message to one endpoint. Its id is the message's: every repetition carries the same one.

    `event_id` null is a test message. Identity only: no argument, no result. `attempts` fences: whoever records an
    outcome names the attempt that it made. Deleted by retention (`approvals.retention`), with its attempts.
    """

    endpoint = tenant_key("approvals.NotificationEndpoint")
    event_id = models.BigIntegerField(null=True)
    event_type = models.TextField()
    run_id = models.UUIDField(null=True)
    invocation_id = models.UUIDField(null=True)
    status = models.TextField(choices=_choices(DeliveryStatus), default=DeliveryStatus.PENDING)
    attempts = models.IntegerField(default=0)
    attempts_before = models.IntegerField(default=0, help_text="Those before it was last sent again by hand.")
    due_at = models.DateTimeField()
    leased_until = models.DateTimeField(null=True)
    delivered_at = models.DateTimeField(null=True)
    outcome = models.TextField(blank=True)

    class Meta:
        db_table = "notification_deliveries"
        verbose_name_plural = "deliveries"
        constraints = [
            # An event that is inserted again after an unknown commit tells nobody twice.
            models.UniqueConstraint(fields=["tenant", "endpoint", "event_id"], name="delivery_of_event_is_unique"),
        ]
        indexes = [
            # The courier asks each endpoint for what is due, the log for what is new.
            models.Index(
                fields=["tenant", "endpoint", "due_at"], name="delivery_waits", condition=models.Q(status="pending")
            ),
            models.Index(fields=["tenant", "-created_at"], name="delivery_by_time"),
            # Retention takes what is over, the oldest first.
            models.Index(
                fields=["due_at"], name="delivery_is_over", condition=models.Q(status__in=("delivered", "failed"))
            ),
        ]


class DeliveryAttempt(TenantOwned):
    """How one attempt ended: an HTTP status, or why there was none. Append-only until its message is forgotten."""

    delivery = tenant_key("approvals.Delivery")
    number = models.IntegerField()
    outcome = models.TextField()
    milliseconds = models.IntegerField()

    class Meta:
        db_table = "notification_attempts"
        indexes = [models.Index(fields=["tenant", "delivery", "number"], name="attempt_by_delivery")]
