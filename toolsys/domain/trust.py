"""Trust labels: who may be believed, from the platform itself down to text from outside.

A component may only lower trust. `origin_trust` answers "was untrusted content in the room": the lowest
label over the context of the model request. Source: TS "Where argument trust comes from", DESIGN §2.
"""

from collections.abc import Iterable

from toolsys.domain.ordered import Ordered, strictest


class TrustLevel(Ordered):
    PLATFORM = "platform"
    TRUSTED_CONFIGURATION = "trusted_configuration"
    USER = "user"
    INTERNAL_TOOL = "internal_tool"
    EXTERNAL_UNTRUSTED = "external_untrusted"


def lowest(labels: Iterable[TrustLevel], default: TrustLevel = TrustLevel.EXTERNAL_UNTRUSTED) -> TrustLevel:
    """Return the least trusted label; with none given, `default` (which fails closed)."""
    return strictest(list(labels), default)


def lowered(declared: TrustLevel, claimed: TrustLevel | None) -> TrustLevel:
    """Clamp what a component says of itself: it may lower the declared trust and never raise it."""
    return declared if claimed is None else declared.stricter(claimed)
