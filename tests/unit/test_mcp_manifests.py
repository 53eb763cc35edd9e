"""What is read out of other programs' lists of servers, and what is not taken and why."""

import json
from typing import Any

import pytest

from mcpcatalog import manifests
from mcpcatalog.entries import Entry
from mcpcatalog.manifests import Unreadable
from tests.spec.requirements import gate

SECRET = "sk-live-4f9a2b7c8d3e"
URL = "https://mcp.example/mcp"


def read(document: Any) -> list[Entry]:
    return manifests.read(json.dumps(document).encode())


def only(described: dict[str, Any], name: str = "crm") -> Entry:
    (entry,) = read({"mcpServers": {name: described}})
    return entry


@gate("mcp.import")
@pytest.mark.parametrize(
    "document",
    [
        {"mcpServers": {"My CRM": {"url": URL}}},
        {"mcpServers": {"my-crm": {"type": "http", "url": URL, "headers": {"Accept": "application/json"}}}},
        {"servers": {"my.crm": {"type": "http", "url": URL}}, "inputs": []},
        {"mcp": {"servers": {"my_crm": {"serverUrl": URL}}}},
        {"name": "io.github.acme/my-crm", "version": "1", "remotes": [{"type": "streamable-http", "url": URL}]},
        {"server": {"name": "com.acme/my-crm", "remotes": [{"type": "sse", "url": "https://old.example"},
                                                          {"type": "streamable-http", "url": URL}]}, "_meta": {}},
        {"servers": [{"server": {"name": "com.acme/my-crm", "remotes": [{"type": "streamable-http", "url": URL}]}}]},
        {"$schema": "x", "mcp": {"my-crm": {"type": "remote", "url": URL, "enabled": True}}, "model": "x/y"},
        {"theme": "One", "context_servers": {"my-crm": {"source": "custom", "url": URL, "headers": {}}}},
        {"mcpServers": [{"name": "my-crm", "type": "streamable-http", "url": URL}]},
        {"mcpServers": {"my-crm": {"url": "https://old.example/sse", "httpUrl": URL}}},
        {"mcpServers": {"my-crm": {"command": "npx", "args": ["-y", "mcp-remote@latest", URL, "--debug"]}}},
    ],
    ids=["mcpServers", "type", "servers", "settings", "server.json", "registry-answer", "registry-page", "opencode",
         "zed", "list", "httpUrl", "bridge"],
)  # fmt: skip
def test_every_shape_gives_the_same_server(document: Any) -> None:
    (entry,) = read(document)
    assert entry.refusal == ""
    assert entry.columns == {
        "server_id": "my_crm", "transport": "http", "endpoint": URL, "auth_scheme": "none"
    }  # fmt: skip


@gate("mcp.import")
@pytest.mark.parametrize(
    ("headers", "scheme", "auth_name", "secret"),
    [
        ({"Authorization": f"Bearer {SECRET}"}, "bearer", None, SECRET),
        ({"authorization": f"bearer  {SECRET} "}, "bearer", None, SECRET),
        ({"X-Api-Key": SECRET}, "header", "X-Api-Key", SECRET),
        ({"Authorization": "Bearer ${input:token}"}, "bearer", None, ""),
        ({"Authorization": "Bearer {token}"}, "bearer", None, ""),
        ({"Authorization": "${env:HEADER}"}, "bearer", None, ""),
        ({"X-Api-Key": "<your key>"}, "header", "X-Api-Key", ""),
        ({"X-Api-Key": "YOUR_API_KEY"}, "header", "X-Api-Key", ""),
        ({"X-Api-Key": "API_KEY_HERE"}, "header", "X-Api-Key", ""),
        ({"Authorization": "Bearer $CRM_TOKEN"}, "bearer", None, ""),
        ({"Authorization": "Bearer %CRM_TOKEN%"}, "bearer", None, ""),
        ({"X-Api-Key": ""}, "header", "X-Api-Key", ""),
    ],
)
def test_the_header_that_logs_in_becomes_a_scheme_and_its_value_leaves_the_columns(
    headers: dict[str, str], scheme: str, auth_name: str | None, secret: str
) -> None:
    entry = only({"url": URL, "headers": headers})
    assert (entry.columns["auth_scheme"], entry.columns.get("auth_name")) == (scheme, auth_name)
    assert (entry.columns["credential_ref"], entry.secret) == ("store:mcp-crm", secret)
    assert SECRET not in f"{entry.columns} {entry.notes} {entry!r}"
    assert bool(entry.notes) is not bool(secret)


