"""The outbox: written with the fact, signed for a public library to verify, sent at least once under one id."""

import os
import re
import signal
import socket
import sys
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.core import mail
from django.db import connection, connections, transaction
from django.utils import timezone

from approvals import courier, notify
from approvals.courier import SCHEDULE, Courier
from approvals.models import Delivery, DeliveryAttempt, NotificationEndpoint
from approvals.outbox_models import EndpointKind
from config import wiring
from tests.factories import Tenancy
from tests.integration.console.conftest import HeldCall, hold
from tests.integration.console.people import PASSWORD, person
from tests.integration.processes import eventually, running
from tests.receiver import Receiver, receiving
from tests.spec.requirements import gate
from toolsys.composition import composed
from toolsys.domain.states import Role
from toolsys.egress import EgressPolicy, policy_for
from toolsys.models import ApprovalRequest, CredentialVersion
from toolsys.ports import Runtime
from toolsys.problems import Problem
from toolsys.tenancy import tenant_transaction

SOURCE = Path(courier.__file__).parent / "sql" / "10_outbox.sql"
TYPES = ("approval.requested", "approval.approved", "tool.call.denied")


def local(url: str) -> EgressPolicy:
    """What an operator who opens this machine's own network allows."""
    return policy_for([url], open_networks=["127.0.0.1/32"], plain_http_hosts=[url.split("/")[2]])


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving() as found:
        yield found


@pytest.fixture
def post() -> Courier:
    return replace(wiring.courier(), policy_for=local)


def subscribed(tenancy: Tenancy, target: str, **changes: Any) -> tuple[NotificationEndpoint, str]:
    given: dict[str, Any] = {
        "tenant_id": tenancy.id, "user": person((tenancy, Role.TENANT_ADMIN)).user, "name": "ours",
        "kind": EndpointKind.WEBHOOK, "target": target, "types": TYPES, "sealer": composed().runtime.sealer,
        "policy_for": local,
    }  # fmt: skip
    return notify.create_endpoint(**given | changes)


def deliveries(tenancy: Tenancy) -> list[Delivery]:
    with tenant_transaction(tenancy.id):
        return list(Delivery.objects.order_by("created_at"))


def attempts(tenancy: Tenancy) -> list[tuple[int, str]]:
    with tenant_transaction(tenancy.id):
        return list(DeliveryAttempt.objects.order_by("number").values_list("number", "outcome"))


def pass_time(tenancy: Tenancy) -> None:
    """Let the wait before the next attempt pass, and the lease of one who died."""
    past = timezone.now() - timedelta(seconds=1)
    with tenant_transaction(tenancy.id):
        Delivery.objects.filter(status="pending").update(due_at=past)
        Delivery.objects.filter(leased_until__isnull=False).update(leased_until=past)


def deliver_all(post: Courier, tenancy: Tenancy) -> list[str]:
    found = [post.deliver(tenant_id, each) for tenant_id, each, _ in courier.due() if tenant_id == tenancy.id]
    return [ending.outcome for ending in found if ending is not None]


@gate("outbox.signed")
def test_a_held_call_is_told_in_a_message_that_the_public_library_verifies(
    acme: Tenancy, receiver: Receiver, post: Courier
) -> None:
    endpoint, secret = subscribed(acme, receiver.url)
    held = hold(acme, "the secret plan")
    assert deliver_all(post, acme) == ["204"]
    (got,) = receiver.got
    (row,) = deliveries(acme)
    event = got.event(secret)
    assert (got.id, event["type"]) == (f"msg_{row.pk.hex}", "approval.requested")
    assert event["data"] == {
        "tenant_id": acme.id, "run_id": str(acme.run.id), "invocation_id": str(held.request.invocation_id),
        "approval_id": str(held.request.pk), "tool_name": "demo.external_write", "outcome_status": None,
        "reason_code": None, "url": settings.TOOLSYS.public_url + held.page,
    }  # fmt: skip
    assert b"secret plan" not in got.body
    assert (row.status, row.attempts, attempts(acme)) == ("delivered", 1, [(1, "204")])
    assert not got.is_signed_with("whsec_" + "A" * 43 + "=")
    assert not replace(got, body=got.body + b" ").is_signed_with(secret)
    assert endpoint.credential.startswith("webhook-")


