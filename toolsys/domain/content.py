"""The parts of a result in the one form that is measured, shown and kept: adjacent texts as one, references as lines.

A reference counts only if this very attempt wrote the artifact: a tool could otherwise hand out what it merely names.
Pure. Source: TS "ToolResult", "Output".
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from toolsys.domain import excerpt
from toolsys.domain.results import ArtifactPart, ArtifactRef, ContentPart, TextPart, ToolResult

MAXIMUM_EXTERNAL_TEXT: Final = 16_384


@dataclass(frozen=True, slots=True)
class Content:
    """`text` is what a model would read if nothing were cut; it can always be encoded."""

    parts: tuple[ContentPart, ...]
    text: str
    references: tuple[ArtifactRef, ...]
    has_foreign_reference: bool

    @property
    def size(self) -> int:
        """UTF-8 bytes of the text: what limits are compared with."""
        return len(self.text.encode("utf-8"))

    @property
    def artifact_parts(self) -> tuple[ContentPart, ...]:
        return tuple(part for part in self.parts if isinstance(part, ArtifactPart))


def refers(result: ToolResult) -> bool:
    """Say whether the result names any artifact."""
    return bool(result.artifacts) or any(isinstance(part, ArtifactPart) for part in result.content)


def content_of(result: ToolResult, written: Mapping[UUID, ArtifactRef]) -> Content:
    """Return the result's parts, with what a third party said at the end; `written` is what this attempt wrote."""
    claimed = [part.artifact for part in result.content if isinstance(part, ArtifactPart)] + list(result.artifacts)
    known = {ref.artifact_id: written[ref.artifact_id] for ref in claimed if ref.artifact_id in written}
    parts = tuple(_merged(_own(_all_parts(result), known)))
    return Content(
        parts=parts,
        text="\n".join(part.text if isinstance(part, TextPart) else reference_line(part.artifact) for part in parts),
        references=tuple(known.values()),
        has_foreign_reference=any(ref.artifact_id not in known for ref in claimed),
    )


def of_text(text: str) -> Content:
    return Content((TextPart(text=text),), text, (), has_foreign_reference=False)


def reference_line(reference: ArtifactRef) -> str:
    return f"[artifact:{reference.artifact_id}; {reference.media_type}; {reference.size_bytes:,} bytes]"


def _all_parts(result: ToolResult) -> Iterator[ContentPart]:
    yield from result.content
    if result.failure is not None and result.failure.external_text:
        yield TextPart(text=excerpt.head(result.failure.external_text, MAXIMUM_EXTERNAL_TEXT))


def _own(parts: Iterable[ContentPart], known: Mapping[UUID, ArtifactRef]) -> Iterator[ContentPart]:
    """Leave out foreign references; of its own, what the store recorded counts, not what the tool says."""
    for part in parts:
        if isinstance(part, TextPart):
            yield part
        elif part.artifact.artifact_id in known:
            yield ArtifactPart(artifact=known[part.artifact.artifact_id])


def _merged(parts: Iterable[ContentPart]) -> Iterator[ContentPart]:
    texts: list[str] = []
    for part in parts:
        if isinstance(part, TextPart):
            texts.append(part.text)
            continue
        if texts:
            yield _joined(texts)
            texts = []
        yield part
    if texts:
        yield _joined(texts)


def _joined(texts: list[str]) -> TextPart:
    """A tool's text may hold lone surrogates, which have no UTF-8 form."""
    return TextPart(text="\n".join(texts).encode("utf-8", "replace").decode("utf-8"))
