"""Workspace tools through the whole pipeline: one run's files, its exports, and nobody else's."""

from typing import Any

from tests.factories import Tenancy
from tests.spec.requirements import gate
from toolsys.models import Artifact, Invocation, Run
from toolsys.ports import Runtime
from toolsys.selectors import CallView
from toolsys.tenancy import tenant_transaction


def ended(tenancy: Tenancy, worker: Runtime, name: str, arguments: Any, **changes: Any) -> CallView:
    (proposed,) = tenancy.propose((name, arguments), **changes)
    tenancy.work(worker, proposed)
    return tenancy.call(proposed)


def test_a_run_writes_reads_and_lists_its_own_files(acme: Tenancy, worker: Runtime) -> None:
    wrote = ended(acme, worker, "workspace.write_text", {"path": "notes/a.md", "text": "line\n"})
    read = ended(acme, worker, "workspace.read_text", {"path": "notes/a.md"})
    listed = ended(acme, worker, "workspace.list", {})
    assert [call.reason_code for call in (wrote, read, listed)] == ["tool.succeeded"] * 3
    assert wrote.effect_sent, "a write passes the watermark"
    assert read.payload["content"] == [{"type": "text", "text": "line\n"}]
    assert read.payload["context_content"].startswith(
        '<external trust="external_untrusted" source="workspace.read_text"'
    )
    assert [entry["path"] for entry in listed.payload["structured"]["entries"]] == ["notes", "notes/a.md"]
    with tenant_transaction(acme.id):
        assert Run.objects.get(pk=acme.run.pk).delivered_trust == "external_untrusted"


@gate("workspace.beneath")
def test_another_run_and_another_tenant_see_nothing_of_it(acme: Tenancy, globex: Tenancy, worker: Runtime) -> None:
    ended(acme, worker, "workspace.write_text", {"path": "a", "text": "x"})
    with tenant_transaction(acme.id):
        second = Run.objects.get(pk=acme.run.pk)
        second.pk = None
        second.save(force_insert=True)
    elsewhere = [
        ended(globex, worker, "workspace.read_text", {"path": "a"}),
        ended(acme, worker, "workspace.read_text", {"path": "a"}, run_id=second.pk),
    ]
    assert [call.reason_code for call in elsewhere] == ["tool.not_found"] * 2


@gate("workspace.beneath")
def test_a_path_out_of_the_workspace_is_an_outcome_that_tells_no_path(acme: Tenancy, worker: Runtime) -> None:
    for path in ("../../x", "/etc/passwd", "a/../b"):
        call = ended(acme, worker, "workspace.read_text", {"path": path})
        assert call.reason_code == "tool.arguments_invalid"
        with tenant_transaction(acme.id):
            row = Invocation.objects.get(pk=call.id)
        assert row.error == {"detail": "workspace: path"}


def test_an_export_is_an_adopted_artifact_that_is_read_by_people_only(acme: Tenancy, worker: Runtime) -> None:
    ended(acme, worker, "workspace.write_text", {"path": "report.csv", "text": "a,b\n1,2\n"})
    call = ended(acme, worker, "artifact.export", {"path": "report.csv"})
    with tenant_transaction(acme.id):
        row = Artifact.objects.get(invocation_id=call.id)
    assert (row.media_type, row.size_bytes, row.trust) == ("text/csv; charset=utf-8", 8, "external_untrusted")
    assert (call.artifact_id, row.adopted_at is not None, call.truncated) == (row.id, True, False)
    assert "a,b" not in str(call.payload)