@gate("outbox.transactional")
def test_a_message_is_written_with_its_fact_or_not_at_all(acme: Tenancy, globex: Tenancy, receiver: Receiver) -> None:
    subscribed(acme, receiver.url)
    with tenant_transaction(acme.id):
        _emit(acme, "approval.requested", "x:1")
        transaction.set_rollback(True)
    assert deliveries(acme) == []
    for _ in range(2):
        with tenant_transaction(acme.id):
            _emit(acme, "approval.requested", "x:1")
    assert len(deliveries(acme)) == 1
    with tenant_transaction(acme.id):
        _emit(acme, "approval.expired", "x:2")
    assert len(deliveries(acme)) == 1, "nobody asked to be told of it"
    hold(globex)
    acme.propose(("demo.echo", {"text": "x"}))
    assert (len(deliveries(acme)), deliveries(globex)) == (1, [])


def _emit(tenancy: Tenancy, kind: str, key: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO tool_events (tenant_id, type, payload, derivation_key, created_at)"
            " VALUES (%s, %s, '{}', %s, clock_timestamp()) ON CONFLICT (tenant_id, derivation_key) DO NOTHING",
            [tenancy.id, kind, key],
        )


@gate("outbox.retries")
def test_a_failing_receiver_is_tried_again_by_schedule_and_given_up_at_the_cap(
    acme: Tenancy, receiver: Receiver, post: Courier
) -> None:
    subscribed(acme, receiver.url)
    receiver.answers = [503]
    hold(acme)
    waits = []
    for _ in range(len(SCHEDULE) + 1):
        before = timezone.now()
        assert deliver_all(post, acme) == ["503"]
        assert deliver_all(post, acme) == [], "it is not due yet"
        waits.append(round((deliveries(acme)[0].due_at - before).total_seconds()))
        pass_time(acme)
    assert waits[:-1] == pytest.approx(SCHEDULE, abs=5)
    assert deliver_all(post, acme) == []
    (row,) = deliveries(acme)
    assert (row.status, row.attempts, row.outcome) == ("failed", 10, "503")
    assert len({got.id for got in receiver.got}) == 1
    assert len({got.body for got in receiver.got}) == 1


def test_what_the_receiver_asks_for_is_waited_for_and_410_turns_it_off(
    acme: Tenancy, receiver: Receiver, post: Courier
) -> None:
    endpoint, _ = subscribed(acme, receiver.url)
    receiver.answers, receiver.fields = [429, 410], {"retry-after": "900"}
    hold(acme)
    before = timezone.now()
    assert deliver_all(post, acme) == ["429"]
    assert 890 < (deliveries(acme)[0].due_at - before).total_seconds() < 920
    pass_time(acme)
    assert deliver_all(post, acme) == ["410"]
    with tenant_transaction(acme.id):
        endpoint.refresh_from_db()
    assert (endpoint.is_enabled, endpoint.disabled_reason, deliveries(acme)[0].status) == (False, "gone", "failed")
    hold(acme, "another")
    assert len(deliveries(acme)) == 1, "who is off is not told"


@gate("outbox.replay")
def test_sending_again_by_hand_repeats_the_message_under_its_own_id(
    acme: Tenancy, globex: Tenancy, receiver: Receiver, post: Courier
) -> None:
    subscribed(acme, receiver.url)
    hold(acme)
    deliver_all(post, acme)
    (row,) = deliveries(acme)
    with pytest.raises(Problem):
        notify.send_again(tenant_id=globex.id, delivery_id=row.pk)
    notify.send_again(tenant_id=acme.id, delivery_id=row.pk)
    assert deliver_all(post, acme) == ["204"]
    assert [got.id for got in receiver.got] == [f"msg_{row.pk.hex}"] * 2
    assert attempts(acme) == [(1, "204"), (2, "204")]


