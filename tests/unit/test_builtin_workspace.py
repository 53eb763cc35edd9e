"""The tools over a run's workspace: what they answer, in which words they fail, and how they are classified."""

import asyncio
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from tests.spec.requirements import gate
from tests.unit.specs import ARTIFACT_ID, Shelf, context
from toolsys.builtin.artifact_export import ArtifactExport
from toolsys.builtin.workspace_list import WorkspaceList
from toolsys.builtin.workspace_read_text import CEILING, WorkspaceReadText, decoded
from toolsys.builtin.workspace_write_text import WorkspaceWriteText
from toolsys.domain.capture import OutputTooLarge
from toolsys.domain.context import WorkspaceFile
from toolsys.domain.results import ArtifactPart, TextPart, ToolFailureKind, ToolResult
from toolsys.domain.spec import IdempotencyClass, SideEffectClass
from toolsys.domain.trust import TrustLevel
from toolsys.ports import Tool
from toolsys.validation import argument_errors, with_defaults
from toolsys.workspace import Workspace, Workspaces


@pytest.fixture
def place(tmp_path: Path) -> Workspace:
    return Workspaces(tmp_path)("acme", UUID(int=2))


def run(tool: Tool, place: Workspace | None, shelf: Shelf | None = None, **arguments: Any) -> ToolResult:
    """Execute with the defaults that the pipeline would apply."""
    filled = with_defaults(tool.spec.input_schema, arguments)
    assert argument_errors(tool.spec.input_schema, filled) == []
    return asyncio.run(tool.execute(filled, context(workspace=place, artifacts=shelf or Shelf())))


def text_of(result: ToolResult) -> str:
    (part,) = result.content
    assert isinstance(part, TextPart)
    return part.text


def kind_of(result: ToolResult) -> ToolFailureKind:
    assert result.failure is not None
    return result.failure.kind


def test_what_was_written_is_read_and_is_untrusted(place: Workspace) -> None:
    wrote = run(WorkspaceWriteText(), place, path="a/b.md", text="häuser\n")
    assert (text_of(wrote), wrote.structured) == ("wrote 8 bytes", {"path": "a/b.md", "bytes": 8})
    assert run(WorkspaceWriteText(), place, path="a/b.md", text="häuser\n") == wrote, "a repetition says the same"
    read = run(WorkspaceReadText(), place, path="a/b.md")
    assert (text_of(read), read.output_trust) == ("häuser\n", TrustLevel.EXTERNAL_UNTRUSTED)
    assert read.structured == {"path": "a/b.md", "offset": 0, "end": 8, "total_bytes": 8, "is_lossy": False}


def test_a_listing_names_kind_and_size_and_is_untrusted(place: Workspace) -> None:
    assert text_of(run(WorkspaceList(), place)) == "(empty)"
    place.write_bytes("a/b.md", b"x" * 1_234)
    listed = run(WorkspaceList(), place)
    assert (text_of(listed), listed.output_trust) == ("a/\na/b.md  file, 1,234 bytes", TrustLevel.EXTERNAL_UNTRUSTED)
    assert listed.structured["entries"][1] == {"path": "a/b.md", "kind": "file", "bytes": 1_234}
    assert run(WorkspaceList(), place, depth=1).structured["entries"] == listed.structured["entries"][:1]


