"""The docs server without a socket: what it reads of Markdown, what it finds, whom it answers, what it never opens."""

import asyncio
import json
import os
import time
from pathlib import Path
from typing import Any

import pytest

from mcpcatalog import contracts
from mcpcatalog.firstparty.docs import __main__ as program
from mcpcatalog.firstparty.docs import app, markdown, protocol
from mcpcatalog.firstparty.docs.app import DocsServer
from mcpcatalog.firstparty.docs.audit import audit
from mcpcatalog.firstparty.docs.contracts import CONTRACTS, AuditArguments, SearchArguments
from mcpcatalog.firstparty.docs.library import Library, NoSuchDocument
from mcpcatalog.firstparty.docs.search import search
from tests.spec.requirements import gate

TOKEN = "t" * 32
INDEX = """# Guide

See [setup](setup.md#first-steps), [gone](gone.md), [gone part](setup.md#nowhere), [up](../secret.md), [web](https://x.example/)
and ![logo](img/logo.png "Logo") and [other][ref] and [lost][nobody] and [here](#guide) and [bad](javascript:alert(1)).

```
[not a link](nowhere.md)
```

Also `[not a link](nowhere.md)` and ``code ` [x](y.md)``, but [is one](missing(1).md).

[ref]: <setup.md>
"""
SETUP = """Intro words.

First steps
===========

Install the zebra. zebra zebra

## First steps ##

## C#

A zebra.
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "secret.md").write_text("# Secret zebra\n")
    docs = tmp_path / "docs"
    (docs / "img").mkdir(parents=True)
    (docs / "img" / "logo.png").write_bytes(b"\x89PNG")
    (docs / "index.md").write_text(INDEX)
    (docs / "setup.md").write_text(SETUP)
    return docs


@pytest.fixture
def library(folder: Path) -> Library:
    return Library(folder)


def call(library: Library, method: str, params: Any = None, **headers: str) -> protocol.Answer:
    message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params or {}}
    return protocol.answer(json.dumps(message).encode(), headers, library)


def test_the_audit_names_each_link_that_leads_nowhere(library: Library) -> None:
    found = audit(library, AuditArguments())
    assert [(each["line"], each["target"], each["problem"]) for each in found["problems"]] == [
        (3, "gone.md", "missing_file"),
        (3, "setup.md#nowhere", "missing_anchor"),
        (3, "../secret.md", "outside_folder"),
        (4, "javascript:alert(1)", "unsupported_scheme"),
        (4, "nobody", "undefined_reference"),
        (10, "missing(1).md", "missing_file"),
    ]
    assert {key: found[key] for key in ("total", "omitted", "documents", "external", "is_whole")} == {
        "total": 6, "omitted": 0, "documents": 2, "external": 1, "is_whole": True,
    }  # fmt: skip
    assert audit(library, AuditArguments(path="setup.md"))["problems"] == []
    short = audit(library, AuditArguments(limit=2))
    assert (len(short["problems"]), short["total"], short["omitted"]) == (2, 6, 4)
    assert audit(library, AuditArguments()) == found, "the same folder, the same answer"


def test_the_search_gives_the_best_sections_first(library: Library) -> None:
    found = search(library, SearchArguments(query="Zebra!"))
    assert [(each["path"], each["line"], each["heading"]) for each in found["results"]] == [
        ("setup.md", 3, "First steps"), ("setup.md", 10, "C#"),
    ]  # fmt: skip
    assert "Install the zebra." in found["results"][0]["snippet"]
    assert search(library, SearchArguments(query="first zebra", limit=1))["results"][0]["line"] == 3
    assert search(library, SearchArguments(query="unicorn"))["results"] == []
    assert search(library, SearchArguments(query="???"))["total"] == 0


def test_anchors_are_those_of_common_renderers() -> None:
    page = markdown.read('# A `b` *C*!\n\n# A b C\n\n<a id="own"></a>\n\n## Über uns\n')
    assert page.anchors == {"a-b-c", "a-b-c-1", "own", "über-uns"}
    assert markdown.slug_of("Read [this](x.md), now") == "read-this-now"


@gate("docs.beneath")
def test_nothing_outside_of_the_folder_is_opened(folder: Path, tmp_path: Path) -> None:
    (folder / "link.md").symlink_to(tmp_path / "secret.md")
    (folder / "linked").symlink_to(tmp_path)
    os.link(tmp_path / "secret.md", folder / "hard.md")
    os.mkfifo(folder / "pipe.md")
    (folder / ".hidden.md").write_text("# zebra")
    library = Library(folder)
    assert {each["path"] for each in search(library, SearchArguments(query="zebra"))["results"]} == {"setup.md"}
    climbing = ("../secret.md", "img/../../secret.md", "/etc/passwd", "linked/secret.md")
    for path in (*climbing, "link.md", ".hidden.md", "hard.md", "a\0b", "x" * 500, "nothing.md"):
        with pytest.raises(NoSuchDocument):
            library.read(path)


@gate("docs.bounded")
def test_reading_is_bounded_and_says_so(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "large.md").write_text("zebra " * 100_000)
    found = search(Library(folder), SearchArguments(query="zebra"))
    assert (found["documents"], found["is_whole"]) == (2, False)
    deep = folder.joinpath(*"abcdefghij")
    deep.mkdir(parents=True)
    (deep / "deep.md").write_text("zebra")
    (folder / "large.md").unlink()
    assert search(Library(folder), SearchArguments(query="zebra"))["is_whole"] is False


@gate("docs.bounded")
@pytest.mark.parametrize(
    "text", ["[" * 400_000, "`" * 400_000, "``` `" * 80_000, "](" * 200_000, "# " + " " * 400_000 + "x",
             "<a id" + " " * 400_000, "[a](" + "(" * 400_000, "[a][" * 100_000, "` `` " * 80_000,
             pytest.param("# a\n" * 100_000, marks=pytest.mark.slow)]
)  # fmt: skip
def test_no_text_takes_long_to_read(text: str) -> None:
    begun = time.process_time()
    markdown.read("\n".join(text[start : start + 4_000] for start in range(0, len(text), 4_000)))
    assert time.process_time() - begun < 5


def test_a_changed_document_is_read_anew(folder: Path, library: Library) -> None:
    assert search(library, SearchArguments(query="unicorn"))["total"] == 0
    (folder / "setup.md").write_text("# Unicorn\n")
    assert search(library, SearchArguments(query="unicorn"))["total"] == 1


def test_both_eras_are_spoken(library: Library) -> None:
    modern = {"mcp-protocol-version": "2026-07-28"}
    discovered = call(library, "server/discover", **modern).body
    assert discovered is not None
    assert discovered["result"]["supportedVersions"] == ["2026-07-28"]
    assert discovered["result"]["resultType"] == "complete"
    for wanted, given in (("2024-11-05", "2024-11-05"), ("2099-01-01", "2025-11-25")):
        begun = call(library, "initialize", {"protocolVersion": wanted}).body
        assert begun is not None
        assert begun["result"]["protocolVersion"] == given
        assert begun["result"]["capabilities"] == {"tools": {}}
    listed = call(library, "tools/list").body
    assert listed is not None
    assert [tool["inputSchema"] for tool in listed["result"]["tools"]] == [each.input_schema for each in CONTRACTS]
    found = call(library, "tools/call", {"name": "docs.search", "arguments": {"query": "zebra"}}).body
    assert found is not None
    assert json.loads(found["result"]["content"][0]["text"]) == found["result"]["structuredContent"]
    note = {"jsonrpc": "2.0", "method": "notifications/initialized"}
    assert protocol.answer(json.dumps(note).encode(), {}, library) == protocol.Answer(202)


def calling(name: Any, arguments: Any) -> bytes:
    params = {"name": name, "arguments": arguments}
    return json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}).encode()


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        (b"{", 400, -32_700),
        (b"[]", 400, -32_600),
        (b"[" * 50_000, 400, -32_700),
        (b'{"jsonrpc":"1.0"}', 400, -32_600),
        (b'{"jsonrpc":"2.0","id":{},"method":"ping"}', 400, -32_600),
        (b'{"jsonrpc":"2.0","id":1,"method":"ping","params":[]}', 400, -32_600),
        (b'{"jsonrpc":"2.0","id":1,"method":"resources/delete"}', 200, -32_601),
        (calling("docs.delete", {}), 200, -32_602),
        (calling([], {}), 200, -32_602),
        (calling("docs.search", []), 200, -32_602),
        (calling("docs.audit_links", {"limit": "5"}), 200, -32_602),
        (calling("docs.audit_links", {"url": "delete"}), 200, -32_602),
    ],
    ids=["json", "batch", "deep", "version", "id", "params", "method", "tool", "named", "list", "kind", "unknown"],
)
def test_what_is_no_request_is_refused_without_repeating_it(
    library: Library, body: bytes, status: int, code: int
) -> None:
    answer = protocol.answer(body, {}, library)
    assert answer.body is not None
    assert (answer.status, answer.body["error"]["code"]) == (status, code)
    assert "delete" not in answer.body["error"]["message"]


def test_a_header_that_says_another_method_is_refused(library: Library) -> None:
    headers = {"mcp-protocol-version": "2026-07-28", "mcp-method": "tools/call"}
    refused = call(library, "tools/list", **headers)
    assert refused.body is not None
    assert (refused.status, refused.body["error"]["code"]) == (400, -32_020)


def asked(server: DocsServer, body: bytes = b"{}", **changes: Any) -> tuple[int, bytes, dict[str, str]]:
    """Send one request without a socket; return status, body and headers of the answer."""
    sent: list[dict[str, Any]] = []
    headers = {"authorization": f"Bearer {TOKEN}", "content-type": "application/json", **changes.pop("headers", {})}
    scope = {"type": "http", "method": "POST", "path": "/mcp", **changes,
             "headers": [(name.encode(), value.encode()) for name, value in headers.items() if value]}  # fmt: skip

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": body}

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    asyncio.run(server(scope, receive, send))
    return sent[0]["status"], sent[1]["body"], {name.decode(): value.decode() for name, value in sent[0]["headers"]}


@gate("docs.authenticated")
@pytest.mark.parametrize(
    ("changes", "status"),
    [
        ({"headers": {"authorization": ""}}, 401),
        ({"headers": {"authorization": "Bearer " + "u" * 32}}, 401),
        ({"headers": {"authorization": f"Basic {TOKEN}"}}, 401),
        ({"headers": {"authorization": "Bearer"}}, 401),
        ({"headers": {"authorization": f"Bearer {TOKEN}x"}}, 401),
        ({"path": "/", "headers": {"authorization": ""}}, 401),
        ({"path": "/other"}, 404),
        ({"method": "GET"}, 405),
        ({"headers": {"origin": "https://evil.example"}}, 403),
        ({"headers": {"content-type": "text/plain"}}, 415),
        ({"headers": {"content-encoding": "gzip"}}, 415),
        ({"body": b"x" * (app.MAXIMUM_BODY_BYTES + 1)}, 413),
    ],
    ids=["none", "wrong", "basic", "empty", "longer", "any_path", "path", "get", "origin", "kind", "encoded", "large"],
)
def test_whoever_may_not_ask_is_told_nothing(library: Library, changes: dict[str, Any], status: int) -> None:
    found, body, headers = asked(DocsServer(library, [TOKEN]), **changes)
    assert (found, body) == (status, b"")
    assert headers.get("www-authenticate") == ("Bearer" if status == 401 else None)


@gate("docs.authenticated")
def test_two_tokens_live_while_one_is_rotated(library: Library) -> None:
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "ping"}).encode()
    assert asked(DocsServer(library, ["n" * 32, TOKEN]), body)[0] == 200
    with pytest.raises(ValueError, match="everybody"):
        DocsServer(library, [])


@gate("docs.bounded")
def test_a_folder_that_is_gone_is_an_error_of_the_server(tmp_path: Path) -> None:
    server = DocsServer(Library(tmp_path / "gone"), [TOKEN])
    assert asked(server, calling("docs.audit_links", {}))[:2] == (500, b"")


@gate("docs.authenticated")
@pytest.mark.parametrize(
    ("arguments", "environment", "why"),
    [
        ([], {}, "needs a token"),
        ([], {"DOCS_SERVER_TOKENS": "short"}, "needs a token"),
        ([], {"DOCS_SERVER_TOKENS_FILE": "/nonexistent"}, "cannot be read"),
        (["--folder", "/nonexistent"], {"DOCS_SERVER_TOKENS": TOKEN}, "not a folder"),
        (["--host", "0.0.0.0"], {"DOCS_SERVER_TOKENS": TOKEN}, "--tls-certificate"),
        (["--host", "docs.example"], {"DOCS_SERVER_TOKENS": TOKEN}, "--tls-certificate"),
    ],
    ids=["no_token", "short_token", "no_file", "no_folder", "everywhere", "a_name"],
)
def test_a_server_that_would_be_open_does_not_start(
    folder: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], environment: dict[str, str], why: str
) -> None:
    assert program.main(["--folder", str(folder), *arguments], environment) == 2
    assert why in capsys.readouterr().err


@gate("fixed.declared")
def test_it_prints_its_contracts_as_a_fixed_server_declares_them(capsys: pytest.CaptureFixture[str]) -> None:
    assert program.main(["--contracts"], {}) == 0
    printed = json.loads(capsys.readouterr().out)
    assert list(contracts.faults(printed)) == []
    assert contracts.read(printed) == CONTRACTS
