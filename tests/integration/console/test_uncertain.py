"""The queue of uncertain calls: who sees it, what it proves of each, and nothing of another organisation."""

import pytest
from django.conf import LazySettings

from tests.factories import Tenancy
from tests.integration.console.furnished import make_uncertain
from tests.integration.console.people import INDEX, INVOCATIONS, Person, page_of, person
from tests.spec.requirements import gate
from toolsys import resolutions
from toolsys.domain.states import Role
from toolsys.models import Resolution, UncertainResolution
from toolsys.ports import Runtime
from toolsys.tenancy import tenant_transaction

QUEUE = f"{INVOCATIONS}uncertain/"
OTHERS = [role for role in Role if role not in {Role.OPERATOR, Role.ANONYMOUS}]
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
    assert shown.count('data-label="Call"') == 1
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


def findings(tenancy: Tenancy) -> list[tuple[str, str, str, int]]:
    with tenant_transaction(tenancy.id):
        rows = UncertainResolution.objects.order_by("id")
        return list(rows.values_list("resolution", "evidence", "worker_proof", "resolved_by"))


def form_of(tenancy: Tenancy, worker: Runtime) -> str:
    return f"{QUEUE}{make_uncertain(tenancy, worker).invocation_id}/"


@pytest.fixture
def operator(acme: Tenancy) -> Person:
    return person((acme, Role.OPERATOR))


@gate("recovery.resolution")
def test_an_operator_records_what_was_found_and_the_call_waits_no_more(
    acme: Tenancy, worker: Runtime, operator: Person
) -> None:
    path = form_of(acme, worker)
    assert path in operator.text(QUEUE)
    assert findings(acme) == []
    answer = operator.post(path, resolution="happened", evidence="line 3 of the ledger", worker_proof="")
    assert (answer.status_code, answer["Location"]) == (302, QUEUE)
    assert findings(acme) == [("happened", "line 3 of the ledger", "", operator.user.pk)]
    shown = operator.text(QUEUE)
    assert "Recorded for demo.external_write" in shown
    assert path not in shown
    assert "it happened" in operator.text(path), "who comes back sees what was recorded, and may correct it"


@gate("recovery.resolution")
@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        ({"resolution": "not_happened", "evidence": "no line in the ledger"}, "deadlines do not suffice"),
        ({"resolution": "happened", "evidence": " "}, "This field is required"),
        ({"resolution": "perhaps", "evidence": "seen"}, "perhaps is not one of the available choices"),
        ({"resolution": "happened", "evidence": "x" * 4_001}, "at most 4000 characters"),
    ],
    ids=["no proof of the worker", "no evidence", "no such finding", "too long"],
)
def test_what_is_no_finding_is_refused_beside_its_field(
    acme: Tenancy, worker: Runtime, operator: Person, words: dict[str, str], complaint: str
) -> None:
    answer = operator.post(form_of(acme, worker), **words)
    assert (answer.status_code, findings(acme)) == (200, [])
    assert complaint in answer.content.decode()


@gate("recovery.resolution")
def test_that_it_did_not_happen_takes_a_proof_about_the_worker(
    acme: Tenancy, worker: Runtime, operator: Person
) -> None:
    words = {"resolution": "not_happened", "evidence": "no line", "worker_proof": "host_fenced"}
    assert operator.post(form_of(acme, worker), **words).status_code == 302
    assert findings(acme) == [("not_happened", "no line", "host_fenced", operator.user.pk)]


@gate("recovery.resolution")
@pytest.mark.parametrize("role", OTHERS)
def test_nobody_else_records_a_finding(acme: Tenancy, worker: Runtime, role: Role) -> None:
    path, visitor = form_of(acme, worker), person((acme, role))
    assert visitor.get(path).status_code == 403
    assert visitor.post(path, resolution="happened", evidence="trust me").status_code == 403
    assert findings(acme) == []
    assert "Record a finding" not in visitor.browser.get(QUEUE).content.decode()


@gate("recovery.resolution")
def test_only_an_uncertain_call_of_the_organisation_takes_a_finding(
    acme: Tenancy, globex: Tenancy, worker: Runtime, operator: Person
) -> None:
    (queued,) = acme.propose(("demo.echo", {"text": "known"}))
    known = f"{QUEUE}{acme.finish(worker, queued).invocation_id}/"
    for path in (known, form_of(globex, worker)):
        assert operator.get(path).status_code == 404
        assert operator.post(path, resolution="happened", evidence="seen").status_code == 404
    assert (findings(acme), findings(globex)) == ([], [])
