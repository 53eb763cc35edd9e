"""The courier: delivers what the outbox holds, on threads of its own beside the sweeps of the scheduler.

It claims a message under a lease, sends it outside of any transaction and records how that ended, fenced by the number
of the attempt: who dies in between leaves a lease that passes, and the message goes out again under the same id. At
least once, never silently never. One message at a time for an endpoint and few for a tenant, so that nobody's slow
receiver keeps others waiting. Source: DESIGN §5 and §13.
"""

import asyncio
import logging
import threading
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Final
from uuid import UUID

from django.db import DatabaseError
from django.db.models import F, Q
from standardwebhooks import Webhook

from approvals.messages import Message
from approvals.models import Delivery, DeliveryAttempt, NotificationEndpoint
from approvals.outbox_models import DeliveryStatus, EndpointKind
from toolsys import database
from toolsys.credentials import KIND
from toolsys.egress import EgressClient, EgressCounts, EgressError, EgressPolicy, retry_after_seconds
from toolsys.envelope import CannotOpen
from toolsys.models import ApprovalRequest, ToolEvent
from toolsys.ports import Sealer
from toolsys.tenancy import tenant_transaction

log = logging.getLogger("approvals.courier")
# Seconds to wait after the first, second, … attempt: Standard Webhooks' schedule, three days in all.
SCHEDULE: Final = (5, 300, 1_800, 7_200, 18_000, 36_000, 50_400, 72_000, 86_400)
LEASE_SECONDS: Final = 60.0
SEND_SECONDS: Final = 15.0
ANSWER_BYTES: Final = 16_384
THREADS: Final = 8
PER_TENANT: Final = 3
BATCH: Final = 64
GONE: Final = 410

Mailer = Callable[[str, str, str], None]


@dataclass(frozen=True, slots=True)
class Parcel:
    """One claimed message, with what it takes to send it. `secrets` are those that sign it, the newest first."""

    tenant_id: str
    delivery_id: UUID
    attempt: int
    kind: EndpointKind
    target: str
    secrets: tuple[str, ...]
    message: Message


@dataclass(frozen=True, slots=True)
class Ending:
    """`outcome` is an HTTP status, `sent` for a mail, or why there was none. `wait_seconds` is what was asked for."""

    outcome: str
    is_delivered: bool
    milliseconds: int = 0
    wait_seconds: float = 0.0