@gate("mcp.import")
@pytest.mark.parametrize(
    ("described", "scheme", "auth_name", "secret"),
    [
        ({"type": "remote", "url": URL, "headers": {"Authorization": "Bearer {env:CRM_TOKEN}"}}, "bearer", None, ""),
        ({"type": "remote", "url": URL, "headers": {"X-Key": "{file:~/.crm key}"}}, "header", "X-Key", ""),
        ({"url": f"{URL}?api_key={SECRET}"}, "bearer", None, SECRET),
        ({"url": f"{URL}?crmApiKey={SECRET}#top"}, "bearer", None, SECRET),
        ({"url": URL + "?token=${input:token}"}, "bearer", None, ""),
        ({"url": URL + "?api_key=YOUR_KEY"}, "bearer", None, ""),
        ({"url": URL, "headers": {"Authorization": "Bearer ${KEY}"}, "env": {"KEY": SECRET}}, "bearer", None, SECRET),
        ({"command": "npx", "args": ["mcp-remote", URL, "--header", f"Authorization:Bearer {SECRET}"]},
         "bearer", None, SECRET),
        ({"command": "npx", "args": ["-y", "mcp-remote@0.1.2", URL, "--header", "X-Key: ${KEY}"],
          "env": {"KEY": SECRET}}, "header", "X-Key", SECRET),
        ({"command": ["bunx", "mcp-remote", f"{URL}?key={SECRET}"], "type": "local"}, "bearer", None, SECRET),
    ],
    ids=["opencode-env", "opencode-file", "query", "query-fragment", "query-input", "query-placeholder", "expanded",
         "bridge-header", "bridge-expanded", "bridge-query"],
)  # fmt: skip
def test_a_secret_leaves_the_entry_wherever_it_stands(
    described: dict[str, Any], scheme: str, auth_name: str | None, secret: str
) -> None:
    entry = only(described)
    assert (entry.refusal, entry.columns["endpoint"]) == ("", URL)
    assert (entry.columns["auth_scheme"], entry.columns.get("auth_name")) == (scheme, auth_name)
    assert (entry.columns["credential_ref"], entry.secret) == ("store:mcp-crm", secret)
    assert SECRET not in f"{entry.columns} {entry.notes} {entry!r}"


@gate("mcp.import")
def test_what_of_a_query_is_no_secret_stays_as_it_was_written() -> None:
    entry = only({"url": f"{URL}?profile=a%20b&api_key={SECRET}&x=1&x=2"})
    assert (entry.columns["endpoint"], entry.secret) == (f"{URL}?profile=a%20b&x=1&x=2", SECRET)
    assert any("api_key" in note and "Bearer" in note for note in entry.notes)


@gate("mcp.import")
@pytest.mark.parametrize(
    "described",
    [
        {"type": "local", "command": ["npx", "-y", "thing"], "environment": {"CRM_TOKEN": SECRET, "REGION": "eu"}},
        {"source": "custom", "command": "npx", "args": ["-y", "thing"], "env": {"CRM_TOKEN": SECRET, "REGION": "eu"}},
        {"command": {"path": "npx", "args": ["-y", "thing"], "env": {"CRM_TOKEN": SECRET, "REGION": "eu"}}},
        {"type": "stdio", "command": "npx", "args": ["-y", "thing"], "env": {"CRM_TOKEN": SECRET, "REGION": "eu"}},
    ],
    ids=["opencode", "zed", "zed-before", "vscode"],
)
def test_a_program_of_any_shape_is_one_command_line_and_its_secret_variable_a_scheme(described: dict[str, Any]) -> None:
    entry = only(described)
    assert (entry.refusal, entry.argv) == ("entry.stdio", ("npx", "-y", "thing"))
    assert {name: entry.columns[name] for name in ("transport", "auth_scheme", "auth_name", "credential_ref")} == {
        "transport": "stdio", "auth_scheme": "env", "auth_name": "CRM_TOKEN", "credential_ref": "store:mcp-crm"
    }  # fmt: skip
    assert entry.secret == SECRET
    assert SECRET not in f"{entry.columns} {entry.notes} {entry!r}"
    assert "variables that it wants: REGION" in entry.notes


@gate("mcp.import")
@pytest.mark.parametrize(
    ("described", "says"),
    [
        ({"command": "npx", "args": ["thing", "--api-key", SECRET]}, "among its arguments"),
        ({"command": "npx", "args": ["thing", f"--token={SECRET}"]}, "among its arguments"),
        ({"command": "npx", "args": ["thing", SECRET]}, "among its arguments"),
        ({"command": f"CRM_TOKEN={SECRET} npx thing"}, "among its arguments"),
        ({"command": "npx", "env": {"CRM_TOKEN": SECRET, "CRM_SECRET": SECRET}}, "CRM_TOKEN, CRM_SECRET"),
        ({"command": "npx", "env": {"CRM_TOKEN": "${input:token}"}}, "placeholder"),
    ],
    ids=["flag", "assigned", "recognized", "shell", "two", "placeholder"],
)
def test_a_secret_that_a_program_cannot_be_given_is_not_kept_and_said(described: dict[str, Any], says: str) -> None:
    entry = only(described)
    assert (entry.refusal, entry.secret) == ("entry.stdio", "")
    assert any(says in note for note in entry.notes), entry.notes
    assert SECRET not in f"{entry.columns} {entry.notes} {entry!r} {entry.message}"


