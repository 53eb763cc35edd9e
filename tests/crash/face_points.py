"""The crash points of the MCP face: each commit of `toolsys.conversations`, killed on both sides, one row each.

A row says what a client asks for when the web process dies, what the tables hold then, and what becomes of the same
message sent once more to another web process. `test_face` plays it; `test_points` holds it against the code.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

OLD, NEW = "2025-11-25", "2026-07-28"


class Request(StrEnum):
    """What the client sends while the process dies."""

    BEGIN = "begin"  # its first message
    PROPOSE = "propose"  # a write that people must approve
    COLLECT = "collect"  # the same call, whose outcome is there
    COLLECT_BY_KEY = "collect by key"  # the same, with an Idempotency-Key
    REFUSED = "refused"  # a call into a run that has failed
    RETURN = "return"  # a message after a silence that is longer than a task
    END = "end"  # DELETE, with a call that waits for people


class Then(StrEnum):
    """What the same message is, sent once more."""

    SAME = "same"  # goes on where the dead one stood: the same step, the same conversation, or done
    ANOTHER = "another"  # a new one: the client cannot know of the first
    REFUSED = "refused"  # as before, and nothing is left of it
    GONE = "gone"  # it was done: there is nothing left to do it to


@dataclass(frozen=True, slots=True)
class Left:
    """Counts of rows, as the dead process leaves them. `marked`: calls that are asked to end."""

    conversations: int = 1
    closed: int = 0
    runs: int = 1
    proposals: int = 0
    collected: int = 0
    steps: int = 0
    marked: int = 0


@dataclass(frozen=True, slots=True)
class FacePoint:
    moment: str
    request: Request
    left: Left
    then: Then
    eras: tuple[str, ...] = (OLD, NEW)


FACE_POINTS: Final = (
    FacePoint("before_conversation", Request.BEGIN, Left(conversations=0), Then.SAME),
    FacePoint("after_conversation", Request.BEGIN, Left(), Then.SAME, (NEW,)),
    FacePoint("after_conversation", Request.BEGIN, Left(), Then.ANOTHER, (OLD,)),
    FacePoint("before_number", Request.PROPOSE, Left(), Then.SAME),
    FacePoint("after_number", Request.PROPOSE, Left(proposals=1), Then.SAME),
    FacePoint("before_collect", Request.COLLECT, Left(proposals=1, steps=1), Then.SAME),
    FacePoint("after_collect", Request.COLLECT, Left(proposals=1, steps=1, collected=1), Then.SAME, (OLD,)),
    FacePoint("after_collect", Request.COLLECT, Left(proposals=1, steps=1, collected=1), Then.ANOTHER, (NEW,)),
    FacePoint("after_collect", Request.COLLECT_BY_KEY, Left(proposals=1, steps=1, collected=1), Then.SAME),
    FacePoint("before_forget", Request.REFUSED, Left(proposals=1), Then.REFUSED),
    FacePoint("after_forget", Request.REFUSED, Left(), Then.REFUSED),
    FacePoint("before_move", Request.RETURN, Left(runs=2), Then.SAME),
    FacePoint("after_move", Request.RETURN, Left(runs=2), Then.SAME),
    FacePoint("before_close", Request.END, Left(proposals=1, steps=1), Then.SAME, (OLD,)),
    FacePoint("after_close", Request.END, Left(closed=1, proposals=1, steps=1, marked=1), Then.GONE, (OLD,)),
)
