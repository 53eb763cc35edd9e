"""Which URIs the resource tool may ask for, and how a list of them is shown."""

import json
from typing import Any

import pytest

from mcpcatalog import mapping, resources
from mcpcatalog.remote import Advertised, Catalog, RemoteResource, RemoteTool, ServerConfig, Transport
from tests.spec.requirements import gate
from toolsys.domain.spec import Classification, IdempotencyClass, RiskLevel, SideEffectClass
from toolsys.domain.trust import TrustLevel

SERVER = ServerConfig("acme", "crm", Transport.HTTP, "https://mcp.example/mcp", key_name="key")


def generation(*names: str, has_resources: bool = True, server: ServerConfig = SERVER) -> mapping.Generation:
    tools = tuple(RemoteTool(name, "d", {"type": "object"}) for name in names)
    catalog = Catalog(tools, (), "2026-07-28", has_resources=has_resources)
    return mapping.map_catalog(server, catalog, output_ceiling_bytes=1_048_576)


@gate("resources.declared")
def test_a_server_with_resources_has_one_tool_more_which_reads() -> None:
    (tool,) = (spec for _, spec in generation("a").tools if spec.name != "mcp.crm.a")
    assert (tool.name, tool.output_trust) == ("mcp.crm.read_resource", TrustLevel.EXTERNAL_UNTRUSTED)
    assert tool.classification == Classification(
        side_effect=SideEffectClass.EXTERNAL_READ, risk=RiskLevel.HIGH, idempotency=IdempotencyClass.READ_ONLY
    )
    assert (tool.server_id, tool.passes_idempotency_key, tool.allow_parallel) == ("crm", False, False)
    assert tool.input_schema["properties"].keys() == {"uri"}
    assert generation("a", has_resources=False).catalog_hash != generation("a").catalog_hash


@gate("resources.declared")
def test_a_tool_of_the_same_name_costs_both_and_the_reserved_name_costs_itself() -> None:
    clash = generation("a", "Read-Resource")
    assert [spec.name for _, spec in clash.tools] == ["mcp.crm.a"]
    assert clash.conflicts == (("Read-Resource", "resources/read"),)
    alone = generation("read_resource", has_resources=False)
    assert [(tool.name, spec.side_effect) for tool, spec in alone.tools] == [
        ("read_resource", SideEffectClass.EXTERNAL_WRITE)
    ]
    (bad,) = generation("resources/read").rejected
    assert (bad.remote_name, bad.detail) == ("resources/read", "a reserved name")


@gate("resources.advertised")
@pytest.mark.parametrize(
    ("template", "uri", "expected"),
    [
        ("crm://notes/{id}", "crm://notes/7", True),
        ("crm://notes/{id}", "crm://notes/", False),
        ("crm://notes/{id}", "crm://notes/7/8", False),
        ("crm://notes/{id}", "crm://notes/7?x=1", False),
        ("crm://notes/{id}", "evil://crm://notes/7", False),
        ("crm://{a,b}/x", "crm://1,2/x", True),
        ("file:///docs/{+path}", "file:///docs/a/b.md", True),
        ("file:///docs/{path*}", "file:///docs/a/b.md", True),
        ("file:///docs{/path*}", "file:///docs/a/b.md", True),
        ("file:///docs{/path*}", "file:///docsx", False),
        ("x://q{?a,b}", "x://q?a=1&b=2", True),
        ("x://q{?a}{&b}", "x://q?a=1&b=2", True),
        ("x://q{#f}", "x://q#part", True),
        ("x://q{.ext}", "x://q.md", True),
        ("x://q{;v}", "x://q;v=1", True),
        ("x://a.c/{id}", "x://abc/1", False),
        ("x://{bad", "x://{bad", False),
        ("x://{a}{b", "x://1{b", False),
        ("x://static", "x://static", False),
        ("x://" + "{a}" * 17, "x://1", False),
        ("{+url}", "https://10.0.0.1/x", False),
        ("{scheme}://x", "file://x", False),
        ("x{+rest}", "x://y", False),
        ("x:{+rest}", "x:y", True),
    ],
)
def test_a_template_permits_its_expansions(template: str, uri: str, expected: bool) -> None:
    assert resources.matches(template, uri) is expected


@gate("resources.advertised")
def test_a_template_that_would_try_for_ever_answers_at_once() -> None:
    assert not resources.matches("x://" + "{+a}" * 16 + "!", "x://" + "a" * 2_000)


@gate("resources.advertised")
@pytest.mark.parametrize(
    "uri",
    ["file:///docs/../etc/passwd", "file:///docs/%2e%2e/etc", "file:///docs/%252e%252e/etc", "file:///docs/a%2f..%2fb",
     "file:///docs/a b", "file:///docs/ä", "docs/a", "file:///docs/" + "a" * 2_048, "file:///docs/a\n"],
)  # fmt: skip
def test_what_a_template_must_not_be_filled_with(uri: str) -> None:
    assert resources.permitted(Advertised(templates=(RemoteResource("file:///docs/{+path}"),)), uri) is None


@gate("resources.advertised")
def test_a_listed_uri_is_sent_as_the_server_spells_it() -> None:
    decomposed = "x://cafe\u0301"
    known = Advertised((RemoteResource(decomposed), RemoteResource("x://a b/../c")))
    assert resources.permitted(known, "x://caf\u00e9") == decomposed
    assert resources.permitted(known, "x://a b/../c") == "x://a b/../c", "the server itself lists it"
    assert resources.permitted(known, "x://cafe") is None


def test_what_cannot_be_offered_is_left_out() -> None:
    declared: list[Any] = [
        {"uri": "x:a", "name": 7},
        {"uri": ""},
        {"uri": "x:\u0000"},
        {"uri": "x:" + "a" * 2_048},
        7,
        {},
    ]
    assert list(resources.usable(declared, "uri")) == [RemoteResource("x:a")]
    templates = [{"uriTemplate": each} for each in ("x:{a}", "{+any}", "{scheme}:x")]
    assert list(resources.usable(templates, "uriTemplate")) == [RemoteResource("x:{a}")]


@gate("resources.bounded")
def test_a_list_is_cut_between_entries_and_says_how_much_is_left_out() -> None:
    known = Advertised(
        tuple(RemoteResource(f"x:{n:03}", "n" * 500, "d" * 900) for n in range(100)), (RemoteResource("x:{a}"),)
    )
    shown = resources.listing(known, 4_096)
    assert len(json.dumps(shown, ensure_ascii=False)) <= 4_096
    assert (len(shown["resources"]) + shown["omitted"], shown["is_whole"]) == (101, False)
    assert len(shown["resources"]) == 7
    assert len(shown["resources"][0]["description"]) == 300
    whole = resources.listing(Advertised((RemoteResource("x:a"),), (RemoteResource("x:{a}"),)), 4_096)
    assert whole == {
        "resources": [{"uri": "x:a"}], "templates": [{"uri_template": "x:{a}"}], "omitted": 0, "is_whole": True,
    }  # fmt: skip
