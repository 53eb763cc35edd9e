"""Artifacts over the API: who may read them, what is answered, and that nothing of it can run in a browser."""

import hashlib
import json
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from django.core.files.storage import FileSystemStorage
from django.db import connections
from django.test import Client

from tests.factories import Tenancy
from tests.integration.api.test_api import Api, code
from tests.spec.requirements import gate
from tests.standins import with_tool
from toolsys.api import views_artifacts
from toolsys.api.answers import ANSWERS
from toolsys.artifacts import StoredArtifacts
from toolsys.domain.context import ToolExecutionContext
from toolsys.domain.results import ArtifactPart, ToolResult
from toolsys.domain.spec import JsonObject
from toolsys.models import Artifact
from toolsys.ports import Runtime
from toolsys.tenancy import tenant_transaction

DATA = bytes(range(256)) * 4
TAG = f'"{hashlib.sha256(DATA).hexdigest()}"'


@pytest.fixture
def api(acme: Tenancy) -> Iterator[Api]:
    yield Api(acme)
    connections.close_all()


def made(tenancy: Tenancy, worker: Runtime, data: bytes = DATA, media_type: str = "image/png") -> uuid.UUID:
    """Let a tool write an artifact and have its result recorded."""

    async def write(arguments: JsonObject, context: ToolExecutionContext) -> ToolResult:
        reference = await context.artifacts.write(data, media_type)
        return ToolResult(ok=True, content=(ArtifactPart(artifact=reference),))

    (proposed,) = tenancy.propose(("demo.echo", {}))
    tenancy.work(with_tool(worker, write), proposed)
    found = tenancy.call(proposed).artifact_id
    assert found is not None
    return found


def row_of(tenancy: Tenancy, identifier: uuid.UUID) -> Artifact:
    with tenant_transaction(tenancy.id):
        return Artifact.objects.get(pk=identifier)


def path_of(worker: Runtime, tenancy: Tenancy, identifier: uuid.UUID) -> Path:
    store = worker.artifacts
    assert isinstance(store, StoredArtifacts)
    assert isinstance(store.storage, FileSystemStorage)
    return Path(store.storage.path(row_of(tenancy, identifier).storage_key))


def content(api: Api, identifier: uuid.UUID, method: str = "GET", **headers: str) -> Any:
    return api.send(method, f"/v1/artifacts/{identifier}/content", **headers)


@gate("artifact.served")
def test_what_is_known_of_an_artifact_is_told(api: Api, worker: Runtime) -> None:
    identifier = made(api.tenancy, worker)
    response = api.send("GET", f"/v1/artifacts/{identifier}")
    row = row_of(api.tenancy, identifier)
    assert (response.status_code, response.json()) == (200, {
        "id": str(identifier), "invocation_id": str(row.invocation_id), "run_id": str(api.tenancy.run.id),
        "media_type": "image/png", "size_bytes": 1_024, "sha256": hashlib.sha256(DATA).hexdigest(),
        "trust": "internal_tool", "created_at": row.created_at.isoformat(),
    })  # fmt: skip
    jsonschema.validate(response.json(), ANSWERS["Artifact"])
    assert response["Cache-Control"] == "private, no-store"


@gate("artifact.served")
@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_content_is_an_attachment_that_no_browser_runs(api: Api, worker: Runtime, method: str) -> None:
    identifier = made(api.tenancy, worker)
    response = content(api, identifier, method)
    assert (response.status_code, response.content) == (200, DATA if method == "GET" else b"")
    assert {name: response[name] for name in (
        "Content-Type", "Content-Disposition", "X-Content-Type-Options", "Content-Security-Policy", "Cache-Control",
        "Accept-Ranges", "ETag", "Content-Length", "Cross-Origin-Resource-Policy",
    )} == {
        "Content-Type": "image/png", "Content-Disposition": f'attachment; filename="artifact-{identifier}.png"',
        "X-Content-Type-Options": "nosniff", "Content-Security-Policy": "sandbox; default-src 'none'",
        "Cache-Control": "private, no-store", "Accept-Ranges": "bytes", "ETag": TAG, "Content-Length": "1024",
        "Cross-Origin-Resource-Policy": "same-origin",
    }  # fmt: skip


