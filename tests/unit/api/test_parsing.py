"""Request bodies: bounded, strict, and a model's bad arguments are its call's fault and not the envelope's."""

import io
import json
from typing import Any

import pytest
from django.http import HttpRequest
from django.test import RequestFactory

from tests.spec.requirements import gate
from toolsys.api import parsing
from toolsys.domain import canonical, idempotency
from toolsys.problems import Problem

LIMIT = 1_048_576


def request(body: str | bytes, kind: str = "application/json", **environ: str) -> HttpRequest:
    data = body if isinstance(body, bytes) else body.encode()
    sent: HttpRequest = RequestFactory().generic("POST", "/v1/x", data, kind)
    sent.content_type = kind
    sent.META |= environ
    return sent


def chunked(body: bytes) -> HttpRequest:
    sent = request(b"", HTTP_TRANSFER_ENCODING="chunked")
    sent.META |= {"wsgi.input": io.BytesIO(body), "CONTENT_LENGTH": ""}
    return sent


def refused(sent: HttpRequest) -> str:
    with pytest.raises(Problem) as problem:
        parsing.parse_step(sent)
    return problem.value.reason_code


def step(arguments: str) -> str:
    return f'{{"step_number":1,"calls":[{{"call_id":"a","name":"x.y","arguments":{arguments}}}]}}'


def only_call(body: str) -> tuple[Any, dict[int, str]]:
    found = parsing.parse_step(request(body))
    return found.value["calls"][0]["arguments"], found.raw_hashes


@pytest.mark.parametrize(
    ("sent", "code"),
    [
        (request("{", "text/plain"), "request.unsupported_media_type"),
        (request("{}", "application/vnd.api+json"), "request.unsupported_media_type"),
        (request("{}", HTTP_CONTENT_ENCODING="gzip"), "request.unsupported_media_type"),
        (request("{}", CONTENT_LENGTH=str(LIMIT + 1)), "request.too_large"),
        (request(b" " * LIMIT + b"{}"), "request.too_large"),
        (chunked(b" " * LIMIT + b"{}"), "request.too_large"),
        (request("{}", CONTENT_LENGTH="two"), "request.malformed"),
        (request("{}", CONTENT_LENGTH="-2"), "request.malformed"),
        (request("{"), "request.malformed"),
        (request(""), "request.malformed"),
        (request(b"\xef\xbb\xbf{}"), "request.malformed"),
        (request(b'{"a":"\xff"}'), "request.malformed"),
        (request('{"a":1,"a":1}'), "request.malformed"),
        (request('{"a":-0.0}'), "request.malformed"),
        (request("[" * 500_000), "request.malformed"),
        (request('{"a":' * 100_000), "request.malformed"),
        (request(step("[" * 300_000)), "request.malformed"),
    ],
)
def test_a_fault_of_the_envelope_is_a_problem(sent: HttpRequest, code: str) -> None:
    assert refused(sent) == code


def test_a_body_that_ends_early_is_not_taken_for_a_whole_one() -> None:
    sent = request("{}" + " " * 48)
    sent.META["wsgi.input"] = io.BytesIO(b"{}")
    sent._stream = sent.META["wsgi.input"]
    assert refused(sent) == "request.malformed"


def test_a_chunked_body_is_read() -> None:
    assert parsing.parse(chunked(b'{"a": 1}')) == {"a": 1}


def test_no_body_is_an_empty_object_only_where_none_is_needed() -> None:
    assert parsing.parse_optional(request("")) == {}
    assert parsing.parse_optional(request('{"a":1}')) == {"a": 1}
    with pytest.raises(Problem):
        parsing.parse_optional(request("garbage"))


def test_white_space_and_the_order_of_keys_do_not_change_the_hash() -> None:
    one, other = '{"step_number":1,"calls":[]}', ' {"calls": [ ], "step_number": 1}'
    expected = canonical.sha256_hex(canonical.canonical_bytes(json.loads(one)))
    assert {parsing.parse_step(request(body)).body_hash for body in (one, other)} == {expected}


