"""What an approval or a standing grant is bound to beside the arguments: the very tool, as it is now. Pure.

Any change of version, classification, server or credential gives another digest. Source: DESIGN §5.
"""

from toolsys.domain import canonical
from toolsys.domain.spec import Classification


def approval_digest(
    *, tenant: str, principal: str, run: str, tool: str, version: str, arguments_hash: str,
    classification: Classification, binding: str,
) -> str:  # fmt: skip
    """Bind an approval to everything that it was given for (DESIGN §5)."""
    bound = {
        "tenant": tenant, "principal": principal, "run": run, "tool": tool, "version": version,
        "arguments": arguments_hash, "classification": classification.model_dump(mode="json"), "binding": binding,
    }  # fmt: skip
    return canonical.sha256_hex(canonical.canonical_bytes(bound))


def tool_digest(name: str, version: str, classification: Classification, binding: str) -> str:
    """`binding` is what the tool says of its server and its credential (`ports.Tool`)."""
    bound = {
        "tool": name, "version": version, "classification": classification.model_dump(mode="json"),
        "binding": binding,
    }  # fmt: skip
    return canonical.sha256_hex(canonical.canonical_bytes(bound))
