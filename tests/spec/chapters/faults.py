"""The reported faults of other systems, each with its right value here."""

from typing import Final

from tests.spec.requirement import Requirement

ROWS: Final = (
    Requirement("faults.b01", "reported fault B01", "A reference that leads nowhere costs its tool alone."),
    Requirement("faults.b03", "reported fault B03", "A root that is no object schema is refused with that reason."),
    Requirement("faults.b06", "reported fault B06", "Patterns are those of one named engine; others cost one tool."),
    Requirement("faults.b08", "reported fault B08", "A schema that holds itself is never expanded, nor recursed into."),
    Requirement("faults.b10", "reported fault B10", "No pattern and no value pins a core."),
    Requirement("faults.b11", "reported fault B11", "A remote name is kept as it came; ours is derived."),
    Requirement("faults.b13", "reported fault B13", "Odd names are stable, and those that become equal are dropped."),
    Requirement("faults.b15", "reported fault B15", "An error result is not judged by the schema of answers."),
    Requirement("faults.b18", "reported fault B18", "A result is never shown as empty text."),
    Requirement("faults.b19", "reported fault B19", "Binary content is an artifact and never cut as text."),
    Requirement("faults.b21", "reported fault B21", "No character stops a result from being kept."),
    Requirement(
        "faults.b23",
        "reported fault B23",
        "A lost session is opened once more by each attempt that the call's class has.",
    ),
    Requirement("faults.b25", "reported fault B25", "A stream that closes without an answer is noticed at once."),
    Requirement(
        "faults.b27",
        "reported fault B27",
        "An empty cursor is followed once, and no list is endless.",
    ),
    Requirement("faults.b29", "reported fault B29", "Stray messages are ignored, and too many of them end the call."),
    Requirement("faults.b31", "reported fault B31", "An event stream means the same however it is cut and ended."),
    Requirement("faults.b33", "reported fault B33", "A write whose answer was lost is sent once."),
    Requirement("faults.b41", "reported fault B41", "Children of servers, and theirs, do not pile up."),
    Requirement("faults.b43", "reported fault B43", "Ordinary errors of a tool bar no other call."),
    Requirement("faults.b45", "reported fault B45", "A full pool is no unknown tool."),
    Requirement("faults.b50", "reported fault B50", "What another tenant has looks as if it did not exist."),
    Requirement("faults.b53", "reported fault B53", "Without a policy no server is registered or dialled."),
    Requirement(
        "faults.b55",
        "reported fault B55",
        "One exchange serves all that wait; a failed one keeps the login.",
    ),
    Requirement("faults.table", "issue 4", "Each of the 28 reported faults has a test that holds its right value."),
    Requirement("faults.b35", "reported fault B35", "What a killed worker had popped is found without the queue."),
    Requirement("faults.b37", "reported fault B37", "A worker is told of what is committed, and of nothing else."),
    Requirement("faults.b39", "reported fault B39", "An identity that a caller gives is visible, plain and bounded."),
    Requirement("faults.b47", "reported fault B47", "What was approved is what is sent, or nothing is."),
    Requirement(
        "faults.b52", "reported fault B52", "Nothing serves under a role that row-level security does not bind."
    ),
)
