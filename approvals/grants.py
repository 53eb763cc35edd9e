"""Standing grants: drawn from a held call by one person, confirmed by others in its seats, revoked by any of them.

Four eyes: who proposes a grant never confirms it, nor does who may not decide the call that it was drawn from. How a
grant is used is the pipeline's (`toolsys/sql/55_grants.sql`). One transaction each. Source: DESIGN §5.
"""

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any, Final
from uuid import UUID

from django.contrib.auth import get_user_model
from django.db.models import F
from pydantic import ValidationError

from approvals import ballots, evidence, grantmatch, seating
from approvals.conditions import Condition
from approvals.models import GrantConfirmation
from approvals.seating import Ballot, Check, CountedVote
from toolsys import database
from toolsys.domain.seats import Seat
from toolsys.domain.spec import JsonObject
from toolsys.domain.states import ApprovalStatus, Role
from toolsys.models import ApprovalRequest, Membership, StandingGrant
from toolsys.ports import Sealer
from toolsys.problems import FieldError, Problem, plainly
from toolsys.tenancy import tenant_transaction

MAKERS: Final = (Role.TENANT_ADMIN, Role.EXPERT_APPROVER, Role.CLIENT_APPROVER)
USES_LIMIT: Final = 1_000
SHORTEST_SECONDS: Final = 60.0
LONGEST_SECONDS: Final = 30 * 24 * 3600.0
OPEN_LIMIT: Final = 200
NOTE_LIMIT: Final = 2_000


def propose_grant(
    *, tenant_id: str, user: Any, request_id: UUID, conditions: Sequence[JsonObject], maximum_uses: int,
    expires_seconds: float, note: str, sealer: Sealer, is_for_principal: bool = True,
) -> StandingGrant:  # fmt: skip
    """Draw a grant from a held call: its tool as it was then, its agent, its seats, at most its distrust.

    It stands for nothing until it is confirmed. `is_for_principal` false: it is good for every principal of the agent.
    Nothing is drawn from a call that was altered since it was held (`evidence`).
    Raises: Problem (request.not_found, request.invalid, auth.forbidden, approval.altered).
    """
    _check_bounds(maximum_uses, expires_seconds, note)
    parsed = _parsed(conditions)
    with tenant_transaction(tenant_id):
        _require_maker(user)
        found = ApprovalRequest.objects.select_related("invocation", "run__session").filter(pk=request_id)
        request = found.first()
        if request is None:
            raise Problem("request.not_found")
        if not request.tool_digest:
            raise Problem("request.invalid", [FieldError("/request_id", "held before grants were known")])
        if evidence.alterations(request, sealer):
            raise Problem("approval.altered")
        live = StandingGrant.objects.filter(revoked_at=None, expires_at__gt=database.now(), uses__lt=F("maximum_uses"))
        if live.count() >= OPEN_LIMIT:
            raise Problem("request.invalid", [FieldError("", f"at most {OPEN_LIMIT} grants at a time")])
        session = request.run.session
        words = [each.model_dump(mode="json") for each in parsed]
        ((stored, now),) = database.call("SELECT %s::jsonb, clock_timestamp()", [database.as_json(words)])
        grant = StandingGrant(
            tenant_id=tenant_id, request=request, agent_id=session.agent_id, tool_name=request.invocation.tool_name,
            principal_id=session.principal_id if is_for_principal else None, tool_digest=request.tool_digest,
            seats=request.seats, origin_trust=request.invocation.origin_trust, maximum_uses=maximum_uses,
            conditions=database.from_json(stored), note=note.strip(), proposed_by=user,
            expires_at=now + timedelta(seconds=expires_seconds),
        )  # fmt: skip
        grant.words_digest = evidence.words_digest(grant, sealer)
        grant.save(force_insert=True)
        grant.refresh_from_db()
        return grant


