"""A pin is put together out of parts, and no part is taken for another one's."""

from tests.spec.requirements import gate
from tests.unit.specs import spec
from toolsys.domain.canonical import canonical_bytes, sha256_hex
from toolsys.domain.spec import IdempotencyClass, RiskLevel, SideEffectClass, ToolKind, ToolSource, ToolSpec
from toolsys.domain.trust import TrustLevel
from toolsys.pins import PinWriter, identity, pin_of


def remote(name: str, **changes: object) -> ToolSpec:
    declared = {"name": f"mcp.acme.{name}", "source": ToolSource.MCP, "server_id": "acme", "target_kind": "mcp"}
    return spec(**{**declared, **changes})


@gate("registry.pinned")
def test_the_hash_of_a_pin_is_that_of_its_canonical_form_however_often_it_was_written() -> None:
    tools = [
        remote("b", description="cafe\u0301 \u212b \U0001f600", input_schema={"type": "object", "maxProperties": 2.0}),
        remote("a_b", description='"\\\u0301'), remote("a"), spec(name="math.z"), spec(name="math.a"),
    ]  # fmt: skip
    writer = PinWriter()
    for found in (writer.pin(tools), writer.pin(tools[::-1]), pin_of(tools)):
        assert found.sha256 == sha256_hex(canonical_bytes(found.tools))
        assert list(found.tools) == sorted(tool.name for tool in tools)
        assert {name: ToolSpec.model_validate(stored) for name, stored in found.tools.items()} == {
            tool.name: tool for tool in tools
        }


@gate("registry.pinned")
def test_another_tenants_spelling_of_a_declaration_is_not_pinned_for_this_one() -> None:
    """Both have one canonical form, and so one version; a model that answers in one would not match the other."""
    theirs, ours = (
        remote("a", description=word, input_schema={"type": "object", "properties": {"p": {"enum": [word]}}})
        for word in ("cafe\u0301", "caf\u00e9")
    )
    writer = PinWriter()
    found = [writer.pin([spec]) for spec in (theirs, ours)]
    assert [pin.tools for pin in found] == [pin_of([theirs]).tools, pin_of([ours]).tools]
    assert found[0].sha256 == found[1].sha256


@gate("registry.pinned")
def test_a_kept_part_is_only_that_of_the_same_spec() -> None:
    """Each field but those that the version speaks for: what a server declared."""
    declared = {"version", "description", "input_schema", "output_schema"}
    first, writer = remote("a"), PinWriter()
    writer.pin([first])
    changes: dict[str, object] = {
        "version": "2", "risk": RiskLevel.HIGH, "side_effect": SideEffectClass.EXTERNAL_WRITE,
        "idempotency": IdempotencyClass.NON_IDEMPOTENT,
        "required_scopes": frozenset({"mcp.acme.x"}), "timeout_seconds": 77, "maximum_output_bytes": 77,
        "allow_parallel": not first.allow_parallel, "kind": ToolKind.CONTROL, "target_kind": "in_process",
        "output_trust": TrustLevel.PLATFORM, "server_id": "other", "device_id": "d", "deprecated": True,
        "model_visible": False,
        "passes_idempotency_key": not first.passes_idempotency_key, "name": "mcp.acme.c", "source": ToolSource.DEVICE,
    }  # fmt: skip
    assert changes.keys() | declared == set(ToolSpec.model_fields)
    for name, value in changes.items():
        other = first.model_copy(update={name: value})
        assert identity(other) != identity(first), name
        assert writer.pin([other]).tools == pin_of([other]).tools, name
