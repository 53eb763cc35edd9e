"""What an answer or an error of an MCP server becomes, and when an outcome is unknown."""

import asyncio
import base64
from typing import Any
from uuid import UUID

import pytest

from mcpcatalog import remote, results
from mcpcatalog.remote import CallResult
from mcpcatalog.sdk.answers import result_of
from tests.unit.specs import spec
from toolsys.domain.results import ArtifactPart, ArtifactRef, TextPart, ToolFailureKind, ToolResult
from toolsys.domain.spec import Classification, IdempotencyClass, RiskLevel, SideEffectClass
from toolsys.domain.trust import TrustLevel

WRITE = Classification()
KEYED = Classification(idempotency=IdempotencyClass.CONDITIONALLY_IDEMPOTENT)
READ = Classification(
    side_effect=SideEffectClass.EXTERNAL_READ, risk=RiskLevel.LOW, idempotency=IdempotencyClass.READ_ONLY
)
IDEMPOTENT_WRITE = Classification(idempotency=IdempotencyClass.IDEMPOTENT)
HARMLESS = Classification(side_effect=SideEffectClass.NONE)


class Shelf:
    def __init__(self) -> None:
        self.written: list[tuple[bytes, str]] = []

    async def write(self, data: bytes, media_type: str) -> ArtifactRef:
        self.written.append((data, media_type))
        number = UUID(int=len(self.written))
        return ArtifactRef(artifact_id=number, media_type=media_type, size_bytes=len(data), sha256="")


def rendered(raw: dict[str, Any], classification: Classification = READ, *, limit: int = 1_000) -> ToolResult:
    answer = result_of(raw)
    return asyncio.run(results.result_of(answer, classification, Shelf(), maximum_output_bytes=limit))


def text(value: str) -> dict[str, Any]:
    return {"type": "text", "text": value}


@pytest.mark.parametrize("classification", [WRITE, KEYED])
@pytest.mark.parametrize(
    "structured", [None, {}, {"effect_status": "applied"}, {"effect_status": True}, ["not_applied"]]
)
def test_an_error_without_proof_is_an_unknown_outcome(classification: Classification, structured: Any) -> None:
    raw = {"isError": True, "content": [text("argument invalid")], "structuredContent": structured}
    failure = rendered(raw, classification).failure
    assert failure is not None
    assert (failure.kind, failure.reason_code) == (ToolFailureKind.OUTCOME_UNKNOWN, "tool.outcome_unknown")


@pytest.mark.parametrize(
    ("classification", "structured"),
    [(WRITE, {"effect_status": "not_applied"}), (READ, None), (IDEMPOTENT_WRITE, None), (HARMLESS, None)],
)
def test_an_error_with_proof_or_of_a_repeatable_call_is_an_ordinary_failure(
    classification: Classification, structured: Any
) -> None:
    raw = {"isError": True, "content": [text("no such item")], "structuredContent": structured}
    failure = rendered(raw, classification).failure
    assert failure is not None
    assert (failure.kind, failure.reason_code) == (ToolFailureKind.UPSTREAM_ERROR, "tool.upstream_error")
    assert failure.external_text == "no such item"


@pytest.mark.parametrize(
    "error", [remote.ServerUnreachable(effect="not_applied"), remote.AuthExpired(), remote.RequestTimeout(),
              remote.RateLimited(), remote.DestinationRefused(effect="not_applied"), remote.UpstreamError("-32602: no")]
)  # fmt: skip
def test_the_transport_proves_nothing_once_a_write_was_dispatched(error: remote.RemoteError) -> None:
    unknown = results.failure_of(error, WRITE).failure
    ordinary = results.failure_of(error, READ).failure
    assert unknown is not None
    assert ordinary is not None
    assert unknown.kind is ToolFailureKind.OUTCOME_UNKNOWN
    assert (ordinary.kind is ToolFailureKind.OUTCOME_UNKNOWN, ordinary.reason_code) == (False, error.reason_code)


@pytest.mark.parametrize(
    ("classification", "has_renewed", "may_try"),
    [(WRITE, True, False), (READ, True, True), (READ, False, False), (IDEMPOTENT_WRITE, True, True)],
    ids=["write", "read", "not-renewed", "idempotent"],
)
def test_a_new_login_permits_another_try_only_where_one_could_not_double(
    classification: Classification, has_renewed: bool, may_try: bool
) -> None:
    declared = spec(
        side_effect=classification.side_effect, risk=classification.risk, idempotency=classification.idempotency
    )
    failure = results.refused_login(remote.AuthExpired(), declared, has_renewed=has_renewed).failure
    assert failure is not None
    assert failure.retryable is may_try


def test_text_and_structured_content_are_kept() -> None:
    result = rendered({"content": [text("a"), text("b")], "structuredContent": {"a": 1}})
    assert result == ToolResult(
        ok=True, content=(TextPart(text="a"), TextPart(text="b")), structured={"a": 1},
        output_trust=TrustLevel.EXTERNAL_UNTRUSTED,
    )  # fmt: skip


def test_an_empty_answer_says_so() -> None:
    assert rendered({"content": []}).content == (TextPart(text=results.NO_CONTENT),)
    assert rendered({}).content == (TextPart(text=results.NO_CONTENT),)


