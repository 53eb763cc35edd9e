"""A sentinel scan over servers that say back what they were given, wherever a server can say anything.

The secret is planted as the credential; afterwards it may be in no row, payload, log, metric, command line or output.
Beside `test_secrets`, where the server is honest enough to echo in its answers only.
"""

import json
import logging
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest
from django.conf import settings
from prometheus_client import REGISTRY, generate_latest

from mcpcatalog.models import McpServer
from mcpcatalog.remote import AuthScheme, ServerConfig, StdioCommand, Transport
from tests.factories import Tenancy
from tests.hostile.piping import SCRIPT
from tests.hostile.play import READ, config_of
from tests.hostile.row import Row
from tests.hostile.scripts import MODERN, Script, Stage, answer, error, events, http, redirect, result, rpc
from tests.hostile.server import TOOLS, Hostile, serving
from tests.integration.mcp.conftest import House
from tests.integration.mcp.test_ladder import WRITE, ended, proposed
from tests.integration.mcp.test_secrets import rows_of, store
from tests.spec.requirements import gate
from toolsys import queue
from toolsys.domain.states import OutcomeStatus
from toolsys.tenancy import tenant_transaction

pytestmark = pytest.mark.slow

SENTINEL: Final = "sentinel-of-the-vault-4711"
SAID: Final = [{"type": "text", "text": f"you sent {SENTINEL}"}]
CALLS: Final[dict[str, Script]] = {
    "content": answer(result(SAID, structuredContent={SENTINEL: [SENTINEL]})),
    "reported-error": answer(result(SAID, isError=True, structuredContent={"said": SENTINEL})),
    "rpc-error": error(-32_050, SENTINEL, data={"said": SENTINEL}),
    "challenge": http(SENTINEL, "401 Unauthorized", "text/plain", WWW_Authenticate=f'Bearer realm="{SENTINEL}"'),
    "forbidden": http(SENTINEL, "403 Forbidden", "text/plain"), "failed": error(-1, SENTINEL, "500 Oops"),
    "slow-down": http(SENTINEL, "429 Slow", "text/plain", Retry_After=SENTINEL),
    "reason-phrase": http("", f"400 {SENTINEL}", None), "content-type": http("x", kind=f"text/{SENTINEL}"),
    "location": redirect("307 Temporary", f"http://{SENTINEL}.example/{SENTINEL}"),
    "not-json": http(SENTINEL), "bad-event": events(f"data: {SENTINEL}\n\n"), "bad-shape": http(rpc(result=SENTINEL)),
    "odd-type": answer({"resultType": SENTINEL}), "encoding": http("x", Content_Encoding=SENTINEL),
    "image": answer(result([{"type": "image", "data": SENTINEL, "mimeType": f"a/{SENTINEL}"}])),
}  # fmt: skip
EARLIER: Final[dict[str, dict[Stage, Script]]] = {
    "shakes-hands": {Stage.DISCOVER: error(-1, SENTINEL), Stage.INITIALIZE: error(-1, SENTINEL)},
    "session": {Stage.DISCOVER: http("", "404 No", None), Stage.INITIALIZE: error(-1, SENTINEL, "404 No")},
    "lists": {Stage.LIST: answer({
        "tools": [{**TOOLS[0], "description": SENTINEL}, {"name": SENTINEL}, {**TOOLS[0], "name": f"x {SENTINEL}"}],
        **MODERN,
    })},
    "list-error": {Stage.LIST: error(-1, SENTINEL)},
    "cursor": {Stage.LIST: answer({"tools": TOOLS, "nextCursor": SENTINEL, **MODERN})},
}  # fmt: skip


@pytest.fixture(scope="module")
def hostile() -> Iterator[Hostile]:
    with serving() as found:
        yield found


def command_lines() -> str:
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            found.append(path.read_text(errors="replace"))
        except OSError:
            continue
    return "\n".join(found)


