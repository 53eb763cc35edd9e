"""A switch, or a rule, that comes between step 6 and the watermark: nothing is sent after it has returned."""

import threading
import uuid
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.db import connections, transaction
from django.db.utils import DatabaseError, OperationalError

from approvals import policy_services
from approvals.models import KillSwitch, PlatformSwitch, ToolPermission
from approvals.ruleset import SwitchKind
from tests.effects import EffectServer
from tests.factories import Tenancy, approve
from tests.spec.requirements import gate
from toolsys import database as sql
from toolsys.models import Agent, PlatformState, Tenant
from toolsys.ports import Runtime
from toolsys.store import SqlStore
from toolsys.tenancy import OPERATOR_ALIAS, tenant_transaction

TOOL = "demo.external_write"


@dataclass
class Between:
    """A probe that does one thing when a point is reached, in a thread of its own, and waits for it."""

    point: str
    change: Callable[[], object]
    is_done: bool = False

    def reached(self, point: str, tool_name: str) -> None:
        if point == self.point and not self.is_done:
            self.is_done = True
            in_thread(self.change)


def in_thread(change: Callable[[], object]) -> list[BaseException]:
    """Return what it raised; its connections are its own."""
    raised: list[BaseException] = []

    def work() -> None:
        try:
            change()
        except OperationalError as error:
            raised.append(error)
        finally:
            connections.close_all()

    thread = threading.Thread(target=work)
    thread.start()
    thread.join(30)
    assert not thread.is_alive()
    return raised


def probed(worker: Runtime, probe: Between) -> Runtime:
    assert isinstance(worker.store, SqlStore)
    return replace(worker, store=replace(worker.store, probe=probe))


def person() -> Any:
    return get_user_model().objects.create_user(username=f"admin-{uuid.uuid4().hex[:10]}")


def thrown(tenancy: Tenancy, kind: SwitchKind, target: str, **changes: Any) -> object:
    given = {"tenant_id": tenancy.id, "kind": kind, "target": target, "is_off": True, "user": person()}
    return policy_services.throw_switch(**{**given, **changes})


CHANGES: dict[str, tuple[Callable[[Tenancy], object], str]] = {
    "tool": (lambda acme: thrown(acme, SwitchKind.TOOL, TOOL), "policy.switch.off"),
    "key": (lambda acme: thrown(acme, SwitchKind.KEY, str(acme.key.id)), "policy.switch.off"),
    "tenant": (
        lambda acme: policy_services.set_tenant_switch(acme.id, is_enabled=False, user=person()),
        "policy.switch.off",
    ),
    "rule": (
        lambda acme: policy_services.save_rule(
            tenant_id=acme.id, user=person(), name="no", verdict="block", match={"tools": ["demo.*"]}
        ),
        "policy.rule.block",
    ),
    "permission": (
        lambda acme: policy_services.permit_tools(tenant_id=acme.id, tools=TOOL, is_enabled=False),
        "policy.manifest.not_listed",
    ),
}


@gate("policy.switches")
@pytest.mark.parametrize("point", ["after_intent", "after_claim", "before_watermark"])
@pytest.mark.parametrize("change", CHANGES)
def test_nothing_is_sent_after_the_change_has_returned(acme: Tenancy, worker: Runtime, change: str, point: str) -> None:
    make, code = CHANGES[change]
    (held,) = acme.propose((TOOL, {"line": "x"}))
    approve(acme, held)
    with EffectServer() as effects:
        probe = Between(point, lambda: make(acme))
        acme.work(effects.installed_in(probed(worker, probe)), held)
        assert probe.is_done
        assert effects.lines() == []
    call = acme.call(held)
    assert (call.status, call.reason_code, call.effect_sent) == ("denied", code, False)


def withdrawn(acme: Tenancy, how: str) -> None:
    if how == "disabled":
        policy_services.permit_tools(tenant_id=acme.id, tools=TOOL, is_enabled=False)
        return
    with tenant_transaction(acme.id):
        row = ToolPermission.objects.get(tools=TOOL)
        if how == "narrowed":
            ToolPermission.objects.filter(pk=row.pk).update(tools="demo.read_only")
    if how == "removed":
        policy_services.remove_permission(tenant_id=acme.id, permission_id=row.pk)
    if how == "given to another agent":
        with tenant_transaction(acme.id):
            other = Agent.objects.create(tenant_id=acme.id, name="another", enabled_tools=["*"])
            ToolPermission.objects.filter(pk=row.pk).update(agent=other)


@gate("policy.switches", "race.design")
@pytest.mark.parametrize("point", ["after_intent", "after_claim", "before_watermark", "after_watermark"])
@pytest.mark.parametrize("how", ["disabled", "narrowed", "removed", "given to another agent"])
def test_a_permission_that_is_withdrawn_stops_what_has_not_passed_the_watermark(
    acme: Tenancy, worker: Runtime, how: str, point: str
) -> None:
    """Both orders: what has passed it goes on, and the next call is refused."""
    for tools in (TOOL, "demo.echo"):
        policy_services.permit_tools(tenant_id=acme.id, tools=tools, is_enabled=True)
    (held,) = acme.propose((TOOL, {"line": "x"}))
    approve(acme, held)
    is_late = point == "after_watermark"
    with EffectServer() as effects:
        acme.work(effects.installed_in(probed(worker, Between(point, lambda: withdrawn(acme, how)))), held)
        assert effects.lines() == (["x"] if is_late else [])
    call = acme.call(held)
    expected = ("succeeded", "tool.succeeded") if is_late else ("denied", "policy.manifest.not_listed")
    assert (call.status, call.reason_code, call.effect_sent) == (*expected, is_late)
    assert acme.propose((TOOL, {"line": "y"}))[0].reason_code == "policy.manifest.not_listed"