def test_two_couriers_send_a_message_once(acme: Tenancy, receiver: Receiver, post: Courier) -> None:
    subscribed(acme, receiver.url)
    hold(acme)
    (row,) = deliveries(acme)
    first, second = post.claim(acme.id, row.pk), post.claim(acme.id, row.pk)
    assert first is not None
    assert second is None
    assert deliver_all(post, acme) == []


@gate("outbox.crash")
def test_who_died_before_recording_is_followed_and_cannot_overwrite(
    acme: Tenancy, receiver: Receiver, post: Courier
) -> None:
    subscribed(acme, receiver.url)
    hold(acme)
    (row,) = deliveries(acme)
    dead = post.claim(acme.id, row.pk)
    assert dead is not None
    ending = post.send(dead)
    assert courier.due() == [] or all(each != row.pk for _, each, _ in courier.due())
    pass_time(acme)
    receiver.answers = [500]
    assert deliver_all(post, acme) == ["500"]
    assert post.record(dead, ending) is False
    (row,) = deliveries(acme)
    assert (row.status, row.attempts, row.outcome) == ("pending", 2, "500")
    assert len({got.id for got in receiver.got}) == 1


@gate("outbox.crash")
@pytest.mark.slow
def test_a_scheduler_killed_between_commit_and_delivery_loses_nothing(
    acme: Tenancy, receiver: Receiver, tmp_path: Path
) -> None:
    """The message is committed while nobody delivers; one is killed while it sends; the next one sends it again."""
    _, secret = subscribed(acme, receiver.url)
    hold(acme)
    receiver.holds.clear()
    command = [sys.executable, "manage.py", "scheduler"]
    opened = {"TOOLSYS_EGRESS_PLAIN_HTTP_HOSTS": f"127.0.0.1:{receiver.port}", "TOOLSYS_OUTBOX_SECONDS": "0.1"}
    (tmp_path / "first").mkdir()
    (tmp_path / "second").mkdir()
    with running(command, tmp_path / "first", opened) as first:
        eventually(receiver.arrived.is_set, "the first one sends", 60)
        first.end(signal.SIGKILL)
    (row,) = deliveries(acme)
    assert (row.status, row.attempts) == ("pending", 1)
    receiver.holds.set()
    pass_time(acme)
    with running(command, tmp_path / "second", opened):
        eventually(lambda: deliveries(acme)[0].status == "delivered", "the second one delivers", 60)
    assert [got.id for got in receiver.got] == [f"msg_{row.pk.hex}"] * 2
    assert receiver.got[1].event(secret)["type"] == "approval.requested"


# The scheduler as it is, which stops for good where the courier is about to call this method for a message of this
# tenant: other tests' tenants have messages in the same outbox.
STOPPING = """
import os, pathlib, sys, time
import django
from django.core.management import execute_from_command_line
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
django.setup()
from approvals.courier import Courier
method, stopped, tenant = sys.argv[1:]
goes_on = getattr(Courier, method)
def stop(self, parcel, *rest):
    if parcel.tenant_id != tenant:
        return goes_on(self, parcel, *rest)
    pathlib.Path(stopped).touch()
    time.sleep(600)
setattr(Courier, method, stop)
execute_from_command_line(["manage.py", "scheduler"])
"""
DELIVERY_SECONDS = 120.0


