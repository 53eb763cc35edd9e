"""What the queue of uncertain calls proves of each: the furthest step, its first byte, and the read that was named."""

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest
from pydantic import ValidationError

from config.env import Toolsys
from tests.effects import EffectServer
from tests.factories import Tenancy
from tests.integration.test_recovery import crash_and_recover, held_write
from tests.spec.requirements import gate
from tests.standins import with_tool
from tests.unit.specs import spec
from toolsys import evidence
from toolsys.composition import composed
from toolsys.departure import Departure, may_leave
from toolsys.domain.calls import Disposition
from toolsys.domain.results import ToolResult
from toolsys.domain.spec import IdempotencyClass, SideEffectClass, ToolSpec
from toolsys.domain.states import OutcomeStatus
from toolsys.evidence import UncertainCall
from toolsys.models import Invocation
from toolsys.ports import Runtime
from toolsys.tenancy import tenant_transaction

NOW = datetime(2026, 1, 1, tzinfo=UTC)
WRITE, PROBE = "mcp.bank.pay", "mcp.bank.list_payments"


def proved(tenancy: Tenancy, ended: Disposition) -> UncertainCall:
    assert ended.outcome_status is OutcomeStatus.UNCERTAIN
    (found,) = evidence.uncertain_calls(tenancy.id)
    assert found.id == ended.invocation_id
    return found


def shorten(tenancy: Tenancy, held: Disposition) -> None:
    with tenant_transaction(tenancy.id):
        Invocation.objects.filter(pk=held.invocation_id).update(timeout_seconds=0.5)


@gate("recovery.evidence")
def test_a_worker_that_lives_says_when_its_first_byte_was_let_out(
    writer: tuple[Tenancy, Runtime], effects: EffectServer
) -> None:  # fmt: skip
    tenancy, worker = writer
    held = held_write(tenancy, hold=True)
    shorten(tenancy, held)
    (ended,) = tenancy.work(worker, held)
    found = proved(tenancy, ended)
    assert effects.lines() == ["x"]
    assert found.first_byte_us is not None
    assert 0 < found.first_byte_us < 500_000
    assert (found.recorded, found.claim_epoch, found.last_step) == (1, 1, 12)
    assert found.first_byte.startswith("let out ")
    assert found.first_byte.endswith(" ms after the watermark")


@gate("recovery.evidence")
@pytest.mark.parametrize(("point", "lines"), [("after_watermark", []), ("before_result", ["x"])])
def test_a_worker_that_died_took_its_first_byte_with_it_and_the_watermark_stays_proved(
    writer: tuple[Tenancy, Runtime], effects: EffectServer, point: str, lines: list[str]
) -> None:  # fmt: skip
    tenancy, worker = writer
    found = proved(tenancy, crash_and_recover(tenancy, worker, held_write(tenancy), point))
    assert effects.lines() == lines
    assert (found.recorded, found.first_byte_us, found.claim_epoch) == (0, None, 2)
    assert found.first_byte == "unknown: none of 2 claims recorded its execution"
    assert (found.last_step, found.last_step_name) == (10, "execute with timeout")


@gate("recovery.evidence")
def test_what_asked_for_no_departure_let_nothing_out(writer: tuple[Tenancy, Runtime]) -> None:
    tenancy, worker = writer

    async def stands(*_: Any) -> ToolResult:
        await asyncio.sleep(60)
        raise AssertionError

    held = held_write(tenancy)
    shorten(tenancy, held)
    (ended,) = tenancy.work(with_tool(worker, stands, "demo.external_write"), held)
    assert proved(tenancy, ended).first_byte == "none was let out by the client"


@gate("recovery.evidence")
def test_the_first_yes_counts_and_a_refused_departure_does_not() -> None:
    answers = iter([False, True, True])
    departure = Departure(lambda: next(answers))
    assert (departure(), departure.first_us) == (False, None)
    assert departure()
    first = departure.first_us
    assert first is not None
    assert departure()
    assert departure.first_us == first
    assert may_leave(), "what belongs to no call"


