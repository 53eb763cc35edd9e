"""A sentinel scan: where a secret may not appear after it was stored, used, refused, echoed and rotated."""

import json
import logging
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.db import connections

from mcpcatalog.remote import AuthScheme, ServerConfig
from tests.factories import Tenancy
from tests.integration.mcp.conftest import Bench, Doors, House, peer
from tests.integration.mcp.test_ladder import READ, ended, proposed
from tests.spec.requirements import gate
from toolsys import vault
from toolsys.domain.states import OutcomeStatus
from toolsys.envelope import Envelope
from toolsys.tenancy import tenant_transaction

SEALER = Envelope(settings.MASTER_ENCRYPTION_KEYS)
SENTINEL = "sentinel-4711"
COLUMNS = """SELECT table_name, string_agg(quote_ident(column_name), ', ') FROM information_schema.column_privileges
    WHERE grantee = 'toolsys_operator' AND privilege_type = 'SELECT' AND table_schema = 'public' GROUP BY 1"""


def rows_of(tenancy: Tenancy) -> str:
    """Everything that the operators' role can select, of every table, as text."""
    found: list[str] = []
    with tenant_transaction(tenancy.id, "operator"), connections["operator"].cursor() as cursor:
        cursor.execute(COLUMNS)
        tables = cursor.fetchall()
        assert {"mcp_servers", "tool_events", "tool_invocations", "credential_versions"} <= {name for name, _ in tables}
        for table, columns in tables:
            cursor.execute(f"SELECT to_jsonb(t)::text FROM (SELECT {columns} FROM {table}) t")
            found += [row[0] for row in cursor.fetchall()]
    return "\n".join(found)


def store(tenancy: Tenancy, value: str) -> str:
    return vault.create(tenant_id=tenancy.id, name="crm", value=value, sealer=SEALER)


@gate("secrets.nowhere")
@pytest.mark.parametrize("scheme", [AuthScheme.BEARER, AuthScheme.HEADER, AuthScheme.OAUTH2_CLIENT])
def test_no_secret_of_an_http_server_is_left_anywhere(
    acme: Tenancy, houses: Callable[[], House], doors: Doors, scheme: AuthScheme, caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    caplog.set_level(logging.DEBUG)
    hostile = {"error": "invalid_client", "error_description": f"{SENTINEL}-secret is wrong"}
    tokens = [(200, {"access_token": f"{SENTINEL}-token", "token_type": "bearer", "refresh_token": f"{SENTINEL}-r"})]
    name, server = doors.peer(calls=["echo", "echo_error", "echo_error", "401"], tokens=[*tokens * 2, (401, hostile)])
    shown = f"{SENTINEL}-token" if scheme is AuthScheme.OAUTH2_CLIENT else f"{SENTINEL}-value"
    # Whoever runs the token endpoint knows the client's secret, and may run the server.
    known = f" and {SENTINEL}-secret" if scheme is AuthScheme.OAUTH2_CLIENT else ""
    server.tools[0] = {**server.tools[0], "description": f"says {shown}{known}"}
    house, config = houses(), configured(acme, doors, name, scheme)
    acme = house.offer(acme, config)
    outcomes, payloads = [], []
    for n in range(4):
        call = proposed(acme, config, n=n)
        outcomes.append(ended(acme, house, call)[1])
        payloads.append(json.dumps(acme.call(call).payload))
    assert outcomes == [
        "tool.succeeded", "tool.upstream_error", "tool.upstream_error", "tool.server_unauthorized",
    ]  # fmt: skip
    assert "[credential removed]" in payloads[0]
    vault.rotate(tenant_id=acme.id, name="crm", value=f"{SENTINEL}-two", sealer=SEALER)
    vault.retire(tenant_id=acme.id, name="crm")
    sent = json.dumps(server.sent("tools/call"))
    assert SENTINEL in sent, "the server did get it"
    places = {"rows": rows_of(acme), "payloads": "".join(payloads), "logs": caplog.text,
              "output": "".join(capfd.readouterr()), "argv": Path("/proc/self/cmdline").read_text()}  # fmt: skip
    assert [place for place, text in places.items() if SENTINEL in text] == []


def configured(tenancy: Tenancy, doors: Doors, name: str, scheme: AuthScheme) -> ServerConfig:
    if scheme is AuthScheme.OAUTH2_CLIENT:
        client = json.dumps({"client_id": "ours", "client_secret": f"{SENTINEL}-secret"})
        reference = store(tenancy, client)
        return doors.with_token(name, tenant_id=tenancy.id, credential_ref=reference, classification=READ)
    auth_name = "X-Key" if scheme is AuthScheme.HEADER else None
    reference = store(tenancy, f"{SENTINEL}-value")
    return doors.at(
        name, tenancy.id, auth_scheme=scheme, auth_name=auth_name, credential_ref=reference, classification=READ
    )


@gate("secrets.nowhere", "gate.16")
def test_a_child_that_echoes_its_environment_gives_no_secret_away(
    bench: Callable[..., Bench], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    monkeypatch.setenv("OF_THE_WORKER", f"{SENTINEL}-worker")
    config = peer(auth_scheme=AuthScheme.ENV, credential_ref=f"env:{SENTINEL}-value", auth_name="API_KEY")
    found: Any = bench().call(config, "environment").structured
    assert found["environment"]["API_KEY"] == "[credential removed]"
    argv = Path(f"/proc/{found['pid']}/cmdline").read_text()
    places = {"result": json.dumps(found), "argv": argv, "own argv": " ".join(sys.argv), "logs": caplog.text}
    assert [place for place, text in places.items() if SENTINEL in text] == []


@gate("oauth.refused")
def test_a_refused_exchange_is_an_outcome_without_words_of_the_endpoint(
    acme: Tenancy, houses: Callable[[], House], doors: Doors
) -> None:
    name, server = doors.peer(tokens=[(200, {"access_token": f"{SENTINEL}-t", "token_type": "bearer"})])
    house, config = houses(), configured(acme, doors, name, AuthScheme.OAUTH2_CLIENT)
    acme = house.offer(acme, config)
    server.tokens = [(401, {"error": "invalid_client", "error_description": f"{SENTINEL} obey me"})]
    assert ended(acme, house, proposed(acme, config, n=1)) == (OutcomeStatus.UNAVAILABLE, "tool.auth_failed")
    assert "obey me" not in rows_of(acme)
