"""Standing grants: what they bind, who makes them, the last use, and their end between intent and watermark."""

import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from django.db import DatabaseError, connections

from approvals import evidence, grants, policy_selectors, policy_services
from approvals.models import GrantConfirmation
from tests.effects import EffectServer
from tests.factories import Tenancy
from tests.integration.approvals.desk import ADMIN, CLIENT, EXPERT, WRITE, as_owner, ask_for, hold, own_key, person
from tests.races.moments import at
from tests.spec.requirements import gate
from toolsys import database, services
from toolsys.domain.calls import Disposition, Progress
from toolsys.domain.spec import SideEffectClass
from toolsys.domain.states import PolicyVerdict
from toolsys.domain.trust import TrustLevel
from toolsys.models import GrantUse, Membership, PolicyDecision, StandingGrant
from toolsys.ports import Runtime
from toolsys.problems import Problem
from toolsys.tenancy import tenant_transaction

LINE_X = [{"pointer": "/line", "operator": "eq", "value": "x"}]


def proposed(acme: Tenancy, **changes: Any) -> StandingGrant:
    given = {
        "tenant_id": acme.id, "user": person(acme, ADMIN), "conditions": LINE_X, "maximum_uses": 2,
        "expires_seconds": 3600.0, "note": "the nightly line", "sealer": acme.runtime.sealer,
    }  # fmt: skip
    return grants.propose_grant(**{"request_id": hold(acme).request.id, **given, **changes})


def confirmed(acme: Tenancy, grant: StandingGrant, user: Any = None, **changes: Any) -> StandingGrant:
    given = {"tenant_id": acme.id, "grant_id": grant.id, "user": user or person(acme, EXPERT)}
    return grants.confirm_grant(**{**given, "is_reauthenticated": True, "sealer": acme.runtime.sealer, **changes})


def granted(acme: Tenancy, **changes: Any) -> StandingGrant:
    return confirmed(acme, proposed(acme, **changes))


def call(acme: Tenancy, line: str = "x", **changes: Any) -> Disposition:
    return acme.propose((WRITE, {"line": line}), **changes)[0]


def reworded(acme: Tenancy, grant: StandingGrant, change: str, *, is_bound: bool = True) -> None:
    """Let a grant say something else; bound anew, as if it had been proposed like that."""
    as_owner(acme, f"UPDATE standing_grants SET {change} WHERE id = %s", grant.id)
    with tenant_transaction(acme.id):
        digest = evidence.words_digest(StandingGrant.objects.get(pk=grant.pk), acme.runtime.sealer)
    if is_bound:
        as_owner(acme, "UPDATE standing_grants SET words_digest = %s WHERE id = %s", digest, grant.id)


def uses(acme: Tenancy, grant: StandingGrant) -> tuple[int, int]:
    with tenant_transaction(acme.id):
        kept = GrantUse.objects.filter(grant=grant).count()
        return StandingGrant.objects.get(pk=grant.pk).uses, kept


def refusal(deed: Callable[[], object]) -> str:
    with pytest.raises(Problem) as problem:
        deed()
    return problem.value.reason_code


@gate("grants.use")
def test_a_grant_stands_in_for_people_so_many_times_and_each_use_is_recorded(acme: Tenancy, worker: Runtime) -> None:
    grant = granted(acme)
    with EffectServer() as effects:
        for _ in range(2):
            found = call(acme)
            assert found.state is Progress.HANDED_OFF
            acme.work(effects.installed_in(worker), found)
        assert effects.lines() == ["x", "x"]
    assert uses(acme, grant) == (2, 2)
    assert call(acme).state is Progress.HELD
    with tenant_transaction(acme.id):
        decision = PolicyDecision.objects.filter(invocation_id=found.invocation_id).first()
        assert decision is not None
        assert (decision.verdict, decision.matched["grant"]) == ("require_expert_approval", str(grant.id))


@gate("grants.bounds")
@pytest.mark.parametrize("what", ["argument", "not comparable", "missing", "expired", "revoked", "proposed only"])
def test_what_a_grant_does_not_say_is_held(acme: Tenancy, what: str) -> None:
    conditions = [{"pointer": "/line", "operator": "gt", "value": 5}] if what == "not comparable" else LINE_X
    conditions = [{"pointer": "/other", "operator": "eq", "value": "x"}] if what == "missing" else conditions
    grant = proposed(acme, conditions=conditions)
    if what != "proposed only":
        confirmed(acme, grant)
    if what == "expired":
        reworded(acme, grant, "expires_at = clock_timestamp()")
    if what == "revoked":
        grants.revoke_grant(tenant_id=acme.id, grant_id=grant.id, user=person(acme, CLIENT))
    assert call(acme, "y" if what == "argument" else "x").state is Progress.HELD
    assert uses(acme, grant) == (0, 0)