def confirm_grant(
    *, tenant_id: str, grant_id: UUID, user: Any, sealer: Sealer, note: str = "", seat: Seat | None = None,
    is_reauthenticated: bool = False,
) -> StandingGrant:  # fmt: skip
    """Take a seat of a proposed grant; the last seat puts it into force.

    What was altered since it was proposed, of the grant or of its call (`evidence`), is confirmed by nobody.
    Raises: Problem (request.not_found, request.invalid, grant.not_open, grant.ended, auth.forbidden, approval.*).
    """
    _check_note(note)
    with tenant_transaction(tenant_id):
        grant = _locked(grant_id)
        if grant.activated_at is not None:
            raise Problem("grant.not_open")
        if evidence.grant_alterations(grant, sealer):  # first: what somebody wrote into it need not be readable
            raise Problem("approval.altered")
        ballot, checks = _checks(grant, user)
        for check in checks:
            if not check.holds:
                raise Problem(check.reason_code)
        if ballot.is_weighty and not is_reauthenticated:
            raise Problem("approval.password_needed")
        voter = ballots.voter(grant.request, user)
        taken = seating.chosen_seat(ballot, voter, wanted=seat, is_approval=True)
        if taken is None:
            raise Problem("approval.seat_taken" if seat in voter.seats_of(ballot.seats) else "auth.forbidden")
        GrantConfirmation.objects.create(tenant_id=tenant_id, grant=grant, user=user, seat=taken, note=note.strip())
        vote = CountedVote(user.pk, taken)
        changes: dict[str, Any] = {
            "confirmations": [{"user": each.user_id, "seat": each.seat} for each in (*ballot.counted, vote)]
        }
        if ballot.completed_by(vote):
            changes["activated_at"] = database.now()
        StandingGrant.objects.filter(pk=grant.pk).update(**changes)
        grant.refresh_from_db()
        return grant


def revoke_grant(*, tenant_id: str, grant_id: UUID, user: Any) -> StandingGrant:
    """End a grant now: nothing that it stood for passes the watermark once this has returned.

    Raises: Problem (request.not_found, auth.forbidden, grant.ended).
    """
    with tenant_transaction(tenant_id):
        grant = _locked(grant_id)
        if grant.proposed_by_id != user.pk:
            _require_maker(user)
        StandingGrant.objects.filter(pk=grant.pk).update(revoked_at=database.now(), revoked_by=user)
        grant.refresh_from_db()
        return grant


def _locked(grant_id: UUID) -> StandingGrant:
    """Raises: Problem (request.not_found, grant.ended)."""
    found = StandingGrant.objects.select_for_update(no_key=True).filter(pk=grant_id).first()
    if found is None:
        raise Problem("request.not_found")
    is_over = StandingGrant.objects.filter(pk=grant_id, expires_at__lte=database.now()).exists()
    if found.revoked_at is not None or is_over:
        raise Problem("grant.ended")
    return found


def _checks(grant: StandingGrant, user: Any) -> tuple[Ballot, list[Check]]:
    """The checks of the held call that it was drawn from, and that the proposer is somebody else."""
    said = GrantConfirmation.objects.filter(grant=grant).order_by("created_at", "id")
    people = Membership.objects.filter(user__in=said.values("user_id"), user__is_active=True)
    entitled = set(people.values_list("user_id", "role"))
    counted = tuple(
        CountedVote(each.user_id, Seat(each.seat)) for each in said if (each.user_id, Seat(each.seat).role) in entitled
    )
    ballot = ballots.ballot(grant.request, is_expired=False)
    ballot = replace(ballot, status=ApprovalStatus.PENDING, seats=tuple(map(Seat, grant.seats)), counted=counted)
    mine = Check("Four eyes: not who proposed it.", grant.proposed_by_id != user.pk, "approval.own_call", "You did.")
    voter = ballots.voter(grant.request, user)
    return ballot, [mine, *seating.seat_checks(ballot, voter), seating.seat_check(ballot, voter)]


def _require_maker(user: Any) -> None:
    is_active = get_user_model().objects.filter(pk=user.pk, is_active=True).exists()
    if not is_active or not Membership.objects.filter(user=user, role__in=MAKERS).exists():
        raise Problem("auth.forbidden")


def _parsed(conditions: Sequence[JsonObject]) -> list[Condition]:
    try:
        return grantmatch.parsed(list(conditions))
    except ValidationError as error:
        raise Problem("request.invalid", [
            FieldError("/" + "/".join(["conditions", *map(str, each["loc"])]), plainly(each["msg"]))
            for each in error.errors()
        ]) from None  # fmt: skip


def _check_bounds(maximum_uses: int, expires_seconds: float, note: str) -> None:
    if not 1 <= maximum_uses <= USES_LIMIT:
        raise Problem("request.invalid", [FieldError("/maximum_uses", f"1 to {USES_LIMIT:,}")])
    if not SHORTEST_SECONDS <= expires_seconds <= LONGEST_SECONDS:
        raise Problem("request.invalid", [FieldError("/expires_seconds", "a minute to thirty days")])
    if not note.strip():
        raise Problem("request.invalid", [FieldError("/note", "say why")])
    _check_note(note)


def _check_note(note: str) -> None:
    if len(note) > NOTE_LIMIT or "\0" in note:
        raise Problem("request.invalid", [FieldError("/note", f"at most {NOTE_LIMIT:,} characters")])
