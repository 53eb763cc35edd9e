"""The queue of uncertain calls: who sees it, what it proves of each, and nothing of another organisation."""

import pytest
from django.conf import LazySettings

from tests.factories import Tenancy
from tests.integration.console.furnished import make_uncertain
from tests.integration.console.people import INDEX, INVOCATIONS, page_of, person
from tests.spec.requirements import gate
from toolsys import resolutions
from toolsys.domain.states import Role
from toolsys.models import Resolution
from toolsys.ports import Runtime

QUEUE = f"{INVOCATIONS}uncertain/"
NAMED = {"demo.external_write": "system.time"}


@pytest.fixture
def named(settings: LazySettings) -> None:
    settings.TOOLSYS = settings.TOOLSYS.model_copy(update={"effect_probes": NAMED})


@gate("recovery.evidence")
@pytest.mark.parametrize("role", [Role.OPERATOR, Role.TENANT_ADMIN])
def test_the_queue_shows_what_is_proved_of_each_and_the_read_that_was_named(
    acme: Tenancy, globex: Tenancy, worker: Runtime, named: None, role: Role
) -> None:
    ended, visitor = make_uncertain(acme, worker), person((acme, role))
    make_uncertain(globex, worker)
    assert "1 uncertain call waits for somebody to find out" in visitor.text(INDEX)
    shown = visitor.text(QUEUE)
    assert shown.count("demo.external_write") == 1
    for expected in (str(ended.invocation_id), "12 excerpt or artifactize", "none was let out", "system.time"):
        assert expected in shown
    assert (page_of(INVOCATIONS, ended.invocation_id) in shown) is (role is Role.TENANT_ADMIN)


@gate("recovery.evidence")
def test_the_page_of_an_uncertain_call_shows_its_evidence_and_the_findings(
    acme: Tenancy, worker: Runtime, named: None
) -> None:
    ended, admin = make_uncertain(acme, worker), person((acme, Role.TENANT_ADMIN))
    path = page_of(INVOCATIONS, ended.invocation_id)
    shown = admin.text(path)
    for expected in ("What is proved of it", "<code>system.time</code>", "Nobody has recorded a finding"):
        assert expected in shown
    resolutions.resolve(
        tenant_id=acme.id, invocation_id=ended.invocation_id, resolution=Resolution.HAPPENED,
        evidence="<b>the ledger</b>\u202e", worker_proof=None, user=admin.user,
    )  # fmt: skip
    shown = admin.text(path)
    assert "it happened" in shown
    assert "&lt;b&gt;the ledger&lt;/b&gt;" in shown
    assert "\u202e" not in shown
    assert str(ended.invocation_id) not in admin.text(QUEUE), "it no longer waits"
    assert "No uncertain calls wait for somebody" in admin.text(INDEX)


@gate("recovery.evidence")
def test_a_probe_that_is_no_read_is_shown_with_its_fault_and_none_is_said_to_be_none(
    acme: Tenancy, worker: Runtime, settings: LazySettings
) -> None:
    ended, admin = make_uncertain(acme, worker), person((acme, Role.TENANT_ADMIN))
    assert "no read is named" in admin.text(QUEUE)
    probes = {"demo.external_write": "workspace.write_text"}
    settings.TOOLSYS = settings.TOOLSYS.model_copy(update={"effect_probes": probes})
    for path in (QUEUE, page_of(INVOCATIONS, ended.invocation_id)):
        assert "it is not classified as a read" in admin.text(path)


@gate("recovery.evidence")
def test_a_platform_auditor_does_not_see_it(acme: Tenancy) -> None:
    auditor = person((acme, Role.PLATFORM_AUDITOR))
    assert auditor.get(QUEUE).status_code == 403
    assert "uncertain call" not in auditor.text(INDEX)
