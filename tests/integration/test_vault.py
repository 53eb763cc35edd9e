"""The credential store: what may be written, who alone may read, and what a change sets off."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.db import DatabaseError, connections
from django.utils import timezone

from config import wiring
from mcpcatalog import selectors as servers
from mcpcatalog import services as catalog
from mcpcatalog.mapping import map_catalog
from mcpcatalog.provider import McpProvider
from mcpcatalog.remote import AuthScheme, Catalog, RemoteTool, ServerConfig, Transport
from mcpcatalog.validators import InvalidConfiguration
from tests.factories import Tenancy
from tests.spec.requirements import gate
from toolsys import vault
from toolsys.credentials import Credentials
from toolsys.egress import policy_for
from toolsys.envelope import Envelope
from toolsys.models import Credential, CredentialVersion, Tenant
from toolsys.ports import NotAvailable
from toolsys.problems import Problem
from toolsys.tenancy import tenant_transaction

SEALER = Envelope(settings.MASTER_ENCRYPTION_KEYS)
SECRET = "sentinel-4711"


def resolve(tenancy: Tenancy, reference: str, folder: Path | None = None) -> str:
    return asyncio.run(Credentials(SEALER, folder).of(tenancy.id).resolve(reference)).reveal()


def epoch(tenancy: Tenancy) -> int:
    with tenant_transaction(tenancy.id):
        return Tenant.objects.get(pk=tenancy.id).authz_epoch


def create(tenancy: Tenancy, value: str = SECRET, name: str = "crm") -> str:
    return vault.create(tenant_id=tenancy.id, name=name, value=value, sealer=SEALER)


def rotate(tenancy: Tenancy, value: str) -> int:
    return vault.rotate(tenant_id=tenancy.id, name="crm", value=value, sealer=SEALER)


@gate("vault.write_only")
def test_only_the_resolver_opens_what_was_written(acme: Tenancy) -> None:
    assert resolve(acme, create(acme)) == SECRET
    for alias in ("default", "operator"):
        versions = CredentialVersion.objects.using(alias)
        with pytest.raises(DatabaseError, match="permission denied"), tenant_transaction(acme.id, alias):
            versions.values_list("sealed").first()
        with pytest.raises(DatabaseError, match="permission denied"), tenant_transaction(acme.id, alias):
            versions.update(version=7)
        with pytest.raises(DatabaseError, match="permission denied"), tenant_transaction(acme.id, alias):
            versions.all()._raw_delete(alias)
    (sealed,) = as_owner(acme, "SELECT sealed FROM credential_versions WHERE tenant_id = %s", acme.id)
    assert SECRET.encode() not in sealed


def as_owner(tenancy: Tenancy, statement: str, *parameters: Any) -> list[Any]:
    """The owner is a member of the definer role and sees every tenant, so a statement names its own."""
    with tenant_transaction(tenancy.id, "owner"), connections["owner"].cursor() as cursor:
        cursor.execute(statement, parameters)
        return (
            [bytes(row[0]) if isinstance(row[0], memoryview) else row[0] for row in cursor]
            if cursor.description
            else []
        )


@gate("vault.write_only")
def test_a_reference_leads_into_no_other_tenant_s_store(acme: Tenancy, globex: Tenancy) -> None:
    reference = create(acme)
    for tenancy, wrong in ((globex, reference), (acme, "store:other"), (acme, "crm"), (acme, "vault:crm")):
        with pytest.raises(NotAvailable, match=r"tool\.credentials_missing"):
            resolve(tenancy, wrong)


@gate("vault.write_only")
def test_a_value_that_was_moved_to_another_row_does_not_open(acme: Tenancy, globex: Tenancy) -> None:
    create(acme)
    reference = create(globex, "other")
    (sealed,) = as_owner(acme, "SELECT sealed FROM credential_versions WHERE tenant_id = %s", acme.id)
    as_owner(globex, "UPDATE credential_versions SET sealed = %s WHERE tenant_id = %s", sealed, globex.id)
    with pytest.raises(NotAvailable, match=r"tool\.credentials_missing"):
        resolve(globex, reference)


@pytest.mark.parametrize(
    ("name", "value"), [("CRM", "x"), ("", "x"), ("crm", ""), ("crm", "a\0b"), ("crm", "x" * 16_385), ("a" * 64, "x")]
)
def test_what_is_no_name_or_no_value_is_not_written(acme: Tenancy, name: str, value: str) -> None:
    with pytest.raises(Problem, match=r"request\.invalid"):
        create(acme, value, name)
    with tenant_transaction(acme.id):
        assert not Credential.objects.exists()


def test_a_name_is_taken_once(acme: Tenancy) -> None:
    create(acme)
    with pytest.raises(Problem, match=r"request\.invalid"):
        create(acme, "another")
    assert resolve(acme, "store:crm") == SECRET


@gate("vault.rotation")
def test_two_versions_live_and_the_newest_counts(acme: Tenancy) -> None:
    create(acme)
    assert (rotate(acme, "two"), resolve(acme, "store:crm")) == (2, "two")
    assert vault.retire(tenant_id=acme.id, name="crm", version=2) == 1
    assert resolve(acme, "store:crm") == SECRET
    assert (rotate(acme, "three"), rotate(acme, "four")) == (3, 4)
    with tenant_transaction(acme.id):
        live = CredentialVersion.objects.filter(retired_at=None).order_by("version")
        assert list(live.values_list("version", flat=True)) == [3, 4]
    unerased = "SELECT version FROM credential_versions WHERE sealed IS NOT NULL AND tenant_id = %s ORDER BY 1"
    assert as_owner(acme, unerased, acme.id) == [3, 4]


@gate("vault.rotation")
def test_a_retired_credential_resolves_to_nothing_and_cannot_come_back(acme: Tenancy) -> None:
    create(acme)
    assert vault.retire(tenant_id=acme.id, name="crm") == 0
    with pytest.raises(NotAvailable, match=r"tool\.credentials_missing"):
        resolve(acme, "store:crm")
    changes: list[Callable[[], Any]] = [
        lambda: rotate(acme, "x"), lambda: vault.retire(tenant_id=acme.id, name="crm", version=1), lambda: create(acme)
    ]  # fmt: skip
    for change in changes:
        with pytest.raises(Problem):
            change()


def test_use_is_recorded_at_most_once_a_minute(acme: Tenancy) -> None:
    create(acme)

    def used() -> Any:
        with tenant_transaction(acme.id):
            return CredentialVersion.objects.values_list("last_used_at", flat=True).get()

    assert used() is None
    resolve(acme, "store:crm")
    first = used()
    resolve(acme, "store:crm")
    assert used() == first
    assert abs((timezone.now() - first).total_seconds()) < 60
    as_owner(acme, "UPDATE credential_versions SET last_used_at = now() - interval '61 seconds'")
    resolve(acme, "store:crm")
    assert used() >= first


@gate("vault.epoch")
def test_a_change_raises_the_epoch_and_the_binding_and_a_use_does_not(acme: Tenancy) -> None:
    config = ServerConfig(
        acme.id, "crm", Transport.HTTP, "https://mcp.example/mcp", auth_scheme=AuthScheme.BEARER,
        credential_ref=create(acme),
    )  # fmt: skip
    catalog.register_server(
        config, policy=policy_for(["https://mcp.example/"]), stdio_names=(), output_ceiling_bytes=1_048_576
    )
    state = servers.server(acme.id, "crm", {})
    assert state is not None
    assert state.config == replace(config, credential_version=1)
    found = Catalog((RemoteTool("a", "d", {"type": "object"}),), (), "2026-07-28")
    catalog.record_discovery(
        state.config, found, map_catalog(state.config, found, output_ceiling_bytes=1_048_576), at=timezone.now()
    )
    provider = McpProvider(wiring.SystemClock(), {}, 1_048_576)
    (spec,) = provider.specs(acme.id)
    before, bound = epoch(acme), provider.bind(acme.id, spec, epoch(acme), acme.session.id).binding
    resolve(acme, "store:crm")
    assert epoch(acme) == before
    bindings, epochs = {bound}, [before]
    changes: list[Callable[[], Any]] = [
        lambda: rotate(acme, "two"), lambda: rotate(acme, "three"), lambda: vault.retire(tenant_id=acme.id, name="crm")
    ]  # fmt: skip
    for change in changes:
        change()
        epochs.append(epoch(acme))
        bindings.add(provider.bind(acme.id, spec, epochs[-1], acme.session.id).binding)
        assert provider.refresh_keys(acme.id) == ["crm"], "what was seen with another credential is seen again"
    assert epochs == sorted(set(epochs))
    assert len(bindings) == 4


def test_the_deployment_s_references_resolve_and_belong_to_operators(
    acme: Tenancy, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("TOOLSYS_CREDENTIAL_CRM", SECRET)
    (tmp_path / "crm").write_text(SECRET + "\n")
    (tmp_path / "large").write_text("x" * 16_385)
    assert {resolve(acme, "env:TOOLSYS_CREDENTIAL_CRM"), resolve(acme, "file:crm", tmp_path)} == {SECRET}
    for wrong in ("env:SECRET_KEY", "file:../crm", "file:/etc/passwd", "file:large", "file:none", "env:"):
        with pytest.raises(NotAvailable, match=r"tool\.credentials_missing"):
            resolve(acme, wrong, tmp_path)
    config = ServerConfig(acme.id, "crm", Transport.HTTP, "https://mcp.example/", auth_scheme=AuthScheme.BEARER)
    for reference in ("env:TOOLSYS_CREDENTIAL_CRM", "file:crm"):
        with pytest.raises(InvalidConfiguration, match="credential_ref: operators_only"):
            catalog.register_server(
                replace(config, credential_ref=reference), policy=policy_for(["https://mcp.example/"]), stdio_names=(),
                output_ceiling_bytes=1_048_576,
            )  # fmt: skip
