"""Mapping of remote declarations, against the catalogs of twenty real servers and a few invented bad ones."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mcpcatalog import mapping
from mcpcatalog.contracts import ToolContract
from mcpcatalog.mapping import declared_here, is_offered
from mcpcatalog.remote import Catalog, CatalogMode, KeyPlace, RemoteTool, ServerConfig, Transport
from mcpcatalog.sdk import listing
from tests.spec.requirements import gate
from toolsys.domain.names import is_valid_name
from toolsys.domain.spec import Classification, IdempotencyClass, RiskLevel, SideEffectClass, ToolSource, ToolSpec
from toolsys.domain.trust import TrustLevel

CORPUS = Path(__file__).resolve().parents[3] / "shared" / "corpus" / "catalogs"
needs_corpus = pytest.mark.skipif(not CORPUS.is_dir(), reason=f"the recorded catalogs are not at {CORPUS}")
SERVER = ServerConfig("acme", "crm", Transport.HTTP, "https://mcp.example/mcp", maximum_output_bytes=4_096)
CEILING = 1_048_576


def read(declarations: list[Any], *, checks_headers: bool = False) -> Catalog:
    tools, rejected = listing.sorted_out(declarations, checks_headers=checks_headers)
    return Catalog(tools, rejected, "2025-11-25")


def mapped(*declarations: Any, server: ServerConfig = SERVER) -> mapping.Generation:
    return mapping.map_catalog(server, read(list(declarations)), output_ceiling_bytes=CEILING)


def declared(name: str, **changes: Any) -> dict[str, Any]:
    return {"name": name, "description": "d", "inputSchema": {"type": "object"}, **changes}


@needs_corpus
@pytest.mark.parametrize("path", sorted(CORPUS.glob("*.json")), ids=lambda path: path.stem)
def test_every_tool_of_a_real_server_is_offered(path: Path) -> None:
    tools = json.loads(path.read_text())["tools"]
    generation = mapped(*tools)
    expected = ("deeper than", "only as a task")
    assert [bad for bad in generation.rejected if not any(why in bad.detail for why in expected)] == []
    assert generation.conflicts == ()
    assert len(generation.tools) + len(generation.rejected) == len(tools)
    for remote, spec in generation.tools:
        assert is_valid_name(spec.name)
        assert spec.input_schema == remote.input_schema
        assert len(spec.description.encode()) <= 1_024
        assert (spec.source, spec.output_trust) == (ToolSource.MCP, TrustLevel.EXTERNAL_UNTRUSTED)


@needs_corpus
def test_the_corpus_is_whole() -> None:
    files = sorted(CORPUS.glob("*.json"))
    assert len(files) == 20
    assert sum(len(json.loads(path.read_text())["tools"]) for path in files) == 362


@gate("mcp.mapping")
def test_every_field_is_derived_or_forced() -> None:
    server = replace(
        SERVER, classification=Classification(side_effect=SideEffectClass.EXTERNAL_READ, risk=RiskLevel.LOW,
                                              idempotency=IdempotencyClass.READ_ONLY),
        required_scopes=frozenset({"mcp.crm.read"}), timeout_seconds=7, key_place=KeyPlace.META, key_name="k/x",
    )  # fmt: skip
    boast = {"annotations": {"readOnlyHint": True}, "outputSchema": {"type": "object"}, "version": "9.9"}
    ((_, spec),) = mapped(declared("Get-Item", **boast, _meta={"veetbot/application-only": True}), server=server).tools
    assert spec == ToolSpec(
        name="mcp.crm.get_item", version=spec.version, description="d", input_schema={"type": "object"},
        output_schema=None, side_effect=SideEffectClass.EXTERNAL_READ, risk=RiskLevel.LOW,
        idempotency=IdempotencyClass.READ_ONLY, required_scopes=frozenset({"mcp.crm.read"}), timeout_seconds=7,
        maximum_output_bytes=4_096, allow_parallel=False, target_kind="mcp",
        output_trust=TrustLevel.EXTERNAL_UNTRUSTED, source=ToolSource.MCP, server_id="crm", model_visible=False,
        passes_idempotency_key=True,
    )  # fmt: skip
    assert len(spec.version) == 64


@gate("mcp.mapping")
def test_an_unclassified_server_is_the_most_restrictive_there_is() -> None:
    ((_, spec),) = mapped(declared("t")).tools
    assert spec.classification == Classification(
        side_effect=SideEffectClass.EXTERNAL_WRITE, risk=RiskLevel.HIGH, idempotency=IdempotencyClass.NON_IDEMPOTENT
    )


@gate("discovery.singly")
@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        ("not an object", "declaration"),
        ({"name": "no_schema"}, "declaration"),
        ({"inputSchema": {"type": "object"}}, "declaration"),
        (declared("x" * 300), "declaration"),
        (declared("list_root", inputSchema={"type": "array"}), "schema.input"),
        (declared("no_root", inputSchema={}), "schema.input"),
        (declared("fetches", inputSchema={"type": "object", "properties": {"a": {"$ref": "https://evil.example/s"}}}),
         "schema.input"),
        (declared("alien", inputSchema={"type": "object", "$schema": "https://evil.example/dialect"}), "schema.input"),
        (declared("broken", inputSchema={"type": "object", "properties": {"a": {"type": "strnig"}}}), "schema.input"),
        (declared("huge", inputSchema={"type": "object", "description": "x" * 40_000}), "schema.input"),
        (declared("nul", description="a\0b"), "declaration"),
        (declared("surrogate", description="\ud800"), "declaration"),
        (declared("nan", inputSchema={"type": "object", "maximum": float("nan")}), "declaration"),
    ],
)  # fmt: skip
def test_one_bad_tool_never_costs_its_siblings(bad: Any, reason: str) -> None:
    generation = mapped(declared("good"), bad, declared("fine"))
    assert [spec.name for _, spec in generation.tools] == ["mcp.crm.fine", "mcp.crm.good"]
    assert [rejected.reason for rejected in generation.rejected] == [reason]


def test_a_backslash_u0000_in_a_pattern_is_not_a_nul_character() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string", "pattern": r"^[^\u0000]*$"}}}
    assert len(mapped(declared("t", inputSchema=schema)).tools) == 1


@gate("names.conflict")
def test_names_that_normalize_to_one_are_both_dropped() -> None:
    generation = mapped(declared("Get Item"), declared("get-item"), declared("other"))
    assert generation.conflicts == (("Get Item", "get-item"),)
    assert [spec.name for _, spec in generation.tools] == ["mcp.crm.other"]


def test_a_name_declared_twice_is_dropped_with_its_reason() -> None:
    generation = mapped(declared("twin"), declared("twin", description="other"), declared("other"))
    assert [spec.name for _, spec in generation.tools] == ["mcp.crm.other"]
    assert [rejected.detail for rejected in generation.rejected] == ["declared twice", "declared twice"]


@gate("mcp.version")
def test_the_version_is_the_hash_of_the_declarations_and_of_nothing_else() -> None:
    first = mapped(declared("a"), declared("b"))
    assert mapped(declared("b"), declared("a", _meta={"x": 1}, icons=[])).catalog_hash == first.catalog_hash
    slower = replace(SERVER, timeout_seconds=1)
    assert mapped(declared("a"), declared("b"), server=slower).catalog_hash == first.catalog_hash
    changed = mapped(declared("a"), declared("b", inputSchema={"type": "object", "required": ["x"]}))
    assert changed.catalog_hash != first.catalog_hash


@gate("fixed.declared")
def test_a_fixed_servers_catalog_is_what_is_declared_here() -> None:
    schema = {"type": "object", "additionalProperties": False}
    server = replace(SERVER, mode=CatalogMode.FIXED, fixed_tools=(ToolContract(name="a", input_schema=schema),))
    ((tool, spec),) = mapping.map_catalog(server, declared_here(server), output_ceiling_bytes=1_048_576).tools
    assert (tool.name, spec.name, spec.input_schema) == ("a", "mcp.crm.a", schema)
    assert (is_offered(server, "a"), is_offered(server, "b"), is_offered(server, "resources/read")) == (
        True, False, False,
    )  # fmt: skip


def test_tools_that_turn_arguments_into_bad_headers_are_dropped() -> None:
    bad = {"type": "object", "properties": {"a": {"type": "string", "x-mcp-header": "bad name"}}}
    assert [tool.name for tool in read([declared("a", inputSchema=bad)], checks_headers=True).tools] == []
    assert [tool.name for tool in read([declared("a", inputSchema=bad)]).tools] == ["a"]


@gate("mcp.mapping")
def test_a_long_description_is_cut_between_characters() -> None:
    ((remote, spec),) = mapped(declared("t", description="é" * 900)).tools
    assert remote == RemoteTool("t", "é" * 900, {"type": "object"})
    assert spec.description == "é" * 512
