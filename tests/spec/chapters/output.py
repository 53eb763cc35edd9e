"""What a tool returns and where it is kept: excerpts, artifacts, workspaces, redaction."""

from typing import Final

from tests.spec.requirement import Requirement

ROWS: Final = (
    Requirement(
        "output.excerpt", "TS Output", "Large output is head and tail at character boundaries, within its budget."
    ),
    Requirement(
        "output.envelope", "TS Output", "An envelope is never split; it is closed and opened around the elision."
    ),
    Requirement("output.artifact", "TS Output", "Above the inline ceiling the whole result becomes an artifact first."),
    Requirement("output.ceiling", "TS Output", "Past four times its limit, output is cut and the call has failed."),
    Requirement(
        "output.measure", "TS Output", "What is shown fits its budget as JSON; what is captured is counted in UTF-8."
    ),
    Requirement("output.structured", "TS Output", "A structured value is bounded by the tool's limit of its own."),
    Requirement(
        "output.reader", "TS Output", "A tool that streams past its hard ceiling is cancelled; its partial is kept."
    ),
    Requirement("output.invalid", "TS step 11", "A result that does not fit its schema failed, and the tool has run."),
    Requirement(
        "output.performed", "TS step 11", "A write whose answer was too large has run, and invites no second one."
    ),
    Requirement("output.empty", "faults B18", "A result is never shown as empty text; no content says so."),
    Requirement("output.unkept", "TS Output", "Output that cannot be written or referred to fails; none is dropped."),
    Requirement("artifact.order", "DESIGN §10", "Bytes are written before their row, and the row before the result."),
    Requirement("artifact.own", "TS Context", "A result may refer to what its own attempt wrote and to nothing else."),
    Requirement("artifact.trust", "TS Output", "An artifact inherits the label of its result."),
    Requirement("artifact.bounded", "issue 3", "What a tool may write is bounded in size, sum and number."),
    Requirement(
        "artifact.served", "DESIGN §6", "Adopted artifacts are served to their tenant, inert, checked, with ranges."
    ),
    Requirement("artifact.retention", "issue 5", "A file goes a retention after the end of its run, where one is set."),
    Requirement("artifact.orphans", "DESIGN §10", "Orphans are collected by age; a crash leaves no row without bytes."),
    Requirement("workspace.beneath", "issue 3", "Nothing outside of a run's workspace is read, written or listed."),
    Requirement("workspace.bounded", "issue 3", "A workspace is bounded in bytes, entries, depth and names."),
    Requirement("workspace.whole", "issue 3", "A file is replaced as a whole and durably, or not at all."),
    Requirement("redaction.closed", "DESIGN §8", "Redaction fails closed, and what it returns can be stored."),
)