@gate("artifact.served")
@pytest.mark.parametrize(
    "kind", ["text/html", "image/svg+xml", "application/xhtml+xml", "x/y\r\nX-Evil: 1", "text/html; x"]
)
def test_a_page_is_never_served_as_one(api: Api, worker: Runtime, kind: str) -> None:
    response = content(api, made(api.tenancy, worker, b"<script>alert(1)</script>", kind))
    assert (response.status_code, response["Content-Type"]) == (200, "application/octet-stream")
    assert response["Content-Disposition"].endswith('.bin"')
    assert "X-Evil" not in response


@gate("artifact.served")
@pytest.mark.parametrize(
    ("header", "start", "end"), [("bytes=0-9", 0, 10), ("bytes=1000-", 1_000, 1_024), ("bytes=-1", 1_023, 1_024)]
)
def test_one_range_is_answered_with_that_part(api: Api, worker: Runtime, header: str, start: int, end: int) -> None:
    response = content(api, made(api.tenancy, worker), range=header)
    assert (response.status_code, response.content) == (206, DATA[start:end])
    assert response["Content-Range"] == f"bytes {start}-{end - 1}/1024"
    assert response["Content-Length"] == str(end - start)
    assert response["Content-Disposition"].startswith("attachment")


@gate("artifact.served")
def test_a_range_outside_is_a_problem_that_names_the_size(api: Api, worker: Runtime) -> None:
    response = content(api, made(api.tenancy, worker), range="bytes=1024-")
    assert (code(response), response.status_code) == ("request.range_not_satisfiable", 416)
    assert response["Content-Range"] == "bytes */1024"


@gate("artifact.served")
def test_ranges_that_cannot_be_kept_are_answered_with_the_whole(api: Api, worker: Runtime) -> None:
    identifier = made(api.tenancy, worker)
    asked: list[dict[str, str]] = [
        {"range": "bytes=0-1,4-5"}, {"range": "lines=1-2"}, {"range": "bytes=0-1", "if-range": '"another"'},
        {"range": "bytes=9999-", "if-range": "Wed, 21 Oct 2015 07:28:00 GMT"},
    ]  # fmt: skip
    assert {(content(api, identifier, **headers).status_code) for headers in asked} == {200}
    kept = content(api, identifier, **{"range": "bytes=0-1", "if-range": TAG})
    assert (kept.status_code, kept.content) == (206, DATA[:2])
    head = content(api, identifier, "HEAD", range="bytes=0-1")
    assert (head.status_code, head["Content-Length"]) == (200, "1024")


@gate("artifact.served")
def test_what_is_held_already_is_not_sent_again(api: Api, worker: Runtime) -> None:
    response = content(api, made(api.tenancy, worker), **{"if-none-match": TAG})
    assert (response.status_code, response.content, response["ETag"]) == (304, b"", TAG)


@gate("artifact.served", "api.other_tenant")
def test_only_its_own_tenant_finds_an_artifact(api: Api, globex: Tenancy, worker: Runtime) -> None:
    theirs, mine = made(globex, worker), made(api.tenancy, worker)
    for identifier in (theirs, uuid.uuid4()):
        for suffix in ("", "/content"):
            answers = [api.send("GET", f"/v1/artifacts/{identifier}{suffix}", **{"if-none-match": TAG})]
            assert {code(answer) for answer in answers} == {"request.not_found"}
    without = Client().get(f"/v1/artifacts/{mine}/content")
    assert (without.status_code, without.json()["code"]) == (401, "auth.missing")
    assert code(api.send("POST", f"/v1/artifacts/{mine}", {})) == "request.method_not_allowed"
    assert code(api.send("GET", "/v1/artifacts/not-an-id")) == "request.not_found"


@gate("artifact.served")
def test_what_no_result_adopted_does_not_exist_for_readers(api: Api, worker: Runtime) -> None:
    identifier = made(api.tenancy, worker)
    with tenant_transaction(api.tenancy.id):
        Artifact.objects.filter(pk=identifier).update(adopted_at=None)
    for suffix in ("", "/content"):
        assert code(api.send("GET", f"/v1/artifacts/{identifier}{suffix}")) == "request.not_found"


