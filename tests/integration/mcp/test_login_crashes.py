"""A worker dies between a refused login and the next attempt: at the ladder's commits, and around the token's exchange.

Over a real connection, a real token endpoint and the real database; another worker, with connections of its own, goes
on. What must follow is written by hand from DESIGN §4 and TS "A 401 mid-session runs a bounded ladder".
"""

import json
from collections.abc import Callable
from typing import Any

import pytest

from mcpcatalog import services
from mcpcatalog.models import SessionServer
from mcpcatalog.remote import KeyPlace
from mcpcatalog.sdk.tokens import ClientCredentials
from tests.factories import Tenancy
from tests.integration.mcp.conftest import Doors, House
from tests.integration.mcp.test_ladder import KEYED, READ, VARIABLE, WRITE, events, keys_of, proposed
from tests.integration.mcp.test_tokens import token
from tests.races.moments import Died, at, die, pass_lease, row_of
from tests.spec.requirements import gate
from toolsys.domain.calls import Progress
from toolsys.domain.spec import Classification
from toolsys.tenancy import tenant_transaction

# Where the worker dies: the step, before or after it.
MOMENTS = {
    "refused": (services, "begin_reauthentication", "before"), "begun": (services, "begin_reauthentication", "after"),
    "before_exchange": (ClientCredentials, "renew", "before"), "after_exchange": (ClientCredentials, "renew", "after"),
    "renewed": (services, "record_reauthentication", "before"),
    "recorded": (services, "record_reauthentication", "after"),
}  # fmt: skip
AT_THE_RELEASE = ("before_release", "after_release")
KINDS = {"read": READ, "keyed": KEYED, "once": WRITE}
# A repeatable call is sent once more and by then knows the new token; the other one was sent, and nobody knows more.
AFTERWARDS = {"read": ("succeeded", ["two", "three"]), "keyed": ("succeeded", ["two", "three"]),
              "once": ("uncertain", ["two"])}  # fmt: skip


def dying(owner: Any, name: str, moment: str, patch: pytest.MonkeyPatch) -> None:
    """Let the process die before or after a step of it, once."""
    real, left = getattr(owner, name), [1]

    def told(*arguments: Any, **named: Any) -> Any:
        if left and moment == "before":
            left.clear()
            die()
        found = real(*arguments, **named)
        if left:
            left.clear()
            die()
        return found

    async def awaited(*arguments: Any, **named: Any) -> Any:
        if left and moment == "before":
            left.clear()
            die()
        found = await real(*arguments, **named)
        if left:
            left.clear()
            die()
        return found

    patch.setattr(owner, name, awaited if name == "renew" else told)


CASES = [(kind, moment) for kind in KINDS for moment in (*MOMENTS, *(AT_THE_RELEASE if kind != "once" else ()))]


@gate("gate.15")
@pytest.mark.parametrize(
    ("kind", "moment"),
    # Every third with each run, which are all kinds and all moments; the others with the slow ones.
    [pytest.param(*case, marks=[pytest.mark.slow] if number % 3 else []) for number, case in enumerate(CASES)],
)
def test_a_worker_that_dies_while_it_logs_in_anew_leaves_what_the_table_says(
    acme: Tenancy, houses: Callable[[], House], doors: Doors, monkeypatch: pytest.MonkeyPatch, kind: str, moment: str
) -> None:
    classification: Classification = KINDS[kind]
    monkeypatch.setenv(VARIABLE, json.dumps({"client_id": "ours", "client_secret": "s3cret"}))
    name, peer = doors.peer(accepted={"Bearer one"}, tokens=[token("one"), token("two"), token("three")])
    config = doors.with_token(
        name, tenant_id=acme.id, credential_ref=f"env:{VARIABLE}", classification=classification,
        key_place=KeyPlace.META, key_name="key",
    )  # fmt: skip
    first, second = houses(), houses()
    acme = first.offer(acme, config)
    call = proposed(acme, config, n=1)
    peer.accepted = {"Bearer two", "Bearer three"}  # a connection of its own is a token of its own: the first listed
    peer.calls = ["401", "ok"]
    with monkeypatch.context() as patch:
        if moment in MOMENTS:
            dying(*MOMENTS[moment], patch)
        with pytest.raises(Died):
            acme.work(at(first.runtime, moment, die), call)
    assert row_of(acme, call).effect_sent_at is not None
    assert keys_of(peer) == ["two"]
    pass_lease(acme, call)
    acme.finish(second.runtime, call)
    status, keys = AFTERWARDS[kind]
    assert (row_of(acme, call).status, keys_of(peer)) == (status, keys)
    assert len({sent["params"]["_meta"]["key"] for method, _, sent in peer.seen if method == "tools/call"}) == 1
    assert len(events(acme, "mcp.server.reauthenticated")) <= 1
    with tenant_transaction(acme.id):
        spent = SessionServer.objects.filter(session=acme.session, reauthenticated_at__isnull=False).count()
    assert spent == (0 if moment == "refused" else 1), "what was spent is remembered by whoever comes next"
    assert acme.work(second.runtime, call)[0].state is Progress.SETTLED
    assert keys_of(peer) == keys
