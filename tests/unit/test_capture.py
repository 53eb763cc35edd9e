"""The reader that stops at the hard ceiling, and what a runaway leaves behind."""

import asyncio
from typing import Any
from uuid import UUID

import pytest

from tests.spec.requirements import gate
from tests.unit.specs import spec
from toolsys.domain.capture import HARD_CEILING_FACTOR, BoundedReader, OutputTooLarge, hard_ceiling
from toolsys.domain.results import TextPart, ToolFailureKind
from toolsys.domain.trust import TrustLevel
from toolsys.execution import WorkerExecution


@gate("output.reader")
@pytest.mark.parametrize("sizes", [[10], [4, 6], [1] * 10, [0, 10, 0]])
def test_up_to_the_limit_everything_is_read(sizes: list[int]) -> None:
    reader = BoundedReader(10)
    for size in sizes:
        reader.feed(b"x" * size)
    assert reader.text() == "x" * 10


@gate("output.reader")
@pytest.mark.parametrize("sizes", [[11], [10, 1], [4, 7], [1_000_000]])
def test_past_the_limit_it_stops_and_hands_over_what_fits(sizes: list[int]) -> None:
    reader = BoundedReader(10)
    *before, last = sizes
    for size in before:
        reader.feed(b"x" * size)
    with pytest.raises(OutputTooLarge) as stopped:
        reader.feed(b"x" * last)
    assert stopped.value.partial == "x" * 10


def test_bytes_that_are_no_text_are_replaced() -> None:
    reader = BoundedReader(10)
    reader.feed(b"a\xff")
    reader.feed("é".encode())
    assert reader.text() == "a\ufffdé"


def test_a_character_that_arrives_in_two_chunks_is_one() -> None:
    reader = BoundedReader(10)
    for byte in "é€😀".encode():
        reader.feed(bytes([byte]))
    assert reader.text() == "é€😀"


def test_the_hard_ceiling_is_four_times_the_limit() -> None:
    assert (HARD_CEILING_FACTOR, hard_ceiling(spec().maximum_output_bytes)) == (4, 4_000)


@gate("output.reader")
@pytest.mark.parametrize("partial", ["", "as far as it came"])
def test_a_tool_that_streams_past_its_ceiling_is_cancelled_with_its_partial_kept(partial: str) -> None:

    class Runaway:
        spec = spec()
        binding = ""

        async def execute(self, arguments: Any, context: Any) -> Any:
            raise OutputTooLarge(partial)

    class Loop:
        def run(self, work: Any, timeout_seconds: float) -> Any:
            return asyncio.run(work)

    class Context:
        timeout_seconds = 1.0
        invocation_id = UUID(int=1)

    unused: Any = None
    loop: Any = Loop()
    context: Any = Context()
    result = WorkerExecution(loop, unused, unused).execute(Runaway(), {}, context)
    assert result.failure is not None
    assert result.failure.kind is ToolFailureKind.OUTPUT_TOO_LARGE
    assert result.content == ((TextPart(text=partial),) if partial else ())
    assert result.output_trust is TrustLevel.EXTERNAL_UNTRUSTED