@gate("artifact.served")
@pytest.mark.parametrize("damage", ["flipped", "cut", "empty", "missing", "of another", "wrong digest"])
def test_damaged_bytes_are_never_served(api: Api, worker: Runtime, damage: str) -> None:
    identifier, other = made(api.tenancy, worker), made(api.tenancy, worker, b"other")
    path = path_of(worker, api.tenancy, identifier)
    sealed = path.read_bytes()
    if damage == "missing":
        path.unlink()
    elif damage == "wrong digest":
        with tenant_transaction(api.tenancy.id):
            Artifact.objects.filter(pk=identifier).update(sha256="0" * 64)
    else:
        path.write_bytes({
            "flipped": sealed[:-1] + bytes([sealed[-1] ^ 1]), "cut": sealed[:-1], "empty": b"",
            "of another": path_of(worker, api.tenancy, other).read_bytes(),
        }[damage])  # fmt: skip
    response = content(api, identifier)
    assert (code(response), response.status_code) == ("artifact.unreadable", 500)
    assert b"sealed" not in response.content
    assert str(path).encode() not in response.content


def test_the_bytes_are_sealed_where_they_lie(api: Api, worker: Runtime) -> None:
    identifier = made(api.tenancy, worker, b"a secret of one tenant")
    path = path_of(worker, api.tenancy, identifier)
    assert b"secret" not in path.read_bytes()
    assert (path.stat().st_mode & 0o777, path.parent.stat().st_mode & 0o777) == (0o600, 0o700)


def test_an_empty_artifact_has_no_range(api: Api, worker: Runtime) -> None:
    identifier = made(api.tenancy, worker, b"")
    whole, part = content(api, identifier), content(api, identifier, range="bytes=0-")
    assert (whole.status_code, whole.content, whole["Content-Length"]) == (200, b"", "0")
    assert (code(part), part["Content-Range"]) == ("request.range_not_satisfiable", "bytes */0")


def test_readers_are_bounded_and_the_next_is_told_to_come_again(
    api: Api, worker: Runtime, monkeypatch: pytest.MonkeyPatch
) -> None:
    identifier = made(api.tenancy, worker)
    monkeypatch.setattr(views_artifacts, "READER_SECONDS", 0.01)
    for _ in range(views_artifacts.READERS):
        assert views_artifacts._readers.acquire(timeout=1)
    try:
        refused = content(api, identifier)
        assert (code(refused), refused["Retry-After"]) == ("server.unavailable", "2")
        assert content(api, identifier, "HEAD").status_code == 200, "who reads no bytes waits for nobody"
    finally:
        for _ in range(views_artifacts.READERS):
            views_artifacts._readers.release()
    assert content(api, identifier).status_code == 200


def test_the_whole_of_a_large_result_is_behind_the_line_that_the_model_reads(api: Api, worker: Runtime) -> None:
    (proposed,) = api.tenancy.propose(("demo.large_output", {"bytes": 60_000}))
    api.tenancy.work(worker, proposed)
    call = api.send("GET", f"/v1/invocations/{proposed.invocation_id}").json()
    assert [ref["artifact_id"] for ref in call["artifacts"]] == [call["artifact_id"]]
    jsonschema.validate(call, ANSWERS["Call"])
    shown = call["context_content"]
    assert f"full output: artifact:{call['artifact_id']} ...]" in shown
    whole = content(api, call["artifact_id"])
    assert (len(whole.content), whole["Content-Type"]) == (60_000, "text/plain; charset=utf-8")
    head, _, tail = shown.partition("\n[... ")
    assert whole.content.decode().startswith(head)
    assert whole.content.decode().endswith(tail.partition("\n")[2])


def test_the_document_describes_artifacts(database: None) -> None:
    document = Client().get("/v1/openapi.json").json()
    answers = document["paths"]["/v1/artifacts/{artifact_id}/content"]["get"]["responses"]
    assert {"200", "206", "304", "404", "416", "500", "503"} <= answers.keys()
    assert "Artifact" in json.dumps(document["paths"]["/v1/artifacts/{artifact_id}"])
