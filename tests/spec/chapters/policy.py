"""What is allowed: matrix, rules, switches, replays, and standing grants."""

from typing import Final

from tests.spec.requirement import Requirement

ROWS: Final = (
    Requirement("grants.use", "DESIGN §5", "A use of a grant is taken and recorded together with the intent."),
    Requirement("grants.last_use", "DESIGN §5", "Of calls at once one takes the last use of a grant."),
    Requirement("grants.bounds", "DESIGN §5", "A grant is for what it says, and what it says never changes."),
    Requirement("grants.four_eyes", "issue Approvals", "A grant takes two people, each of them entitled to it."),
    Requirement("grants.end", "DESIGN §3", "A grant that ends before the watermark lets nothing out."),
    Requirement("grants.unreadable", "DESIGN §3", "A grant that cannot be read leaves the call to people."),
    Requirement("policy.matrix", "DESIGN §5", "The matrix is total, and untrusted content never loosens a verdict."),
    Requirement("policy.golden", "issue Policy", "Every cell of the matrix is in one reviewed file."),
    Requirement("policy.rules", "DESIGN §5", "Block wins, equal rules have no order, loosening needs the profile."),
    Requirement("policy.conditions", "DESIGN §5", "Argument values match by pointer and operator, or cannot be told."),
    Requirement("policy.matchers", "DESIGN §5", "A rule matches what it lists; an unreadable one blocks."),
    Requirement(
        "policy.names", "issue 5 Policy", "What no tool or server can be called is refused where it is written."
    ),
    Requirement("policy.permissions", "GW Manifest", "Tools that a tenant or agent may not use are not in a run."),
    Requirement("policy.switches", "DESIGN §4", "Nothing passes the watermark after a switch has returned."),
    Requirement("policy.epoch", "DESIGN §4", "Whatever changes a verdict raises the authorization epoch."),
    Requirement("policy.explain", "issue Policy", "Of each of the fourteen steps: what it saw, and what decided."),
    Requirement("policy.replay", "issue Policy", "A draft over recorded calls says which verdicts change."),
    Requirement("policy.dry_run", "issue Policy", "A dry run foresees each call and writes nothing."),
)
