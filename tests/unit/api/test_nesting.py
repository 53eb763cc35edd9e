"""JSON nested beyond any parser's limit: what stands too deep is marked, what is no JSON is refused."""

import json
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.property.strategies import documents
from tests.spec.requirements import gate
from toolsys.api.nesting import MAXIMUM_LEVELS, shallow


def readable(text: str) -> Any:
    return json.loads(shallow(text), parse_constant=lambda name: name)


def inside(text: str, levels: int) -> str:
    return '{"a":[' * (levels // 2) + text + "]}" * (levels // 2)


@pytest.mark.parametrize("levels", [0, 1, MAXIMUM_LEVELS - 1])
def test_what_is_not_too_deep_stays_as_it_is(levels: int) -> None:
    text = "[" * levels + '"]]]"' + "]" * levels
    assert shallow(text) == text
    assert shallow(text + " " * 1_000 + "," + "[]" * 200) != ""


@gate("arguments.nesting")
@pytest.mark.parametrize("levels", [MAXIMUM_LEVELS, 300, 2 * MAXIMUM_LEVELS, 100_000])
def test_a_container_beyond_the_limit_is_marked_and_its_siblings_stay(levels: int) -> None:
    deep, other = "[" * levels + "1" + "]" * levels, '{"x":"[","y":"\\\\\\"]"}'
    found = readable(f'{{"deep": {deep}, "other": {other}, "last": [{deep}, 2]}}')
    assert found["other"] == json.loads(other)
    assert found["last"][1] == 2
    for _ in range(MAXIMUM_LEVELS - 2):
        (found["deep"],) = found["deep"]
    assert found["deep"] == ["NaN"] or found["deep"] == "NaN"


@pytest.mark.parametrize(
    "text",
    [
        "[" * 300, "[" * 300 + "]" * 299, "[" * 300 + "]" * 301, "[" * 300 + "}" + "]" * 299,
        "[" * 300 + "1 2" + "]" * 300, "[" * 300 + "x" + "]" * 300, "[" * 300 + '"' + "]" * 300,
        "[" * 600 + "]" * 100 + "x" + "]" * 500, "[" * 200 + '"' + '\\"' * 400_000, "]" * 300 + "[" * 300,
        "[" * 200 + "{1:2}" + "]" * 200, "[" * 200 + "1,]" + "]" * 199, "[" * 200 + '"a\nb"' + "]" * 200,
    ],
    ids=lambda text: text[195:225],
)  # fmt: skip
def test_what_is_no_json_is_refused_however_deep_it_stands(text: str) -> None:
    begun = time.process_time()
    with pytest.raises(ValueError):
        readable(text)
    assert time.process_time() - begun < 2


@pytest.mark.slow
def test_time_grows_with_the_text_and_no_faster() -> None:
    begun = time.process_time()
    readable("[" * 500_000 + "]" * 500_000)
    readable('{"a":' * 200 + "9" * 800_000 + "}" * 200)
    assert time.process_time() - begun < 5


@given(documents, st.integers(0, 70))
def test_any_document_at_any_depth_is_read_as_the_parser_reads_it(document: Any, levels: int) -> None:
    text = inside(json.dumps(document), levels)
    found = readable(text)
    assert found == json.loads(text) or "NaN" in json.dumps(found)
    deeper = readable(inside(json.dumps([document]), 200))
    assert "NaN" in json.dumps(deeper)
