"""One byte range: what is asked for, what is ignored, what cannot be."""

import pytest

from tests.spec.requirements import gate
from toolsys.api import ranges
from toolsys.api.ranges import Span

TAG = '"abc"'


@gate("artifact.served")
@pytest.mark.parametrize(
    ("header", "expected"),
    [
        ("bytes=0-0", (0, 1)),
        ("bytes=0-9", (0, 10)),
        ("bytes=5-", (5, 10)),
        ("bytes=9-", (9, 10)),
        ("bytes=2-400", (2, 10)),
        ("bytes=2-999999999999999999", (2, 10)),
        ("bytes=-3", (7, 10)),
        ("bytes=-99", (0, 10)),
        ("BYTES=0-1", (0, 2)),
        (" bytes=0-1 ", (0, 2)),
    ],
)
def test_a_range_of_ten_bytes(header: str, expected: tuple[int, int]) -> None:
    assert ranges.span_of(header, "", etag=TAG, size=10) == Span(*expected, 10)


@gate("artifact.served")
@pytest.mark.parametrize("header", [
    "", "bytes", "bytes=", "bytes=-", "bytes=a-b", "bytes=5-2", "bytes=0-1,3-4", "items=0-1", "bytes = 0-1",
    "bytes=0-1;", "bytes=+1-2", "bytes=1--2", "bytes=\u0663-", "bytes=0x1-2", "bytes=" + "9" * 19 + "-", "bytes=0-1\n2",
])  # fmt: skip
def test_what_is_no_single_range_is_ignored(header: str) -> None:
    assert ranges.span_of(header, "", etag=TAG, size=10) is None


@gate("artifact.served")
@pytest.mark.parametrize(("header", "size"), [("bytes=10-", 10), ("bytes=99-100", 10), ("bytes=-0", 10),
                                              ("bytes=0-", 0), ("bytes=-5", 0)])  # fmt: skip
def test_a_range_outside_is_not_satisfiable(header: str, size: int) -> None:
    with pytest.raises(ranges.NotSatisfiable):
        ranges.span_of(header, "", etag=TAG, size=size)


@pytest.mark.parametrize(
    ("if_range", "is_kept"),
    [('"abc"', True), (' "abc" ', True), ('"other"', False), ('W/"abc"', False), ("abc", False),
     ("Wed, 21 Oct 2015 07:28:00 GMT", False)],
)  # fmt: skip
def test_a_range_of_another_representation_is_ignored(if_range: str, is_kept: bool) -> None:
    assert (ranges.span_of("bytes=0-1", if_range, etag=TAG, size=10) is not None) is is_kept
    assert ranges.span_of("bytes=99-", '"other"', etag=TAG, size=10) is None, "not even unsatisfiable"


@pytest.mark.parametrize(
    ("header", "held"),
    [
        ('"abc"', True),
        ('W/"abc"', True),
        ('"x", "abc"', True),
        ("*", True),
        ('"x"', False),
        ("", False),
        ("abc", False),
    ],
)
def test_what_is_held_need_not_be_sent(header: str, held: bool) -> None:
    assert ranges.is_held(header, TAG) is held


def test_a_span_says_where_it_stands() -> None:
    assert Span(2, 5, 10).content_range() == "bytes 2-4/10"
