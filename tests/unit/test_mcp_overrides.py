"""What one tool counts as: the server's classification, the operators' word on the tool, tightened by the tenant's."""

from dataclasses import replace

import pytest

from mcpcatalog import mapping
from mcpcatalog.remote import Override, RemoteTool, ServerConfig, Transport
from tests.spec.requirements import gate
from toolsys.domain.spec import STRICTEST, Classification, IdempotencyClass, RiskLevel, SideEffectClass

READ = Classification(
    side_effect=SideEffectClass.EXTERNAL_READ, risk=RiskLevel.LOW, idempotency=IdempotencyClass.READ_ONLY
)
SERVER = ServerConfig("acme", "crm", Transport.HTTP, "https://mcp.example/mcp")
MILD = Override(
    is_operators=True, side_effect=READ.side_effect, risk=READ.risk, idempotency=READ.idempotency,
    declaration_hash="seen",
)  # fmt: skip
STRICT = Override(is_operators=True, side_effect=SideEffectClass.EXTERNAL_WRITE, declaration_hash="another")
TENANTS = Override(is_operators=False, risk=RiskLevel.HIGH)
MILD_OF_TENANT = Override(is_operators=False, side_effect=SideEffectClass.NONE, risk=RiskLevel.LOW)


@gate("mcp.overrides")
@pytest.mark.parametrize(
    ("base", "overrides", "expected"),
    [
        (STRICTEST, (), STRICTEST),
        (STRICTEST, (MILD,), READ),
        (STRICTEST, (replace(MILD, declaration_hash="before the tool changed"),), STRICTEST),
        (STRICTEST, (TENANTS, MILD), READ.model_copy(update={"risk": RiskLevel.HIGH})),
        (STRICTEST, (MILD, TENANTS), READ.model_copy(update={"risk": RiskLevel.HIGH})),
        (STRICTEST, (MILD_OF_TENANT,), STRICTEST),
        (READ, (STRICT,), READ.model_copy(update={"side_effect": SideEffectClass.EXTERNAL_WRITE})),
        (READ, (MILD_OF_TENANT,), READ),
    ],
)
def test_what_a_tool_counts_as(base: Classification, overrides: tuple[Override, ...], expected: Classification) -> None:
    server = replace(SERVER, classification=base, overrides={"read": overrides})
    assert mapping.classification_of(server, "read", "seen") == expected
    assert mapping.classification_of(server, "write", "seen") == base


@gate("mcp.overrides")
def test_an_override_reaches_the_spec_of_its_tool_only_and_only_while_its_declaration_stands() -> None:
    tool = RemoteTool("read", "d", {"type": "object"})
    mild = replace(MILD, declaration_hash=mapping.declaration_hash(tool))
    server = replace(SERVER, overrides={"read": (mild,)})
    assert mapping.spec_of(server, tool, "v").classification == READ
    assert mapping.spec_of(server, replace(tool, description="and deletes"), "v").classification == STRICTEST
    assert mapping.spec_of(server, replace(tool, name="write"), "v").classification == STRICTEST
