"""The grammar of names, the partition of domains, and the normalization of remote names."""

import hashlib

import pytest

from tests.spec.requirements import gate
from toolsys.domain import names
from toolsys.domain.spec import ToolSource


@gate("names.grammar")
@pytest.mark.parametrize("name", ["math.evaluate", "a.b", "mcp.acme.t_2fast", "web.a.b_c.d9", "m." + "x" * 94])
def test_a_name_of_lower_case_dotted_segments_is_valid(name: str) -> None:
    assert names.is_valid_name(name)


@gate("names.grammar")
@pytest.mark.parametrize(
    "name",
    [
        "", "math", ".math", "math.", "math..x", "Math.x", "math.X", "1math.x", "math.1x", "math-x.y", "math. x",
        "math.x\n", "math.é", "math._x", "_math.x", "m." + "x" * 95,
    ],
)  # fmt: skip
def test_anything_else_is_no_name(name: str) -> None:
    assert not names.is_valid_name(name)


@pytest.mark.parametrize(
    ("server_id", "valid"),
    [("acme", True), ("a_1", True), ("x" * 48, True), ("x" * 49, False), ("", False), ("A", False), ("a.b", False),
     ("a-b", False), ("1a", False), ("acme\n", False)],
)  # fmt: skip
def test_a_server_id_is_one_segment(server_id: str, valid: bool) -> None:
    assert names.is_valid_server_id(server_id) is valid


@gate("names.domains")
def test_the_partition_of_domains_is_that_of_the_specification() -> None:
    builtin = """system math workspace sandbox artifact demo delegate conversation context tool skill memory schedule
        knowledge web browser email people image video"""
    assert set(builtin.split()) == names.BUILTIN_DOMAINS
    assert names.RESERVED_DOMAINS == {"mcp": ToolSource.MCP, "device": ToolSource.DEVICE}
    assert not names.BUILTIN_DOMAINS & names.RESERVED_DOMAINS.keys()
    assert {"conversation", "context", "tool"} == names.CONTROL_DOMAINS
    assert {names.domain_of(tool) for tool in names.CONTROL_TOOLS} <= names.BUILTIN_DOMAINS


_LONG = "create_ticket_" * 5


@gate("names.normalization")
@pytest.mark.parametrize(
    ("remote", "normalized"),
    [
        ("get_item", "get_item"),
        ("Get Item", "get_item"),
        ("get-item", "get_item"),
        ("  get--item!! ", "get_item"),
        ("getItem", "getitem"),
        ("search.issues/v2", "search_issues_v2"),
        ("2fast", "t_2fast"),
        ("", "t_"),
        ("!!!", "t_"),
        ("_", "t_"),
        ("日本語", "t_"),
        ("Caf\u00e9", "caf"),
        ("Cafe\u0301", "caf"),
        ("x" * 48, "x" * 48),
        ("x" * 49, "x" * 40 + "_" + hashlib.sha256(b"x" * 49).hexdigest()[:7]),
        ("2" + "x" * 46, "t_2" + "x" * 37 + "_" + hashlib.sha256(b"2" + b"x" * 46).hexdigest()[:7]),
        (_LONG, _LONG[:40] + "_" + hashlib.sha256(_LONG.encode()).hexdigest()[:7]),
        ("a\ud800b", "a_b"),
    ],
)
def test_a_remote_name_has_one_normalized_form(remote: str, normalized: str) -> None:
    assert names.normalize_remote_name(remote) == normalized


def test_long_names_that_share_a_beginning_stay_apart() -> None:
    first, second = ("long_" * 12 + ending for ending in "ab")
    assert names.normalize_remote_name(first) != names.normalize_remote_name(second)


def test_an_mcp_tool_is_named_after_its_server() -> None:
    assert names.mcp_tool_name("acme", "Create Ticket") == "mcp.acme.create_ticket"