@gate("mcp.import")
@pytest.mark.parametrize(
    ("described", "refusal"),
    [
        ({"command": "npx", "args": ["-y", "x"], "env": {"TOKEN": SECRET}}, "entry.stdio"),
        ({"type": "sse", "url": URL}, "entry.transport"),
        ({"type": "ws", "url": "wss://mcp.example"}, "entry.transport"),
        ({"type": "http"}, "entry.url"),
        ({"url": "https://mcp.example/${input:path}"}, "entry.url"),
        ({"url": 5}, "entry.url"),
        ({"source": "extension", "settings": {"token": SECRET}}, "entry.url"),
        ({"url": f"{URL}?key={SECRET}", "headers": {"X-A": SECRET}}, "entry.headers"),
        ({"url": f"{URL}?key={SECRET}&token={SECRET}"}, "entry.headers"),
        ({"command": "npx", "args": ["mcp-remote", URL, "--transport", "sse-only"]}, "entry.transport"),
        ({"command": "npx", "args": ["mcp-remote"]}, "entry.url"),
        ({"url": URL, "headers": [SECRET]}, "entry.headers"),
        ({"url": URL, "headers": {"X-A": SECRET, "X-B": SECRET}}, "entry.headers"),
        ({"url": URL, "headers": {"Authorization": f"Basic {SECRET}"}}, "entry.authorization"),
        (SECRET, "entry.kind"),
    ],
)
def test_what_is_not_taken_says_why_and_shows_no_secret(described: Any, refusal: str) -> None:
    entry = only(described)
    assert (entry.refusal, bool(entry.message)) == (refusal, True)
    assert SECRET not in f"{entry!r}"


@gate("mcp.import")
@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "not JSON"),
        (b"\xff\xfe", "not JSON"),
        (b'// mine\n{"a": /* here */ 1,\n  "b" 2}', "line 3, column 7"),
        (b'{"a": ' + b"1" * 5_000 + b"}", "too long"),
        (b"[]", "no JSON object"),
        (b"{}", "Neither"),
        (b'{"name": "package", "version": "1"}', "Neither"),
        (b'{"mcpServers": {}}', "names no servers"),
        (b'{"mcp": {}}', "names no servers"),
        (b'{"context_servers": []}', "names no servers"),
        (b'{"mcpServers": {"a": {}, "a": {}}}', "stands twice"),
        (b'{"a":' * 5_000 + b"1" + b"}" * 5_000, "nested"),
        (b'{"mcpServers": {"a": {"x": ' + b"[" * 20 + b"]" * 20 + b"}}}", "nested"),
        (b" " * (manifests.MAXIMUM_BYTES + 1), "more than 256 KiB"),
        (json.dumps({"mcpServers": {f"s{n}": {"url": URL} for n in range(101)}}).encode(), "more than 100"),
    ],
    ids=range(15),
)
def test_a_file_that_says_nothing_we_can_read_is_refused_as_a_whole(data: bytes, says: str) -> None:
    with pytest.raises(Unreadable, match=says):
        manifests.read(data)


@gate("mcp.import")
def test_two_entries_that_would_have_one_name_are_not_both_taken() -> None:
    first, second = read({"mcpServers": {"my-crm": {"url": URL}, "My CRM": {"url": "https://other.example/"}}})
    assert (first.refusal, second.refusal) == ("", "entry.twice")


@gate("mcp.import")
def test_comments_and_trailing_commas_of_editors_are_no_obstacle_and_strings_stay() -> None:
    text = (
        '// mine\n{"servers": { /* the // CRM */ "crm": {"url": "https://mcp.example/mcp", "headers":'
        ' {"X-Key": "a//b /* c */,}\\"",},}, // last\n},}'
    )
    (entry,) = manifests.read(text.encode())
    assert (entry.columns["endpoint"], entry.secret) == (URL, 'a//b /* c */,}"')


@gate("mcp.import")
@pytest.mark.parametrize("text", ['{"a": "' + '\\"' * 100_000, "/*" * 120_000, "[1,,]", "//" * 100, "/* x"])
def test_what_is_no_json_even_without_comments_is_refused_at_once(text: str) -> None:
    with pytest.raises(Unreadable, match="not JSON"):
        manifests.read(text.encode())


@gate("mcp.import")
def test_of_a_registry_s_headers_those_that_are_needed_are_taken() -> None:
    headers: list[dict[str, Any]] = [
        {"name": "X-Key", "isRequired": True, "isSecret": True},
        {"name": "X-Region", "default": "eu"},
    ]  # fmt: skip
    remote = {"type": "streamable-http", "url": URL, "headers": headers}
    (entry,) = read({"name": "com.acme/crm", "remotes": [remote]})
    assert (entry.refusal, entry.columns["auth_name"]) == ("", "X-Key")
    assert "the header X-Region is optional and not taken over" in entry.notes
    remote["headers"] = [{**each, "isSecret": True} for each in headers]
    (entry,) = read({"name": "com.acme/crm", "remotes": [remote]})
    assert entry.refusal == "entry.headers"
