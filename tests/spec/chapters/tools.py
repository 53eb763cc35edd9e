"""What a registered tool is: the hard gates, its types, its name, its schema, and who is offered it."""

from typing import Final

from tests.spec.requirement import Requirement

ROWS: Final = (
    Requirement("gate.1", "TS gate 1", "Every registered ToolSpec passes registration validation."),
    Requirement("gate.2", "TS gate 2", "No MCP, device or sandbox tool is trusted above external_untrusted."),
    Requirement(
        "gate.3", "TS gate 3", "A non-idempotent builtin sets the watermark before its first outbound operation."
    ),
    Requirement("gate.4", "TS gate 4", "An outcome serializes to exactly six fields, its message from the table."),
    Requirement("gate.5", "TS gate 5", "No external text appears in the message of any failure path."),
    Requirement("gate.6", "TS gate 6", "The import-boundary walk passes."),
    Requirement("gate.7", "TS gate 7", "A crash at each of the fourteen steps recovers as the table says."),
    Requirement("gate.8", "TS gate 8", "Two concurrent submissions of the same call produce one execution."),
    Requirement(
        "gate.9", "TS gate 9", "Canonical form and hash are invariant under key order and Unicode composition."
    ),
    Requirement("gate.10", "TS gate 10", "A builtin in a reserved domain is a startup error."),
    Requirement("gate.11", "TS gate 11", "An MCP call traverses the same fourteen steps as a builtin call."),
    Requirement("gate.12", "TS gate 12", "A server that disconnects mid-call yields unavailable; the run goes on."),
    Requirement("gate.13", "TS gate 13", "No module outside the adapter imports an MCP SDK type."),
    Requirement("gate.14", "TS gate 14", "Configuration validation rejects every invalid authentication row."),
    Requirement("gate.15", "TS gate 15", "The re-authentication ladder is bounded and routed through recovery."),
    Requirement("gate.16", "TS gate 16", "A stdio child receives a constructed environment."),
    Requirement(
        "result.shape", "TS ToolResult", "A tool result succeeded or carries a failure; it cannot state a status."
    ),
    Requirement("result.trust_lowers", "TS ToolResult", "A tool may lower the trust of its output and never raise it."),
    Requirement("context.fields", "TS ToolExecutionContext", "The context has exactly the specified fields."),
    Requirement(
        "spec.fields", "TS ToolSpec", "output_trust is required; an unclassified tool counts as the strictest."
    ),
    Requirement(
        "spec.stricter", "DESIGN §1", "Of snapshot and live classification the stricter counts, field by field."
    ),
    Requirement("states.total", "TS two result shapes", "Every outcome status maps to one terminal invocation status."),
    Requirement("reasons.complete", "STYLE §6", "Every reason code has one row, and codes are never renamed."),
    Requirement(
        "trust.lowest", "TS argument trust", "Origin trust is the lowest label; without labels it is untrusted."
    ),
    Requirement("names.grammar", "TS Names", "A name is lower-case dotted segments of at most 96 characters."),
    Requirement("names.domains", "TS Names", "Domains are partitioned; builtins cannot enter mcp or device."),
    Requirement(
        "names.normalization", "TS Names", "A remote name has one normalized form, whatever else is in the catalog."
    ),
    Requirement("names.conflict", "TS Names", "Two tools of a server that normalize alike are both dropped."),
    Requirement("registration.control", "TS ToolSpec", "Control tools are a closed set without effects, in process."),
    Requirement(
        "registration.targets", "TS Names", "Network targets of builtins are valid with one classification only."
    ),
    Requirement(
        "registration.ceiling", "TS Output", "A tool above the global output ceiling is refused, never clamped."
    ),
    Requirement("registration.scopes", "DESIGN §7", "An MCP tool may require only scopes of its own server."),
    Requirement(
        "registration.siblings", "DESIGN §7", "One bad tool never costs its siblings; each rejection says why."
    ),
    Requirement(
        "schemas.no_remote", "TS validation", "A remote reference is refused at registration and never fetched."
    ),
    Requirement("schemas.closing", "DESIGN §1", "Unknown arguments are refused unless the schema permits them."),
    Requirement("schemas.raised", "DESIGN §1", "Operators raise the caps on schemas for one server of one tenant."),
    Requirement("schemas.bounded", "DESIGN §3", "Schemas are bounded in size and depth, patterns in time."),
    Requirement(
        "registry.filters", "TS Resolution", "A session is offered what agent, scopes, profile and environment permit."
    ),
    Requirement(
        "registry.availability", "TS Advertisement", "What makes an advertised tool uncallable shows at call time."
    ),
    Requirement("registry.pinned", "TS Resolution", "A session resolves against exactly the set that it advertised."),
    Requirement("registry.shared_sets", "TS Resolution", "A set is stored once, under its hash, and never changed."),
    Requirement("registry.unknown", "DESIGN §1", "An unknown name counts as the strictest class and is denied."),
    Requirement(
        "registry.kept_offers", "TS Mapping", "What people say of a server shows in the next pin of every process."
    ),
)
