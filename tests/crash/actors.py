"""The processes of a lane, forked from one that has imported everything: a real one is ready in a tenth of a second.

`python -m tests.crash.actors` reads orders as JSON lines, forks, and answers with the process id. Workers and
schedulers are `manage.py worker` and `manage.py scheduler` as they stand; clients and approvers call the services that
the API and the console call, and write what they were told to a file.
"""

import importlib
import json
import os
import random
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from config.supervisor import dies_with_parent
from tests.crash.points import Role

LOADED: Final = (
    "approvals.services", "config.management.commands.scheduler", "config.management.commands.worker",
    "mcpcatalog.sdk.pool", "tests.crash.moments", "tests.factories",
)  # fmt: skip


def main() -> None:
    """Fork for each line of the standard input, until it is closed."""
    _load()
    assert threading.active_count() == 1, "a fork keeps one thread only"
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # who dies is collected at once
    print(json.dumps({"ready": os.getpid()}), flush=True)
    for line in sys.stdin:
        order = json.loads(line)
        ready = dies_with_parent(signal.SIGKILL)
        child = os.fork()
        if child == 0:
            _become(order, ready)
        print(json.dumps({"pid": child}), flush=True)


def _load() -> None:
    import django

    django.setup()
    for name in LOADED:
        importlib.import_module(name)


def _become(order: dict[str, Any], ready: Callable[[], None] | None) -> None:
    """Be what was ordered, in a group of our own, and leave without running what the parent meant to run at exit."""
    code = 1
    try:
        os.setsid()
        if ready is not None:
            ready()
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        _redirect(order["log"])
        random.seed()
        _enter_lane(order)
        PARTS[order["part"]](order)
        code = 0
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        sys.stderr.flush()
        os._exit(code)


def _redirect(log: str) -> None:
    nothing, lines = os.open(os.devnull, os.O_RDONLY), os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(nothing, 0)
    os.dup2(lines, 1)
    os.dup2(lines, 2)


def _enter_lane(order: dict[str, Any]) -> None:
    """Point this process at its lane's database and queue; nothing is connected yet."""
    from django.conf import settings
    from django.db import connections

    from tests.crash import moments
    from tests.crash.tools import World

    for alias in connections:
        connections.databases[alias]["NAME"] = order["database"]
    settings.RQ_QUEUES["calls"]["URL"] = order["redis"]
    moments.report(Role(order["role"]), World(order["port"], Path(order["gates"])))


def _work(order: dict[str, Any]) -> None:
    from config.management.commands.worker import Command

    Command().handle()


def _schedule(order: dict[str, Any]) -> None:
    from config.management.commands.scheduler import Command

    Command().handle()


def _found(order: dict[str, Any]) -> None:
    """Make the tenants of the lane's next cells, and two approvers."""
    from django.contrib.auth import get_user_model

    from tests.factories import make_tenancy
    from toolsys import provisioning
    from toolsys.domain.states import Role as MemberRole

    people = [get_user_model().objects.get_or_create(username=name)[0] for name in ("approver", "second approver")]
    made = []
    for _number in range(order["count"]):
        tenancy = make_tenancy("crash")
        for person in people:
            provisioning.add_member(tenancy.id, person, MemberRole.EXPERT_APPROVER)
        made.append({"tenant": tenancy.id, "key": str(tenancy.key.id), "session": str(tenancy.session.id)})
    _answer(order, made)


def _open_run(order: dict[str, Any]) -> None:
    from toolsys import services

    run = services.start_run(
        tenant_id=order["tenant"], session_id=order["session"], manifest=None, deadline_seconds=600, correlation_id="",
    )  # fmt: skip
    _answer(order, {"run": str(run.id)})


def _propose(order: dict[str, Any]) -> None:
    from uuid import UUID

    from config.wiring import compose_web
    from toolsys import services
    from toolsys.services import CallDraft, StepSubmission

    drafts = [CallDraft(f"call_{n}", name, arguments) for n, (name, arguments) in enumerate(order["calls"])]
    submission = StepSubmission(
        tenant_id=order["tenant"], api_key_id=UUID(order["key"]), run_id=UUID(order["run"]), step_number=1,
        calls=tuple(drafts), context_trust=(), correlation_id="", body_hash=repr(order["calls"]),
    )  # fmt: skip
    found = services.propose_step(submission, compose_web().runtime)
    _answer(order, [
        {"id": str(each.invocation_id), "state": each.state, "outcome": each.outcome_status, "replay": each.is_replay}
        for each in found
    ])  # fmt: skip


def _decide(order: dict[str, Any]) -> None:
    from uuid import UUID

    from django.contrib.auth import get_user_model

    from approvals import services as approvals
    from config.wiring import compose_web

    approvals.decide(
        tenant_id=order["tenant"], request_id=UUID(order["request"]), digest=order["digest"], note="as the cell says",
        user=get_user_model().objects.get(username=order.get("who", "approver")), is_approval=order["approve"],
        is_reauthenticated=True, sealer=compose_web().runtime.sealer,
    )  # fmt: skip
    _answer(order, {"decided": True})


def _cancel(order: dict[str, Any]) -> None:
    from uuid import UUID

    from config.wiring import compose_web
    from toolsys import services

    services.end_run(
        tenant_id=order["tenant"], run_id=UUID(order["run"]), cancel=True, runtime=compose_web().runtime
    )  # fmt: skip
    _answer(order, {"cancelled": True})


def _bind_grant(order: dict[str, Any]) -> None:
    """Say what the product binds the words of the tenant's grant by; only the owner may write it."""
    from approvals.evidence import words_digest
    from config.wiring import compose_web
    from toolsys.models import StandingGrant
    from toolsys.tenancy import tenant_transaction

    with tenant_transaction(order["tenant"]):
        digest = words_digest(StandingGrant.objects.get(), compose_web().runtime.sealer)
    _answer(order, {"digest": digest})


def _answer(order: dict[str, Any], document: Any) -> None:
    path = Path(order["answer"])
    part = path.with_suffix(".part")
    part.write_text(json.dumps(document))
    part.replace(path)


PARTS: Final[dict[str, Callable[[dict[str, Any]], None]]] = {
    "work": _work,
    "schedule": _schedule,
    "found": _found,
    "open_run": _open_run,
    "propose": _propose,
    "bind_grant": _bind_grant,
    "decide": _decide,
    "cancel": _cancel,
}

if __name__ == "__main__":
    main()