def test_images_sounds_and_blobs_become_artifacts() -> None:
    shelf = Shelf()
    data = base64.b64encode(b"bytes").decode()
    blocks = (
        {"type": "image", "data": data, "mimeType": "image/png"},
        {"type": "resource", "resource": {"uri": "x:y", "blob": data, "mimeType": "a/b\r\nset-cookie: x"}},
        {"type": "resource", "resource": {"uri": "x:y", "text": "inline"}},
        {"type": "hologram", "shape": 3},
    )
    answer = CallResult(False, blocks, None, "applied")
    result = asyncio.run(results.result_of(answer, READ, shelf, maximum_output_bytes=1_000))
    assert shelf.written == [(b"bytes", "image/png"), (b"bytes", "application/octet-stream")]
    assert [isinstance(part, ArtifactPart) for part in result.content] == [True, True, False, False]
    assert [part.text for part in result.content if isinstance(part, TextPart)] == [
        "inline", '{"type":"hologram","shape":3}',
    ]  # fmt: skip


@pytest.mark.parametrize(
    "block",
    [
        {"type": "text", "text": "said", "data": base64.b64encode(b"bytes").decode()},
        {"type": "image", "text": "said", "data": base64.b64encode(b"bytes").decode()},
        {"type": "resource", "resource": {"uri": "x:y", "text": "said", "blob": base64.b64encode(b"bytes").decode()}},
    ],
    ids=lambda block: block["type"],
)
def test_of_a_block_with_text_and_bytes_both_are_kept(block: dict[str, Any]) -> None:
    shelf = Shelf()
    answer = CallResult(False, (block,), None, "applied")
    result = asyncio.run(results.result_of(answer, READ, shelf, maximum_output_bytes=1_000))
    assert shelf.written == [(b"bytes", "application/octet-stream")]
    assert [part.text for part in result.content if isinstance(part, TextPart)] == ["said"]


def test_text_past_four_times_the_limit_is_not_carried_and_stays_noticeable() -> None:
    result = rendered({"content": [text("x" * 3_000), text("y" * 3_000)]}, limit=1_000)
    carried = "".join(part.text for part in result.content if isinstance(part, TextPart))
    assert len(carried) == 4_001


@pytest.mark.parametrize("content", [[], [text("short")]], ids=["alone", "beside-text"])
def test_structured_content_past_four_times_the_limit_is_noticeable_and_its_head_is_kept(content: list[Any]) -> None:
    result = rendered({"content": content, "structuredContent": {"rows": "z" * 5_000}}, limit=1_000)
    assert result.structured is None
    carried = [part.text for part in result.content if isinstance(part, TextPart)]
    assert carried == [*(block["text"] for block in content), ('{"rows":"' + "z" * 5_000)[:4_001]]


def test_an_error_keeps_the_head_of_what_it_says_in_structure() -> None:
    raw = {"content": [text("no")], "structuredContent": {"why": "z" * 5_000}, "isError": True}
    failure = rendered(raw, limit=1_000).failure
    assert failure is not None
    assert failure.external_text == ('no\n{"why":"' + "z" * 5_000)[:4_000]


def test_a_lone_surrogate_does_not_stop_the_answer() -> None:
    assert rendered({"content": [text("a\ud800b")]}).content == (TextPart(text="a?b"),)


@pytest.mark.parametrize(
    ("raw", "error"),
    [
        ({"resultType": "input_required", "requestState": "s"}, remote.InputRequired),
        ({"resultType": "task", "taskId": "1"}, remote.ProtocolViolation),
        ({"content": "text"}, remote.ProtocolViolation),
        ({"content": ["text"]}, remote.ProtocolViolation),
    ],
)
def test_what_is_no_complete_result_is_refused(raw: dict[str, Any], error: type[remote.RemoteError]) -> None:
    with pytest.raises(error):
        result_of(raw)


def test_every_error_has_a_row_in_the_table_of_reasons() -> None:
    from toolsys.domain.reasons import REASONS

    def kinds(kind: type[remote.RemoteError]) -> list[type[remote.RemoteError]]:
        return [kind, *(below for child in kind.__subclasses__() for below in kinds(child))]

    assert {kind.reason_code for kind in kinds(remote.RemoteError)} <= REASONS.keys()


def test_every_exception_class_of_the_sdk_is_mapped() -> None:
    """Whatever a new version of the SDK can raise must get a meaning here first."""
    import importlib
    import inspect
    import pkgutil

    import mcp.client
    import mcp.shared

    from mcpcatalog.sdk.errors import SDK_ERRORS

    # The SDK's own OAuth flow and its server-side helpers are not used.
    ours_never = ("mcp.client.auth", "mcp.client.__main__", "mcp.shared.auth", "mcp.shared.path_security",
                  "mcp.shared.uri_template")  # fmt: skip
    found: set[type[BaseException]] = set()
    for package in (mcp.client, mcp.shared):
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if not module.name.startswith(ours_never):
                members = inspect.getmembers(importlib.import_module(module.name), inspect.isclass)
                found |= {kind for _, kind in members if issubclass(kind, Exception) and kind.__module__ == module.name}
    found = {kind for kind in found if not issubclass(kind, Warning)}
    assert found
    unmapped = {kind.__name__ for kind in found if not issubclass(kind, tuple(SDK_ERRORS))}
    assert unmapped == set()