@gate("outbox.crash")
@pytest.mark.slow
@pytest.mark.parametrize(("before", "sent"), [("send", 0), ("record", 1)], ids=["before sending", "before recording"])
def test_a_scheduler_killed_at_either_side_of_sending_is_followed_under_the_same_id(
    acme: Tenancy, receiver: Receiver, tmp_path: Path, before: str, sent: int
) -> None:
    """SIGKILL after the claim, and after the receiver has answered: it arrives, and is recorded once."""
    _, secret = subscribed(acme, receiver.url)
    hold(acme)
    opened = {"TOOLSYS_EGRESS_PLAIN_HTTP_HOSTS": f"127.0.0.1:{receiver.port}", "TOOLSYS_OUTBOX_SECONDS": "0.1"}
    (tmp_path / "first").mkdir()
    (tmp_path / "second").mkdir()
    stopped = tmp_path / "stopped"
    command = [sys.executable, "-c", STOPPING, before, str(stopped), acme.id]
    with running(command, tmp_path / "first", opened) as first:
        eventually(stopped.exists, f"the first one is about to {before}", DELIVERY_SECONDS)
        first.end(signal.SIGKILL)
    (row,) = deliveries(acme)
    assert (row.status, row.attempts, attempts(acme), len(receiver.got)) == ("pending", 1, [], sent)
    assert row.leased_until is not None
    pass_time(acme)
    with running([sys.executable, "manage.py", "scheduler"], tmp_path / "second", opened):
        eventually(lambda: deliveries(acme)[0].status == "delivered", "the second one delivers", DELIVERY_SECONDS)
    assert [got.id for got in receiver.got] == [f"msg_{row.pk.hex}"] * (sent + 1)
    assert len({got.body for got in receiver.got}) == 1
    assert all(got.is_signed_with(secret) for got in receiver.got)
    assert (len(deliveries(acme)), attempts(acme)) == (1, [(2, "204")])


@gate("outbox.signed")
def test_while_a_secret_is_rotated_both_verify_and_then_the_new_one_only(
    acme: Tenancy, receiver: Receiver, post: Courier
) -> None:
    endpoint, old = subscribed(acme, receiver.url)
    sealer = composed().runtime.sealer
    _, new = notify.rotate_secret(tenant_id=acme.id, endpoint_id=endpoint.pk, sealer=sealer)
    hold(acme)
    deliver_all(post, acme)
    assert [receiver.got[0].is_signed_with(secret) for secret in (old, new)] == [True, True]
    _, newest = notify.rotate_secret(tenant_id=acme.id, endpoint_id=endpoint.pk, sealer=sealer)
    notify.send_test(tenant_id=acme.id, endpoint_id=endpoint.pk)
    deliver_all(post, acme)
    assert [receiver.got[1].is_signed_with(secret) for secret in (old, new, newest)] == [False, True, True]
    with tenant_transaction(acme.id):
        assert CredentialVersion.objects.filter(retired_at=None).count() == 2


@pytest.mark.parametrize(
    ("target", "reason"),
    [
        ("http://example.com/", "plain_http"), ("https://10.0.0.1/", "address"),
        ("https://user@example.com/", "userinfo"), ("file:///etc/passwd", "not_allowed"), ("https://[::1]/", "address"),
    ],
    ids=["plain", "private", "userinfo", "file", "loopback"],
)  # fmt: skip
def test_a_webhook_leads_nowhere_that_egress_refuses(acme: Tenancy, target: str, reason: str) -> None:
    with pytest.raises(Problem) as refused:
        subscribed(acme, target, policy_for=wiring.webhook_policy)
    assert [error.message for error in refused.value.errors] == [f"not a URL that may be called: {reason}"]


def test_a_receiver_that_is_not_there_or_redirects_is_a_failed_attempt(
    acme: Tenancy, receiver: Receiver, post: Courier
) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        subscribed(acme, f"http://127.0.0.1:{closed.getsockname()[1]}/", name="closed")
        subscribed(acme, receiver.url, name="redirects")
        receiver.answers, receiver.fields = [302], {"location": "http://169.254.169.254/"}
        hold(acme)
        assert sorted(deliver_all(post, acme)) == ["redirect", "unreachable"]


