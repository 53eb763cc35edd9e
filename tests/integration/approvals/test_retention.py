"""The delivery log forgets what is over and old, in batches, and nothing else; attempts go with their message only."""

import re
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from django.db import DatabaseError, connections, transaction
from django.utils import timezone

from approvals import notify, retention
from approvals.models import Delivery, DeliveryAttempt
from approvals.outbox_models import DeliveryStatus
from tests.factories import Tenancy
from tests.integration.approvals.test_outbox import subscribed
from tests.spec.requirements import gate
from toolsys import database, forgetting
from toolsys.problems import Problem
from toolsys.tenancy import tenant_transaction

DAYS = 90
SOURCE = Path(retention.__file__).parent / "sql" / "20_retention.sql"
TARGET = "http://127.0.0.1:9/hook"
DELIVERED, FAILED, PENDING = DeliveryStatus.DELIVERED, DeliveryStatus.FAILED, DeliveryStatus.PENDING


def message(tenancy: Tenancy, endpoint: Any, days_ago: float, status: DeliveryStatus = DELIVERED) -> UUID:
    """Write a message with two attempts, which was last to be sent so many days ago."""
    row = notify.send_test(tenant_id=tenancy.id, endpoint_id=endpoint.pk)
    then = timezone.now() - timedelta(days=days_ago)
    with tenant_transaction(tenancy.id):
        for number in (1, 2):
            DeliveryAttempt.objects.create(
                tenant_id=tenancy.id, delivery=row, number=number, outcome="500", milliseconds=1
            )
        Delivery.objects.filter(pk=row.pk).update(status=status, attempts=2, due_at=then)
    return row.pk


def kept(tenancy: Tenancy) -> set[UUID]:
    """Return the messages that are still there. Each has its attempts, and no attempt is there without its message."""
    with tenant_transaction(tenancy.id):
        found = set(Delivery.objects.values_list("pk", flat=True))
        attempts = list(DeliveryAttempt.objects.values_list("delivery_id", flat=True))
    assert sorted(attempts) == sorted([*found, *found])
    return found


@gate("outbox.retention")
def test_what_is_over_and_old_goes_with_its_attempts_and_nothing_else_does(acme: Tenancy, globex: Tenancy) -> None:
    mine, theirs = subscribed(acme, TARGET)[0], subscribed(globex, TARGET)[0]
    message(acme, mine, 91)
    message(acme, mine, 400, FAILED)
    message(globex, theirs, 91)
    stay = {message(acme, mine, 89), message(acme, mine, 89, FAILED), message(acme, mine, 400, PENDING)}
    others = {message(globex, theirs, 1)}
    assert retention.forget_deliveries(DAYS) == 3
    assert (kept(acme), kept(globex)) == (stay, others)
    assert retention.forget_deliveries(DAYS) == 0


@gate("outbox.retention")
def test_a_pass_is_bounded_and_takes_the_oldest_first(acme: Tenancy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forgetting, "BATCH", 2)
    monkeypatch.setattr(forgetting, "BATCHES_A_PASS", 2)
    endpoint = subscribed(acme, TARGET)[0]
    made = {days: message(acme, endpoint, days) for days in (95, 99, 93, 97, 96)}
    assert retention.forget_deliveries(DAYS) == 4
    assert kept(acme) == {made[93]}
    assert retention.forget_deliveries(DAYS) == 1


@gate("outbox.retention")
def test_what_was_sent_again_is_young_again(acme: Tenancy) -> None:
    endpoint = subscribed(acme, TARGET)[0]
    row = message(acme, endpoint, 100)
    notify.send_again(tenant_id=acme.id, delivery_id=row)
    with tenant_transaction(acme.id):
        Delivery.objects.filter(pk=row).update(status=DELIVERED)
    assert retention.forget_deliveries(DAYS) == 0
    assert kept(acme) == {row}


@gate("outbox.retention")
def test_who_sends_a_message_again_at_this_moment_keeps_it(acme: Tenancy) -> None:
    """Its row is locked: the pass goes by without waiting. The other way round, the message is gone and says so."""
    endpoint = subscribed(acme, TARGET)[0]
    row = message(acme, endpoint, 100)
    with transaction.atomic(using="operator"), connections["operator"].cursor() as cursor:
        cursor.execute(
            "UPDATE notification_deliveries SET status = 'pending', due_at = clock_timestamp() WHERE id = %s", [row]
        )
        assert retention.forget_deliveries(DAYS) == 0
    assert kept(acme) == {row}
    with tenant_transaction(acme.id):
        then = timezone.now() - timedelta(days=100)
        Delivery.objects.filter(pk=row).update(status=FAILED, due_at=then)
    assert retention.forget_deliveries(DAYS) == 1
    with pytest.raises(Problem, match=r"request\.not_found"):
        notify.send_again(tenant_id=acme.id, delivery_id=row)


@gate("outbox.retention")
def test_whoever_calls_the_function_cannot_forget_what_is_younger_than_a_day(acme: Tenancy) -> None:
    endpoint = subscribed(acme, TARGET)[0]
    young = message(acme, endpoint, 0.9)
    message(acme, endpoint, 1.1)
    for seconds in (-1e9, 0, 1):
        database.call("SELECT approvals_forget_deliveries(%s, %s)", (seconds, 500))
    assert kept(acme) == {young}
    with tenant_transaction(acme.id), pytest.raises(DatabaseError, match="permission denied"), transaction.atomic():
        DeliveryAttempt.objects.filter(delivery_id=young).delete()
    assert kept(acme) == {young}


@gate("outbox.retention")
def test_the_oldest_are_found_through_an_index(acme: Tenancy) -> None:
    question = re.search(r"FROM public.notification_deliveries d.*?greatest\(", SOURCE.read_text(), re.DOTALL)
    assert question is not None
    with transaction.atomic(using="operator"), connections["operator"].cursor() as cursor:
        for other in ("seqscan", "bitmapscan", "sort"):
            cursor.execute(f"SET LOCAL enable_{other} = off")
        cursor.execute(f"EXPLAIN SELECT d.id {question.group()}1, 86400)) ORDER BY d.due_at LIMIT 500")
        plan = "\n".join(row[0] for row in cursor.fetchall())
    assert "delivery_is_over" in plan
    assert "Index Cond: (due_at <" in plan
    assert "Sort" not in plan
