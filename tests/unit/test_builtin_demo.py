"""The demonstration's tools: one that fails first, one that takes its time, one that says too much."""

import asyncio
import time
from typing import Any

import pytest

from tests.spec.requirements import gate
from tests.unit.specs import Token, context
from toolsys.builtin.demo_flaky import DemoFlaky
from toolsys.builtin.demo_large_output import DemoLargeOutput
from toolsys.builtin.demo_slow import DemoSlow
from toolsys.domain.capture import OutputTooLarge
from toolsys.domain.results import TextPart, ToolFailureKind, ToolResult
from toolsys.ports import Tool
from toolsys.validation import with_defaults


async def answer(tool: Tool, changes: dict[str, Any], **arguments: Any) -> ToolResult:
    return await tool.execute(with_defaults(tool.spec.input_schema, arguments), context(**changes))


def run(tool: Tool, changes: dict[str, Any] | None = None, **arguments: Any) -> ToolResult:
    return asyncio.run(answer(tool, changes or {}, **arguments))


@pytest.mark.parametrize(("failures", "attempt", "ok"), [(0, 1, True), (1, 1, False), (1, 2, True), (3, 3, False),
                                                         (3, 4, True)])  # fmt: skip
def test_the_first_attempts_of_a_call_fail_as_a_lost_connection_would(failures: int, attempt: int, ok: bool) -> None:
    found = run(DemoFlaky(), {"attempt_number": attempt}, failures=failures, retry_after_seconds=2)
    assert found.ok is ok
    if found.failure is not None:
        assert (found.failure.kind, found.failure.retryable) == (ToolFailureKind.TRANSPORT, True)
        assert found.failure.retry_after_seconds == 2


def test_it_takes_its_time() -> None:
    began = time.monotonic()
    assert run(DemoSlow(), seconds=0.15).ok
    assert time.monotonic() - began >= 0.15


def test_it_stops_when_it_is_told_to() -> None:
    token = Token()

    async def told() -> ToolResult:
        working = asyncio.create_task(answer(DemoSlow(), {"cancellation": token}, seconds=300))
        await asyncio.sleep(0.1)
        assert not working.done()
        token.is_cancelled = True
        return await asyncio.wait_for(working, 5)

    failure = asyncio.run(told()).failure
    assert failure is not None
    assert failure.reason_code == "tool.cancelled"


def test_a_deadline_ends_it_at_once() -> None:
    async def late() -> None:
        async with asyncio.timeout(0.05):
            await answer(DemoSlow(), {}, seconds=300)

    with pytest.raises(TimeoutError):
        asyncio.run(late())


@pytest.mark.parametrize("size", [0, 1, 63, 64, 65, 100_000])
def test_as_many_bytes_as_were_asked_for(size: int) -> None:
    (part,) = run(DemoLargeOutput(), bytes=size).content
    assert isinstance(part, TextPart)
    assert len(part.text.encode()) == size


@gate("output.reader")
def test_a_gigabyte_is_not_made() -> None:
    began = time.monotonic()
    with pytest.raises(OutputTooLarge) as runaway:
        run(DemoLargeOutput(), bytes=1 << 30)
    assert len(runaway.value.partial) == 4 * 65_536
    assert time.monotonic() - began < 5