@gate("policy.switches")
@pytest.mark.parametrize("change", ["tool", "key", "permission"])
def test_a_switch_that_comes_after_the_watermark_stops_the_next_call_only(
    acme: Tenancy, worker: Runtime, change: str
) -> None:
    make, code = CHANGES[change]
    (held,) = acme.propose((TOOL, {"line": "x"}))
    approve(acme, held)
    with EffectServer() as effects:
        acme.work(effects.installed_in(probed(worker, Between("after_watermark", lambda: make(acme)))), held)
        assert effects.lines() == ["x"]
    assert acme.call(held).status == "succeeded"
    assert acme.propose((TOOL, {"line": "y"}))[0].reason_code == code


def limited(change: Callable[[], object], alias: str) -> Callable[[], None]:
    """Wait for a lock for 300 ms at most, and leave nothing behind."""

    def work() -> None:
        with transaction.atomic(using=alias):
            with connections[alias].cursor() as cursor:
                cursor.execute("SET LOCAL lock_timeout = '300ms'")
            change()
            transaction.set_rollback(True, using=alias)

    return work


@gate("policy.switches")
@pytest.mark.parametrize("switch", ["tool", "permission", "tenant", "platform"])
def test_a_switch_returns_only_after_every_watermark_that_has_passed_it(acme: Tenancy, switch: str) -> None:
    changes: dict[str, tuple[Callable[[], object], str]] = {
        "tool": (lambda: CHANGES["tool"][0](acme), "default"),
        "permission": (lambda: CHANGES["permission"][0](acme), "default"),
        "tenant": (lambda: CHANGES["tenant"][0](acme), OPERATOR_ALIAS),
        "platform": (lambda: policy_services.set_platform_switch(is_enabled=False, user=person()), OPERATOR_ALIAS),
    }
    change = limited(*changes[switch])
    with tenant_transaction(acme.id):
        epoch = Tenant.objects.values_list("authz_epoch", flat=True).get(pk=acme.id)
        # A watermark that has looked at its tenant and has yet to commit.
        sql.call("SELECT toolsys_commit_watermark(%s, %s, 1, %s)", (acme.id, uuid.uuid4(), epoch))
        (refused,) = in_thread(change)
        assert "lock timeout" in str(refused)
    assert in_thread(change) == []


@gate("policy.switches")
def test_the_platform_switch_raises_the_epoch_of_every_tenant(acme: Tenancy, globex: Tenancy) -> None:
    mine = Tenant.objects.using(OPERATOR_ALIAS).filter(pk__in=[acme.id, globex.id]).order_by("id")
    before = list(mine.values_list("authz_epoch", flat=True))
    with transaction.atomic(using=OPERATOR_ALIAS):
        policy_services.set_platform_switch(is_enabled=False, user=person())
        assert not PlatformState.objects.using(OPERATOR_ALIAS).get().is_execution_enabled
        assert list(mine.values_list("authz_epoch", flat=True)) == [epoch + 1 for epoch in before]
        transaction.set_rollback(True, using=OPERATOR_ALIAS)


@gate("policy.switches")
@pytest.mark.parametrize("kind", [SwitchKind.SERVER, SwitchKind.TOOL, SwitchKind.KEY])
def test_every_switch_of_a_tenant_raises_its_epoch(acme: Tenancy, kind: SwitchKind) -> None:
    mine = Tenant.objects.using(OPERATOR_ALIAS).filter(pk=acme.id)
    before = mine.get().authz_epoch
    thrown(acme, kind, {SwitchKind.SERVER: "mail", SwitchKind.TOOL: "demo.echo"}.get(kind, str(acme.key.id)))
    assert mine.get().authz_epoch == before + 1


@gate("policy.switches")
def test_who_threw_the_great_switches_is_kept(acme: Tenancy) -> None:
    by = person()
    kept = policy_services.set_tenant_switch(acme.id, is_enabled=False, user=by, note=" fire ")
    again = policy_services.set_tenant_switch(acme.id, is_enabled=True, user=by)
    with tenant_transaction(acme.id):
        found = list(KillSwitch.objects.filter(kind=SwitchKind.TENANT).order_by("number"))
    assert [(row.pk, row.number, row.is_off, row.thrown_by_id, row.note) for row in found] == [
        (kept.pk, 1, True, by.pk, "fire"), (again.pk, 2, False, by.pk, ""),
    ]  # fmt: skip
    with transaction.atomic(using=OPERATOR_ALIAS):
        row = policy_services.set_platform_switch(is_enabled=False, user=by, note="all of it")
        transaction.set_rollback(True, using=OPERATOR_ALIAS)
    assert (row.is_off, row.thrown_by_id, row.note) == (True, by.pk, "all of it")
    with pytest.raises(DatabaseError, match="permission denied"):
        list(PlatformSwitch.objects.all())