def test_a_listing_past_its_bound_says_so(place: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("toolsys.builtin.workspace_list.MAXIMUM_ENTRIES", 1)
    place.write_bytes("a/b", b"")
    listed = run(WorkspaceList(), place)
    assert (text_of(listed), listed.structured["has_more"]) == ("a/\n(there are more)", True)


@pytest.mark.parametrize("tool", [WorkspaceReadText(), ArtifactExport()], ids=lambda tool: tool.spec.name)
@pytest.mark.parametrize(
    ("path", "kind"),
    [("none", "not_found"), ("d/none", "not_found"), ("../secret", "invalid_arguments"), ("d", "invalid_arguments")],
)
def test_refusals_of_readers_are_failures_in_our_words(place: Workspace, tool: Tool, path: str, kind: str) -> None:
    place.write_bytes("d/x", b"")
    failed = run(tool, place, path=path)
    assert kind_of(failed) == kind
    assert failed.failure is not None
    assert failed.failure.detail in {"workspace: not_found", "workspace: path", "workspace: kind"}
    assert text_of(failed).endswith(".")
    assert "secret" not in failed.model_dump_json()


def test_refusals_of_the_writer_are_failures_in_our_words(place: Workspace) -> None:
    place.write_bytes("d/x", b"")
    found = [kind_of(run(WorkspaceWriteText(), place, path=path, text="")) for path in ("../x", "d", "D/y")]
    assert found == [ToolFailureKind.INVALID_ARGUMENTS] * 3
    full = Workspace(place.root, place.home, type(place.limits)(total_bytes=3))
    assert kind_of(run(WorkspaceWriteText(), full, path="x", text="four")) is ToolFailureKind.PERMISSION


@pytest.mark.parametrize("tool", [WorkspaceReadText(), ArtifactExport(), WorkspaceList()], ids=lambda t: t.spec.name)
def test_without_workspaces_nothing_is_guessed(tool: Tool) -> None:
    assert kind_of(run(tool, None, path="x")) is ToolFailureKind.INTERNAL


@gate("output.reader")
def test_a_whole_file_past_the_hard_ceiling_is_cut_and_a_part_of_it_is_not(place: Workspace) -> None:
    place.write_bytes("big", b"x" * (CEILING + 1))
    with pytest.raises(OutputTooLarge) as runaway:
        run(WorkspaceReadText(), place, path="big")
    assert runaway.value.partial == "x" * CEILING
    part = run(WorkspaceReadText(), place, path="big", offset=CEILING - 1, limit=10)
    assert (text_of(part), part.structured["end"]) == ("xx", CEILING + 1)
    assert text_of(run(WorkspaceReadText(), place, path="big", offset=1 << 40)) == ""


def test_parts_fall_between_characters_and_add_up(place: Workspace) -> None:
    whole = "aé€😀" * 50
    place.write_bytes("f", whole.encode())
    for limit in range(4, 12):
        offset, found = 0, ""
        while offset < len(whole.encode()):
            part = place.read_bytes("f", offset=offset, limit=limit)
            text, is_lossy = decoded(part)
            assert not is_lossy
            found += text
            offset += len(text.encode())
        assert found == whole


@pytest.mark.parametrize(
    ("data", "offset", "total", "text", "is_lossy"),
    [
        (b"a\xffb", 0, 3, "a\ufffdb", True),
        ("\ufffd".encode(), 0, 3, "\ufffd", False),
        (b"\xa9x", 1, 3, "x", False),
        (b"x\xc3", 0, 3, "x", False),
        (b"x\xc3", 0, 2, "x\ufffd", True),
        (b"\x80\x80\x80\x80", 4, 9, "\ufffd", True),
        (b"", 5, 5, "", False),
        (b"\xf0\x9f\x98", 0, 4, "", False),
    ],
)
def test_a_part_is_text_as_far_as_it_is(data: bytes, offset: int, total: int, text: str, is_lossy: bool) -> None:
    assert decoded(WorkspaceFile(data, offset, total)) == (text, is_lossy)


def test_an_export_writes_the_bytes_and_refers_to_them(place: Workspace) -> None:
    shelf = Shelf()
    place.write_bytes("chart.png", b"\x89PNG")
    result = run(ArtifactExport(), place, shelf, path="chart.png")
    assert shelf.written == [(b"\x89PNG", "image/png")]
    (part,) = result.content
    assert isinstance(part, ArtifactPart)
    assert (part.artifact.artifact_id, result.artifacts) == (ARTIFACT_ID, (part.artifact,))


def test_a_file_too_large_to_export_is_not_exported_in_part(place: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("toolsys.builtin.artifact_export.MAXIMUM_BYTES", 3)
    place.write_bytes("x", b"four")
    shelf = Shelf()
    assert kind_of(run(ArtifactExport(), place, shelf, path="x")) is ToolFailureKind.OUTPUT_TOO_LARGE
    assert shelf.written == []


@pytest.mark.parametrize(
    ("tool", "side_effect", "idempotency", "parallel"),
    [
        (WorkspaceReadText, SideEffectClass.WORKSPACE_READ, IdempotencyClass.READ_ONLY, True),
        (WorkspaceList, SideEffectClass.WORKSPACE_READ, IdempotencyClass.READ_ONLY, True),
        (WorkspaceWriteText, SideEffectClass.WORKSPACE_WRITE, IdempotencyClass.IDEMPOTENT, False),
        (ArtifactExport, SideEffectClass.WORKSPACE_READ, IdempotencyClass.IDEMPOTENT, False),
    ],
)
def test_each_declares_what_it_does(
    tool: type[Tool], side_effect: SideEffectClass, idempotency: IdempotencyClass, parallel: bool
) -> None:
    spec = tool().spec
    assert (spec.side_effect, spec.idempotency, spec.allow_parallel) == (side_effect, idempotency, parallel)