@dataclass
class Courier:
    """`link_of` makes the address of an approval's or an invocation's page; `mailer` is None without a mail server."""

    sealer: Sealer
    policy_for: Callable[[str], EgressPolicy]
    link_of: Callable[[UUID | None, UUID | None], str]
    mailer: Mailer | None = None
    counts: EgressCounts | None = None
    lease_seconds: float = LEASE_SECONDS
    _under_way: dict[UUID, tuple[str, "Future[None]"]] = field(default_factory=dict)

    def serve(self, every_seconds: float, stopping: threading.Event) -> None:
        """Deliver until told to stop; then let what is being sent end."""
        with ThreadPoolExecutor(THREADS, thread_name_prefix="courier") as pool:
            while not stopping.is_set():
                try:
                    self._hand_out(pool)
                except (DatabaseError, OSError) as error:
                    log.error("the outbox could not be read (%s); trying again", type(error).__name__)
                    database.discard_connection()
                stopping.wait(every_seconds)

    def _hand_out(self, pool: ThreadPoolExecutor) -> None:
        self._under_way = {key: value for key, value in self._under_way.items() if not value[1].done()}
        busy = Counter(tenant_id for tenant_id, _ in self._under_way.values())
        for tenant_id, delivery_id, endpoint_id in due():
            is_free = len(self._under_way) < THREADS and busy[tenant_id] < PER_TENANT
            if is_free and endpoint_id not in self._under_way:
                busy[tenant_id] += 1
                self._under_way[endpoint_id] = (tenant_id, pool.submit(self._deliver_safely, tenant_id, delivery_id))

    def _deliver_safely(self, tenant_id: str, delivery_id: UUID) -> None:
        """One message that cannot be handled may not end the thread's others: its lease passes, and it comes again."""
        try:
            self.deliver(tenant_id, delivery_id)
        except Exception as error:  # noqa: BLE001 - whatever it is, it ends no other message; its text may hold values
            log.error("a message could not be handled (%s)", type(error).__name__)
        finally:
            database.discard_connection()

    def deliver(self, tenant_id: str, delivery_id: UUID) -> Ending | None:
        """Claim, send, record. None: somebody else has it, or it is not due. Transaction: must be outside."""
        parcel = self.claim(tenant_id, delivery_id)
        if parcel is None:
            return None
        ending = self.send(parcel)
        self.record(parcel, ending)
        return ending

    def claim(self, tenant_id: str, delivery_id: UUID) -> Parcel | None:
        """Take a message for the length of a lease, by comparing and setting."""
        now = database.now()
        with tenant_transaction(tenant_id):
            free = Q(leased_until=None) | Q(leased_until__lte=now)
            found = Delivery.objects.filter(free, pk=delivery_id, status=DeliveryStatus.PENDING, due_at__lte=now)
            lease = timedelta(seconds=self.lease_seconds)
            if not found.update(leased_until=now + lease, attempts=F("attempts") + 1):
                return None
            row = Delivery.objects.select_related("endpoint").get(pk=delivery_id)
            return Parcel(
                tenant_id=tenant_id, delivery_id=row.pk, attempt=row.attempts, kind=EndpointKind(row.endpoint.kind),
                target=row.endpoint.target, secrets=self._secrets(tenant_id, row.endpoint.credential),
                message=self._message(row),
            )  # fmt: skip

    def send(self, parcel: Parcel) -> Ending:
        """Send once. Whatever the other side does becomes an ending."""
        began = time.monotonic()
        if parcel.kind is EndpointKind.EMAIL:
            ending = self._mail(parcel)
        elif not parcel.secrets:
            ending = Ending("no_secret", is_delivered=False)
        else:
            ending = asyncio.run(self._post(parcel))
        took = round((time.monotonic() - began) * 1000)
        return Ending(ending.outcome, ending.is_delivered, took, ending.wait_seconds)

    def record(self, parcel: Parcel, ending: Ending) -> bool:
        """Write down how an attempt ended. False: another attempt has begun meanwhile, whose word will count."""
        with tenant_transaction(parcel.tenant_id):
            found = Delivery.objects.select_for_update().filter(
                pk=parcel.delivery_id, attempts=parcel.attempt, status=DeliveryStatus.PENDING
            )  # fmt: skip
            row = found.first()
            if row is None:
                return False
            DeliveryAttempt.objects.create(
                tenant_id=parcel.tenant_id, delivery=row, number=parcel.attempt, outcome=ending.outcome,
                milliseconds=ending.milliseconds,
            )  # fmt: skip
            found.update(outcome=ending.outcome, leased_until=None, **_consequence(row, ending))
            if ending.outcome == str(GONE):
                endpoint = NotificationEndpoint.objects.filter(pk=row.endpoint_id)
                endpoint.update(is_enabled=False, disabled_reason="gone")
            return True

    async def _post(self, parcel: Parcel) -> Ending:
        body, now = parcel.message.body(), datetime.now(UTC)
        try:
            answer = await EgressClient(self.policy_for(parcel.target), counts=self.counts).send(
                "POST", parcel.target, headers=signed(parcel, body, now), content=body.encode(),
                timeout_seconds=SEND_SECONDS, maximum_bytes=ANSWER_BYTES, keeps_partial=True,
            )  # fmt: skip
        except EgressError as refused:
            return Ending(refused.reason, is_delivered=False)
        asked = answer.fields.get("retry-after", "") if answer.status in {429, 503} else ""
        wait = retry_after_seconds(asked, now) if asked else None
        return Ending(str(answer.status), 200 <= answer.status < 300, wait_seconds=wait or 0.0)

    def _mail(self, parcel: Parcel) -> Ending:
        if self.mailer is None:
            return Ending("no_mail_server", is_delivered=False)
        try:
            self.mailer(parcel.target, parcel.message.subject(), parcel.message.mail())
        except OSError as refused:  # smtplib's exceptions are among them
            return Ending(f"mail.{type(refused).__name__}", is_delivered=False)
        return Ending("sent", is_delivered=True)

    def _secrets(self, tenant_id: str, credential: str) -> tuple[str, ...]:
        if not credential:
            return ()
        rows = database.call("SELECT id, sealed FROM approvals_take_webhook_secrets(%s)", (credential,))
        try:
            return tuple(
                self.sealer.open(bytes(sealed), tenant_id=tenant_id, kind=KIND, row=identifier).decode()
                for identifier, sealed in rows
            )
        except CannotOpen:
            return ()

    def _message(self, row: Delivery) -> Message:
        event = ToolEvent.objects.filter(pk=row.event_id).first() if row.event_id is not None else None
        requests = ApprovalRequest.objects.filter(invocation_id=row.invocation_id) if row.invocation_id else None
        approval_id = requests.values_list("id", flat=True).first() if requests is not None else None
        is_approval = row.event_type.startswith("approval.")
        return Message(
            id=row.pk, type=row.event_type, at=row.created_at, tenant_id=row.tenant_id, run_id=row.run_id,
            invocation_id=row.invocation_id, approval_id=approval_id, facts=event.payload if event else {},
            link=self.link_of(approval_id if is_approval else None, row.invocation_id),
        )  # fmt: skip


def due() -> list[tuple[str, UUID, UUID]]:
    """Return (tenant, delivery, endpoint) of what should be tried now: of each endpoint the oldest."""
    found = database.call("SELECT * FROM approvals_due_deliveries(%s)", (BATCH,))
    return [(tenant_id, delivery_id, endpoint_id) for tenant_id, delivery_id, endpoint_id in found]


def signed(parcel: Parcel, body: str, now: datetime) -> dict[str, str]:
    """Return the headers of Standard Webhooks: one signature for each live secret."""
    message_id = parcel.message.message_id
    signatures = [Webhook(secret).sign(message_id, now, body) for secret in parcel.secrets]
    return {
        "content-type": "application/json", "user-agent": "toolsys-webhooks", "webhook-id": message_id,
        "webhook-timestamp": str(int(now.timestamp())), "webhook-signature": " ".join(signatures),
    }  # fmt: skip


def _consequence(row: Delivery, ending: Ending) -> dict[str, object]:
    if ending.is_delivered:
        return {"status": DeliveryStatus.DELIVERED, "delivered_at": database.now()}
    tried = row.attempts - row.attempts_before
    if tried > len(SCHEDULE) or ending.outcome == str(GONE):
        return {"status": DeliveryStatus.FAILED}
    wait = max(SCHEDULE[tried - 1], min(ending.wait_seconds, SCHEDULE[-1]))
    return {"due_at": database.now() + timedelta(seconds=wait)}