@pytest.mark.parametrize(
    "arguments",
    [
        '{"a":1,"a":2}', '{"a":-0.0}', '{"a":-0}', '{"a":NaN}', '{"a":1e999}', '{"a":%s}' % ("9" * 30),
        '{"a":"\\ud800"}', '{"é":1,"e\u0301":2}',
        *('{"a":' * depth + "1" + "}" * depth for depth in (62, 63, 64, 65, 70)),
    ],
)  # fmt: skip
def test_arguments_without_a_canonical_form_are_marked_and_emptied(arguments: str) -> None:
    body = step(arguments)
    expected = idempotency.raw_arguments_hash(body.encode() + b"\0" + b"0")
    assert only_call(body) == ({}, {0: expected})
    assert parsing.parse_step(request(body)).body_hash == canonical.sha256_hex(body.encode())


@gate("arguments.nesting")
@pytest.mark.parametrize("levels", [100, 130, 5_000, 100_000])
def test_arguments_nested_beyond_the_parsers_limit_are_their_calls_fault(levels: int) -> None:
    bad = '{"call_id":"a","name":"x.y","arguments":%s}' % ('{"a":' * levels + "1" + "}" * levels)
    good = '{"call_id":"b","name":"x.y","arguments":{"a":1}}'
    body = f'{{"step_number":1,"calls":[{good},{bad}]}}'
    found = parsing.parse_step(request(body))
    assert found.raw_hashes == {1: idempotency.raw_arguments_hash(body.encode() + b"\0" + b"1")}
    assert [call["arguments"] for call in found.value["calls"]] == [{"a": 1}, {}]
    assert found.body_hash == canonical.sha256_hex(body.encode())


@pytest.mark.parametrize(
    "body",
    [
        step('{}}],"extra":%s,"more":[{"a":1' % ("[" * 9_000 + "]" * 9_000)),
        step("[" * 9_000 + "1 2" + "]" * 9_000),
        "[" * 300_000 + "]" * 300_000,
    ],
    ids=["beside the arguments", "no JSON", "no step"],
)  # fmt: skip
def test_other_nesting_beyond_the_limit_is_the_envelopes_fault(body: str) -> None:
    assert refused(request(body)) == "request.malformed"


def test_only_the_call_at_fault_is_marked() -> None:
    bad, good = (
        '{"call_id":"a","name":"x.y","arguments":{"a":1,"a":2}}',
        '{"call_id":"b","name":"x.y","arguments":{"a":1}}',
    )
    found = parsing.parse_step(request(f'{{"step_number":1,"calls":[{good},{bad}]}}'))
    assert list(found.raw_hashes) == [1]
    assert [call["arguments"] for call in found.value["calls"]] == [{"a": 1}, {}]


def test_a_fault_beside_the_arguments_is_the_envelopes() -> None:
    body = '{"step_number":1,"calls":[{"call_id":"a","name":"x.y","arguments":{"a":1,"a":2}}],"extra":NaN}'
    assert refused(request(body)) == "request.malformed"


def test_arguments_in_a_string_are_the_object_that_it_holds() -> None:
    assert only_call(step(json.dumps('{"a": [1, "é"]}'))) == ({"a": [1, "é"]}, {})


@pytest.mark.parametrize(
    "text",
    ['{"a":1,"a":2}', '{"a":NaN}', '{"a":-0.0}', '{"a":', "", "[1]", "null", '"{}"', '{"a":' * 100_000,
     '{"a":' * 63 + "1" + "}" * 63],
)  # fmt: skip
def test_a_string_that_holds_no_canonical_object_is_its_calls_fault(text: str) -> None:
    assert only_call(step(json.dumps(text))) == ({}, {0: idempotency.raw_arguments_hash(text.encode())})