def offered(hostile: Hostile, house: House, acme: Tenancy, name: str, **changes: Any) -> tuple[Tenancy, ServerConfig]:
    """Offer the tool of a server that is well, and that says the sentinel from now on."""
    row = Row(f"says-{name}", "", "unknown", EARLIER.get(name) or {Stage.CALL: CALLS[name]})
    hostile.armed.discard(row.name)
    config = replace(config_of(row, hostile), tenant_id=acme.id, server_id=name.replace("-", "_"), **changes)
    tenancy = house.offer(acme, config)
    hostile.scripts[row.name] = row.scripts
    hostile.armed.add(row.name)
    return tenancy, config


@gate("secrets.nowhere")
@pytest.mark.parametrize("scheme", [AuthScheme.BEARER, AuthScheme.HEADER])
def test_a_secret_that_is_said_back_in_any_place_is_left_nowhere(
    acme: Tenancy, houses: Callable[[], House], hostile: Hostile, scheme: AuthScheme, caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    caplog.set_level(logging.DEBUG)
    house, reference = houses(), store(acme, SENTINEL)
    login = {"auth_scheme": scheme, "credential_ref": reference}
    login |= {"auth_name": "X-Key"} if scheme is AuthScheme.HEADER else {}
    heard, payloads = 0, []
    for number, name in enumerate([*CALLS, *EARLIER]):
        classification = WRITE if number % 3 == 0 else READ
        tenancy, config = offered(hostile, house, acme, name, classification=classification, **login)
        call = proposed(tenancy, config)
        ended(tenancy, house, call)
        payloads.append(json.dumps(tenancy.call(call).payload))
        house.provider.refresh(acme.id, config.server_id)
    heard = sum(SENTINEL in json.dumps(dict(request.headers)) for request in hostile.seen)
    assert heard > len(CALLS), "the servers did get it"
    with tenant_transaction(acme.id, "operator"):
        failed = McpServer.objects.using("operator").filter(tenant_id=acme.id).exclude(last_failure_code="").count()
    assert failed >= 2, "the failures of listings are among the rows"
    places = {**everywhere(acme), "payloads": "".join(payloads), "logs": caplog.text,
              "output": "".join(capfd.readouterr())}  # fmt: skip
    assert [place for place, text in places.items() if SENTINEL in text] == []


def everywhere(tenancy: Tenancy) -> dict[str, str]:
    """Everything that a process of ours leaves for others to look at, whoever may."""
    shared = queue.call_queue().connection
    kept = [shared.dump(key) or b"" for key in shared.scan_iter()]
    files = [path.read_bytes() for path in settings.TOOLSYS.data_dir.rglob("*") if path.is_file()]
    return {
        "rows": rows_of(tenancy), "command lines": command_lines(), "metrics": generate_latest(REGISTRY).decode(),
        "queue": b"".join(kept).decode("latin-1"), "files": b"".join(files).decode("latin-1"),
    }  # fmt: skip


@gate("secrets.nowhere", "gate.16")
@pytest.mark.parametrize("mode", ["says-its-secret", "says-its-secret-in-an-error", "writes-its-secret-to-the-log"])
def test_a_child_that_says_its_secret_back_leaves_it_nowhere(
    acme: Tenancy, houses: Callable[..., House], mode: str, caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    caplog.set_level(logging.DEBUG)
    command = StdioCommand((sys.executable, SCRIPT, mode))
    house, reference = houses({"peer": command}), store(acme, SENTINEL)
    config = ServerConfig(
        acme.id, "peer", Transport.STDIO, "peer", AuthScheme.ENV, "API_KEY", reference, classification=READ,
        command=command,
    )  # fmt: skip
    tenancy = house.offer(acme, config)
    call = proposed(tenancy, config)
    assert ended(tenancy, house, call)[0] in {OutcomeStatus.SUCCEEDED, OutcomeStatus.FAILED}
    payload = json.dumps(tenancy.call(call).payload)
    assert "says-its" not in mode or "[credential removed]" in payload + rows_of(acme), "it did say it"
    places = {**everywhere(acme), "payload": payload, "logs": caplog.text, "output": "".join(capfd.readouterr())}
    assert [place for place, text in places.items() if SENTINEL in text] == []