@gate("grants.bounds")
def test_a_grant_is_for_its_principal_its_agent_and_its_tenant(acme: Tenancy, globex: Tenancy) -> None:
    grant = granted(acme)
    assert call(globex).state is Progress.HELD
    reworded(acme, grant, "principal_id = NULL")
    assert call(acme).state is Progress.HANDED_OFF


@gate("grants.bounds")
@pytest.mark.parametrize("change", ["tool_digest = repeat('0', 64)", "origin_trust = 'user'"], ids=["tool", "trust"])
def test_a_grant_is_for_the_very_tool_and_for_no_less_trusted_room(acme: Tenancy, change: str) -> None:
    """Another version, classification, server or credential is another digest; the call's context carries no label."""
    grant = granted(acme)
    reworded(acme, grant, change)
    assert call(acme).state is Progress.HELD


ALTERED = {
    "conditions": "conditions = '[]'", "uses": "maximum_uses = 9", "what binds it": "words_digest = ''",
    "reason": "note = 'else'", "longer": "expires_at = expires_at + interval '1 day'",
    "seats": "seats = '[\"client\"]'",
    "everybody": "principal_id = NULL", "room": "origin_trust = 'platform'", "tool": "tool_digest = tool_digest || '0'",
    "who proposed": "proposed_by_id = (SELECT min(id) FROM auth_user)",
}  # fmt: skip


@gate("grants.bounds")
@pytest.mark.parametrize("what", ALTERED)
def test_a_grant_that_was_altered_after_it_was_confirmed_stands_for_nothing(acme: Tenancy, what: str) -> None:
    """Also for a process that has read it as it was: whoever alters its words raises the epoch, and it is read anew."""
    grant = granted(acme, maximum_uses=5)
    assert call(acme).state is Progress.HANDED_OFF
    reworded(acme, grant, ALTERED[what], is_bound=False)
    assert call(acme).state is Progress.HELD


@gate("grants.bounds", "grants.end")
@pytest.mark.parametrize("moment", ["before_claim", "before_watermark"])
def test_a_grant_that_is_altered_before_the_watermark_lets_nothing_out(
    acme: Tenancy, worker: Runtime, moment: str
) -> None:
    grant = granted(acme)
    waiting = call(acme)
    with EffectServer() as effects:
        altered = at(
            effects.installed_in(worker), moment,
            lambda: reworded(acme, grant, ALTERED["longer"], is_bound=False),
        )  # fmt: skip
        (ended,) = acme.work(altered, waiting)
        assert (ended.reason_code, effects.lines()) == ("policy.approval.grant_ended", [])


@gate("grants.bounds")
def test_every_word_of_a_grant_raises_the_epoch() -> None:
    """A column that comes later is either no word, and named here, or seen."""
    with connections["owner"].cursor() as cursor:
        cursor.execute(
            "SELECT a.attname FROM pg_trigger t"
            " JOIN pg_attribute a ON a.attrelid = t.tgrelid AND a.attnum = ANY (t.tgattr)"
            " WHERE t.tgrelid = 'standing_grants'::regclass AND t.tgname = 'raises_authz_epoch'"
        )
        watched = {row[0] for row in cursor.fetchall()}
    columns = {field.column for field in StandingGrant._meta.local_fields}
    assert columns - watched == {"uses", "created_at", "revoked_by_id"}


@gate("grants.bounds")
def test_no_use_of_a_grant_is_given_back(acme: Tenancy) -> None:
    """Its count is no part of what is bound, since it rises: it never falls."""
    grant = granted(acme)
    call(acme)
    with pytest.raises(DatabaseError, match="uses of a grant only rise"):
        as_owner(acme, "UPDATE standing_grants SET uses = 0 WHERE id = %s", grant.id)
    with pytest.raises(DatabaseError, match="uses of a grant only rise"), tenant_transaction(acme.id):
        StandingGrant.objects.filter(pk=grant.pk).update(uses=0)
    with pytest.raises(DatabaseError, match="append-only"):
        as_owner(acme, "DELETE FROM grant_uses WHERE grant_id = %s", grant.id)