@gate("recovery.evidence")
@pytest.mark.parametrize(
    ("entries", "said"),
    [
        ([], "unknown: none of 3 claims recorded its execution"),
        ([{"step": 10}], "unknown: none of 3 claims recorded its execution"),
        ([{"step": 10, "first_byte_us": None}], "none was let out by the client; 2 of 3 claims recorded nothing of it"),
        ([{"step": 10, "first_byte_us": 1500}] * 3, "let out 1.5 ms after the watermark"),
    ],
    ids=["nobody", "older-build", "none", "all"],
)
def test_what_nobody_recorded_is_said_to_be_unknown(entries: list[dict[str, Any]], said: str) -> None:
    row = Invocation(claim_epoch=3, step_trace=[{"step": 1}, *entries, {"step": 6}], started_at=NOW)
    assert evidence.evidence_of(row).first_byte == said
    assert evidence.evidence_of(row).last_step == (10 if entries else 9)


def probed(*known: ToolSpec, named: dict[str, str]) -> str | None:
    registry: Any = SimpleNamespace(known=lambda _tenant, wanted: {s.name: s for s in known if s.name in wanted})
    found = evidence.probes_of("acme", {WRITE, "demo.echo"}, named, registry).get(WRITE)
    return found.fault if found else None


@gate("recovery.evidence")
def test_a_named_read_of_the_same_server_is_shown_and_anything_else_with_its_fault() -> None:
    read = {"side_effect": SideEffectClass.NONE, "idempotency": IdempotencyClass.READ_ONLY}
    tool, named = spec(name=WRITE, server_id="bank"), {WRITE: PROBE}
    good = spec(name=PROBE, server_id="bank", **read)
    assert probed(tool, good, named=named) == ""
    assert probed(tool, good, named={}) is None
    assert probed(tool, named=named) == "no tool of this organisation has that name now"
    for change in ({"side_effect": SideEffectClass.EXTERNAL_WRITE}, {"idempotency": IdempotencyClass.IDEMPOTENT}):
        assert probed(tool, good.model_copy(update=change), named=named) == "it is not classified as a read"
    other = "it is a tool of another server"
    assert probed(tool, good.model_copy(update={"server_id": "other"}), named=named) == other
    assert probed(good, named=named) == other, "a withdrawn tool has no server any more"


@gate("recovery.evidence")
def test_the_registry_knows_what_is_built_in_and_nothing_of_nobody(acme: Tenancy) -> None:
    found = composed().registry.known(acme.id, {"system.time", "mcp.nobody.reads", "demo.nothing"})
    assert [(name, each.side_effect) for name, each in found.items()] == [("system.time", SideEffectClass.NONE)]


@gate("recovery.evidence")
@pytest.mark.parametrize(
    ("named", "is_taken"),
    [
        ('{"mcp.bank.pay": "mcp.bank.list_payments", "mcp.crm.add": "system.time"}', True),
        ('{"mcp.bank.pay": "mcp.other.list_payments"}', False),
        ('{"mcp.bank.pay": "mcp.bank.pay"}', False),
        ('{"mcp.bank.*": "mcp.bank.list"}', False),
        ('{"demo.external_write": "mcp.bank.list"}', False),
        ('["mcp.bank.pay"]', False),
    ],
    ids=["own-server-or-built-in", "another-server", "itself", "glob", "builtin-by-a-server", "no-object"],
)
def test_a_probe_is_another_tool_of_the_same_server_or_built_in(
    monkeypatch: pytest.MonkeyPatch, named: str, is_taken: bool
) -> None:
    monkeypatch.setenv("TOOLSYS_EFFECT_PROBES", named)
    attempt: Callable[[], Toolsys] = Toolsys
    if is_taken:
        assert len(attempt().effect_probes) == 2
    else:
        with pytest.raises(ValidationError):
            attempt()
