"""What everything stands on: tenants in the database, sealing, metrics, spans, deployment, the house's own rules."""

from typing import Final

from tests.spec.requirement import Requirement

ROWS: Final = (
    Requirement(
        "vault.write_only", "DESIGN §8", "A stored credential is written and erased, and read by the resolver only."
    ),
    Requirement("vault.revealed", "DESIGN §8", "A resolved secret is looked into in two places only."),
    Requirement("secrets.nowhere", "issue 4", "No secret reaches rows, logs, events, errors, results or argv."),
    Requirement(
        "secrets.builtin", "TS ToolExecutionContext", "What a tool resolved is in nothing that it returns or writes."
    ),
    Requirement("metrics.processes", "issue 4", "All processes of one machine are one answer; the dead hold nothing."),
    Requirement("metrics.access", "DESIGN §9", "Metrics are shown to who knows the token, or on this machine only."),
    Requirement("metrics.tools", "TS Spans and metrics", "Each call is counted once, under six names, as it ended."),
    Requirement("metrics.strays", "reported fault B29", "What a server says unasked is ignored and counted by kind."),
    Requirement("spans.tree", "TS Spans and metrics", "The passes of a call are one trace of the spans that TS names."),
    Requirement("metrics.labels", "TS Spans and metrics", "Labels are few and name no tenant, session or secret."),
    Requirement("vault.rotation", "DESIGN §8", "Two versions live while a rotation is under way; the newest counts."),
    Requirement("vault.epoch", "DESIGN §5", "A changed credential voids what was decided with the old one."),
    Requirement("sealing.bound", "DESIGN §8", "Sealed bytes open only where they belong, under any key of the ring."),
    Requirement("rls.forced", "DESIGN §9", "Row-level security is enabled and forced on every tenant-owned table."),
    Requirement("rls.isolates", "DESIGN §9", "A tenant reads and writes no row of another; without a tenant, none."),
    Requirement("rls.roles", "DESIGN §9", "The application's role is neither owner, superuser nor BYPASSRLS."),
    Requirement("rls.composite", "DESIGN §9", "Foreign keys between tenant-owned tables carry the tenant."),
    Requirement(
        "tenancy.claims", "DESIGN §9", "No tenant has more calls running than its cap; a freed place is taken."
    ),
    Requirement("rls.indexes", "DESIGN §9", "Indexes of tenant-owned tables begin with the tenant, sweeps aside."),
    Requirement("rls.definers", "DESIGN §9", "Definer functions: NOLOGIN owner, fixed path, no public execution."),
    Requirement("ledger.append_only", "DESIGN §11", "Append-only tables refuse changes, whoever asks."),
    Requirement("schema.additions", "TS Schema additions", "Columns, types and keys are those of the specification."),
    Requirement("schema.functions", "STYLE §3", "The SQL functions of the database are those of the source."),
    Requirement("roles.tenant", "DESIGN §2", "Organisations, their people and flag, by command."),
    Requirement("deploy.settings", "DESIGN §13", "The environment's reference has every setting, and only those."),
    Requirement("deploy.files", "DESIGN §13", "Compose, units and manifests agree with the code and with each other."),
    Requirement("deploy.played", "DESIGN §13", "The operations document, played as it is written."),
    Requirement("docs.links", "STYLE §7", "Every link of a Markdown file leads somewhere."),
    Requirement("house.direction", "STYLE §1", "Imports and foreign keys point down only, without a cycle."),
    Requirement("house.light_web", "STYLE §1", "Importing the web process never imports the MCP SDK."),
    Requirement("house.files", "STYLE §2", "Files keep their size, their names and their first words."),
    Requirement("roles.platform", "DESIGN §2", "Roles of the platform are given and taken by operators only."),
)