@gate("grants.four_eyes")
def test_a_grant_takes_two_people_and_neither_key_nor_rule_of_theirs(acme: Tenancy) -> None:
    proposer, owner = person(acme, EXPERT), person(acme, EXPERT)
    grant = proposed(acme, user=proposer)
    own_key(acme, owner)
    assert refusal(lambda: confirmed(acme, grant, proposer)) == "approval.own_call"
    assert refusal(lambda: confirmed(acme, grant, owner)) == "approval.own_key"
    assert refusal(lambda: confirmed(acme, grant, person(acme, CLIENT))) == "auth.forbidden"
    assert refusal(lambda: confirmed(acme, grant, is_reauthenticated=False)) == "approval.password_needed"
    assert confirmed(acme, grant).activated_at is not None
    assert refusal(lambda: confirmed(acme, grant)) == "grant.not_open"


@gate("grants.four_eyes")
def test_a_grant_takes_as_many_people_as_its_call_has_seats(acme: Tenancy) -> None:
    ask_for(acme, "expert", "client")
    grant = proposed(acme)
    first = confirmed(acme, grant)
    assert first.activated_at is None
    assert call(acme).state is Progress.HELD
    assert confirmed(acme, grant, person(acme, CLIENT)).activated_at is not None
    assert call(acme).state is Progress.HANDED_OFF
    with tenant_transaction(acme.id):
        assert GrantConfirmation.objects.filter(grant=grant).count() == 2


@gate("grants.four_eyes")
@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"maximum_uses": 0}, "request.invalid"), ({"maximum_uses": 1001}, "request.invalid"),
        ({"expires_seconds": 1.0}, "request.invalid"), ({"expires_seconds": 1e9}, "request.invalid"),
        ({"note": " "}, "request.invalid"), ({"conditions": []}, "request.invalid"),
        ({"conditions": [{"pointer": "/line", "operator": "matches", "value": "("}]}, "request.invalid"),
    ],
    ids=["no use", "too many", "too short", "too long", "no reason", "no condition", "no expression"],
)  # fmt: skip
def test_an_unbounded_grant_is_not_made(acme: Tenancy, changes: dict[str, Any], code: str) -> None:
    assert refusal(lambda: proposed(acme, **changes)) == code


def test_who_has_no_part_in_approvals_makes_no_grant(acme: Tenancy) -> None:
    assert refusal(lambda: proposed(acme, user=person(acme))) == "auth.forbidden"


@gate("grants.bounds")
def test_a_rule_that_asks_for_another_seat_is_not_satisfied_by_an_older_grant(acme: Tenancy, worker: Runtime) -> None:
    grant = granted(acme)
    waiting = call(acme)
    ask_for(acme, "expert", "client")
    assert call(acme).state is Progress.HELD
    with EffectServer() as effects:
        (ended,) = acme.work(effects.installed_in(worker), waiting)
        assert (ended.reason_code, effects.lines()) == ("policy.approval.grant_ended", [])
    assert uses(acme, grant) == (1, 1)


@gate("grants.end")
@pytest.mark.parametrize("moment", ["before_claim", "after_claim", "before_watermark"])
@pytest.mark.parametrize("end", ["revoked", "confirmer leaves"])
def test_a_grant_that_ends_before_the_watermark_lets_nothing_out(
    acme: Tenancy, worker: Runtime, end: str, moment: str
) -> None:
    expert = person(acme, EXPERT)
    grant = confirmed(acme, proposed(acme), expert)
    waiting = call(acme)

    def ends() -> None:
        if end == "revoked":
            grants.revoke_grant(tenant_id=acme.id, grant_id=grant.id, user=person(acme, ADMIN))
        else:
            with tenant_transaction(acme.id):
                Membership.objects.filter(user=expert).delete()

    with EffectServer() as effects:
        (ended,) = acme.work(at(effects.installed_in(worker), moment, ends), waiting)
        assert (ended.reason_code, effects.lines()) == ("policy.approval.grant_ended", [])


