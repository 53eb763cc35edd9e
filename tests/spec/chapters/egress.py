"""What leaves the machine, and `web.fetch`."""

from typing import Final

from tests.spec.requirement import Requirement

ROWS: Final = (
    Requirement("egress.destinations", "DESIGN §8", "A destination is on the exact allowlist and has one reading."),
    Requirement("egress.default_deny", "corpus B53", "Without an egress policy nothing is dialled, tests included."),
    Requirement("egress.addresses", "DESIGN §8", "An address that is not public is refused, however it is written."),
    Requirement("egress.pinned", "DESIGN §8", "The address that was checked is dialled; one bad answer refuses all."),
    Requirement("egress.redirects", "DESIGN §8", "No redirect is followed, not even to the same origin."),
    Requirement("egress.ambient", "DESIGN §8", "Proxies and passwords of the environment are not used."),
    Requirement(
        "egress.proxy", "DESIGN §8", "An operator's proxy is given checked addresses only, and its failure is no send."
    ),
    Requirement("egress.bounded", "DESIGN §8", "Head, framing, body and time are bounded; no answer is decoded."),
    Requirement("egress.once", "corpus B33", "A request whose answer was lost is never sent again by the transport."),
    Requirement("egress.counted", "issue 3", "Each exchange is counted once, by how it ended."),
    Requirement("web.declared", "TS Names", "web.fetch reads the network under the pinned target, with one GET."),
    Requirement("web.hosts", "issue 3", "web.fetch exists only where an operator lists hosts, and asks only those."),
    Requirement("web.text", "issue 3", "Text is returned as received in its charset; what is no text is refused."),
    Requirement("web.failures", "TS ToolFailureKind", "Each way of not getting a page has its kind and its reason."),
    Requirement("web.bounded", "TS Output", "What is read past the hard ceiling is kept and the call has failed."),
    Requirement("egress.allowlist", "DESIGN §8", "A tenant's servers are dialled where its allowlist says."),
)
