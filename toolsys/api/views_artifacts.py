"""Artifacts: what is known of one, and its bytes, whole or one range of them.

The bytes come from tools and from outside: they are served as an attachment that no browser opens, runs or sniffs, in
a type from a closed list. They are checked against their digest before the first of them leaves.
"""

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final
from uuid import UUID

from django.http import HttpRequest, HttpResponse
from rest_framework.request import Request

from toolsys import database, selectors
from toolsys.api import describe, problems, ranges, render
from toolsys.api.base import ApiView, answer
from toolsys.domain import media
from toolsys.ports import CannotRead
from toolsys.problems import Problem
from toolsys.selectors import ArtifactView

log = logging.getLogger("toolsys.api")
# Each reader holds one artifact in memory, sealed and opened.
READERS: Final = 4
READER_SECONDS: Final = 5.0
_readers = threading.BoundedSemaphore(READERS)


class Artifact(ApiView):
    @describe.operation("Read what is known of an artifact", answers={200: "Artifact"})
    def get(self, request: Request, artifact_id: UUID) -> HttpResponse:
        """Type, size, digest, trust and origin. Its bytes are at `/content`."""
        found = _found(self.caller.tenant_id, artifact_id)
        return answer(render.artifact(found), headers={"Cache-Control": "private, no-store"})


class ArtifactContent(ApiView):
    @describe.download("Read the content of an artifact")
    def get(self, request: Request, artifact_id: UUID) -> HttpResponse:
        """The bytes, as an attachment: whole, or the one range that was asked for."""
        found = _found(self.caller.tenant_id, artifact_id)
        etag, sent = ranges.etag_of(found.sha256), request._request
        if ranges.is_held(sent.headers.get("If-None-Match", ""), etag):
            return _safe(HttpResponse(status=304), found)
        try:
            span = _span(sent, etag, found.size_bytes)
        except ranges.NotSatisfiable:
            refused = problems.render(sent, "request.range_not_satisfiable")
            refused["Content-Range"] = f"bytes */{found.size_bytes}"
            return refused
        if sent.method == "HEAD":
            told = _safe(HttpResponse(), found)
            told["Content-Length"] = str(found.size_bytes)
            return told
        database.release_connection()
        with _reading():
            try:
                data = selectors.artifact_content(found, self.house.runtime.artifacts)
            except CannotRead as fault:
                log.error("artifact %s of %s cannot be read: %s", found.id, found.tenant_id, fault)
                raise Problem("artifact.unreadable") from None
            if span is None:
                return _safe(HttpResponse(data), found)
            response = _safe(HttpResponse(data[span.start : span.end], status=206), found)
        response["Content-Range"] = span.content_range()
        return response


def _found(tenant_id: str, artifact_id: UUID) -> ArtifactView:
    found = selectors.artifact(tenant_id, artifact_id)
    if found is None:
        raise Problem("request.not_found")
    return found


def _span(request: HttpRequest, etag: str, size: int) -> ranges.Span | None:
    """Ranges are for GET only: HEAD tells of the whole. Raises: ranges.NotSatisfiable."""
    if request.method != "GET":
        return None
    return ranges.span_of(request.headers.get("Range", ""), request.headers.get("If-Range", ""), etag=etag, size=size)


@contextmanager
def _reading() -> Iterator[None]:
    """Raises: Problem (server.unavailable) where all places stay taken."""
    if not _readers.acquire(timeout=READER_SECONDS):
        raise Problem("server.unavailable")
    try:
        yield
    finally:
        _readers.release()


def _safe(response: HttpResponse, found: ArtifactView) -> HttpResponse:
    response["Content-Type"] = media.served(found.media_type)
    response["Content-Disposition"] = f'attachment; filename="{media.file_name(found.id, found.media_type)}"'
    response["X-Content-Type-Options"] = "nosniff"
    response["Content-Security-Policy"] = "sandbox; default-src 'none'"
    response["Cross-Origin-Resource-Policy"] = "same-origin"
    response["Cache-Control"] = "private, no-store"
    response["Accept-Ranges"] = "bytes"
    response["ETag"] = ranges.etag_of(found.sha256)
    if response.status_code != 304:
        response["Content-Length"] = str(len(response.content))
    return response