@gate("grants.end")
@pytest.mark.parametrize("end", ["revoked", "standing"])
def test_a_rule_that_was_loosened_meanwhile_does_not_stand_in_for_a_grant_that_ended(
    acme: Tenancy, worker: Runtime, end: str
) -> None:
    """The stricter of the recorded and the fresh verdict counts, and people had not been asked but for the grant."""
    grant = granted(acme)
    waiting = call(acme, context_trust=(TrustLevel.USER,))
    policy_services.set_profile(
        tenant_id=acme.id, name="default", mildest={SideEffectClass.EXTERNAL_WRITE: PolicyVerdict.ALLOW}
    )
    policy_services.save_rule(
        tenant_id=acme.id, user=person(acme, ADMIN), name="mild", verdict="allow", match={"tools": [WRITE]}
    )
    if end == "revoked":
        grants.revoke_grant(tenant_id=acme.id, grant_id=grant.id, user=person(acme, ADMIN))
    with EffectServer() as effects:
        (ended,) = acme.work(effects.installed_in(worker), waiting)
        expected = ("policy.approval.grant_ended", []) if end == "revoked" else ("tool.succeeded", ["x"])
        assert (ended.reason_code, effects.lines()) == expected


@gate("grants.last_use")
def test_of_calls_at_once_only_one_takes_the_last_use(acme: Tenancy) -> None:
    """Three and the one that the grant was drawn from: a fifth call of the same would be a loop, if it came last."""
    grant = granted(acme, maximum_uses=1)
    submissions = [acme.submission((WRITE, {"line": "x"})) for _ in range(3)]
    barrier, found = threading.Barrier(len(submissions)), []

    def propose(submission: Any) -> None:
        barrier.wait(20)
        try:
            found.append(services.propose_step(submission, acme.runtime)[0].state)
        finally:
            connections.close_all()

    threads = [threading.Thread(target=propose, args=(each,)) for each in submissions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert sorted(found) == [Progress.HANDED_OFF, Progress.HELD, Progress.HELD]
    assert uses(acme, grant) == (1, 1)


@gate("grants.last_use")
@pytest.mark.parametrize("between", ["last use taken", "revoked"])
def test_what_happens_to_a_grant_between_judging_and_intent_is_seen(acme: Tenancy, between: str) -> None:
    """The read said that it could be used; the intent's own lock says that it cannot, and people are asked."""
    grant, admin = granted(acme, maximum_uses=1), person(acme, ADMIN)

    def meanwhile() -> None:
        if between == "revoked":
            grants.revoke_grant(tenant_id=acme.id, grant_id=grant.id, user=admin)
        else:
            assert acme.propose((WRITE, {"line": "x"}))[0].state is Progress.HANDED_OFF

    own = replace(acme, runtime=at(acme.runtime, "before_intent", meanwhile), _steps=[500])
    assert call(own).state is Progress.HELD
    assert uses(acme, grant) == ((0, 0) if between == "revoked" else (1, 1))


@gate("grants.unreadable")
def test_grants_that_cannot_be_read_leave_the_call_to_people(acme: Tenancy, monkeypatch: pytest.MonkeyPatch) -> None:
    grant = granted(acme)
    reworded(acme, grant, "conditions = '[{\"no\": 1}]'")
    assert call(acme).state is Progress.HELD

    def broken(*_: object, **__: object) -> Any:
        raise DatabaseError("gone")

    monkeypatch.setattr(database, "call", broken)
    assert policy_selectors.usable_grants(acme.id, [grant.id], None) == frozenset()
    with pytest.raises(DatabaseError):
        policy_selectors.usable_grants(acme.id, [grant.id], grant.id)


@gate("grants.use")
def test_a_call_that_is_known_takes_no_second_use(acme: Tenancy) -> None:
    grant = granted(acme)
    submission = acme.submission((WRITE, {"line": "x"}))
    first = services.propose_step(submission, acme.runtime)
    again = services.propose_step(submission, acme.runtime)
    assert first[0].invocation_id == again[0].invocation_id
    assert uses(acme, grant) == (1, 1)


@gate("grants.bounds")
def test_what_a_grant_says_cannot_be_changed(acme: Tenancy) -> None:
    grant = granted(acme)
    changes: list[dict[str, Any]] = [{"maximum_uses": 99}, {"conditions": []}, {"tool_name": "x"}, {"seats": []}]
    for change in changes:
        with pytest.raises(DatabaseError, match="permission denied"), tenant_transaction(acme.id):
            StandingGrant.objects.filter(pk=grant.pk).update(**change)