@gate("outbox.mail")
def test_mail_says_what_and_where_and_never_the_arguments(
    acme: Tenancy, post: Courier, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(settings, "MAILERS", {"default": {"BACKEND": "django.core.mail.backends.locmem.EmailBackend"}})
    mail.outbox = []
    subscribed(acme, "approvers@example.com", kind=EndpointKind.EMAIL)
    held = hold(acme, "the secret plan")
    assert deliver_all(post, acme) == ["no_mail_server"]
    pass_time(acme)
    assert deliver_all(replace(post, mailer=wiring._mail), acme) == ["sent"]
    (sent,) = mail.outbox
    assert (sent.to, sent.subject) == (["approvers@example.com"], f"[{acme.id}] A call waits for people")
    assert settings.TOOLSYS.public_url + held.page in sent.body
    assert "secret plan" not in f"{sent.body}{sent.subject}"


def test_a_mail_server_that_refuses_is_a_failed_attempt(acme: Tenancy, post: Courier) -> None:
    def refuses(*_: str) -> None:
        raise ConnectionRefusedError

    subscribed(acme, "approvers@example.com", kind=EndpointKind.EMAIL)
    hold(acme)
    assert deliver_all(replace(post, mailer=refuses), acme) == ["mail.ConnectionRefusedError"]


def test_a_decision_is_told_too(acme: Tenancy, receiver: Receiver, post: Courier, worker: Runtime) -> None:
    subscribed(acme, receiver.url)
    held: HeldCall = hold(acme)
    approver = person((acme, Role.EXPERT_APPROVER))
    answer = approver.post(held.page, decision="approve", digest=held.request.digest, password=PASSWORD)
    assert answer.status_code == 302
    with tenant_transaction(acme.id):
        assert ApprovalRequest.objects.get(pk=held.request.pk).status == "approved"
    assert [row.event_type for row in deliveries(acme)] == ["approval.requested", "approval.approved"]


def test_the_suite_s_environment_has_no_mail_server() -> None:
    assert not transaction.get_connection().in_atomic_block
    assert os.environ.get("EMAIL_HOST") is None
    assert wiring.courier().mailer is None


@gate("outbox.turns")
def test_a_long_queue_of_one_endpoint_hides_no_message_of_another(acme: Tenancy, globex: Tenancy) -> None:
    other, slow = [subscribed(tenancy, "https://example.org/hook")[0] for tenancy in (globex, acme)]
    past = timezone.now() - timedelta(hours=1)
    made = {"event_type": "approval.requested", "due_at": past}
    with tenant_transaction(acme.id):
        Delivery.objects.bulk_create(
            Delivery(tenant_id=acme.id, endpoint=slow, **{**made, "due_at": past - timedelta(seconds=number)})
            for number in range(10 * courier.BATCH + 1)
        )
        oldest = Delivery.objects.order_by("due_at").values_list("id", flat=True).first()
    with tenant_transaction(globex.id):
        waiting = Delivery.objects.create(tenant_id=globex.id, endpoint=other, **made)
    mine = [each for each in courier.due() if each[0] in {acme.id, globex.id}]
    assert mine == [(acme.id, oldest, slow.pk), (globex.id, waiting.pk, other.pk)]
    with tenant_transaction(globex.id):
        NotificationEndpoint.objects.update(is_enabled=False)
    assert [each for each in courier.due() if each[0] == globex.id] == []


@gate("outbox.turns")
def test_what_is_due_is_found_through_an_index(acme: Tenancy) -> None:
    """A clock that changes within the statement would be asked of every row that waits."""
    question = re.search(r"(WITH RECURSIVE waiting.*?)\$\$", SOURCE.read_text(), re.DOTALL)
    assert question is not None
    with transaction.atomic(using="operator"), connections["operator"].cursor() as cursor:
        for way in ("seqscan", "bitmapscan", "hashjoin", "mergejoin", "sort"):
            cursor.execute(f"SET LOCAL enable_{way} = off")
        cursor.execute("EXPLAIN " + question[1].replace("p_limit", "64"))
        plan = "\n".join(row[0] for row in cursor.fetchall())
    # Steps from endpoint to endpoint may go along either index that begins with them: a small table has no best one.
    assert "Seq Scan" not in plan, plan
    assert "delivery_waits on notification_deliveries d " in plan, plan
    assert re.search(r"Index Cond: .*due_at <= statement_timestamp", plan), plan
