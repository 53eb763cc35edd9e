"""What one request saw on the wire, carried from the caller to the transport by a context variable.

The SDK throws HTTP status and network errors away, so the transport notes them here and the error map reads them.
Only `mcpcatalog.sdk` imports it.
"""

from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

from mcpcatalog.remote import RemoteError
from mcpcatalog.sdk.messages import Identifier
from toolsys.egress import EgressError

MAXIMUM_RESUMPTIONS = 3


@dataclass(slots=True)
class CallRecord:
    """`is_connecting` marks the handshake; `raw` is the last result before the SDK validated it;
    `refusal` says why there was nothing to log in with, or what is wrong with what came. `identifier` is the id of the
    request that is under way; `has_answer` says that the server itself answered it, `has_session` that it was told a
    session's id. `strays` counts answers to somebody else that came instead of it, or beside it. `login` says which of
    the connection's logins the request carried: the value itself is nowhere but in the login.
    """

    is_connecting: bool = False
    headers: dict[str, str] = field(default_factory=dict)
    raw: dict[str, Any] | None = None
    was_sent: bool = False
    status: int | None = None
    challenge: str = ""
    retry_after: str = ""
    failure: EgressError | None = None
    refusal: RemoteError | None = None
    resumptions: int = 0
    updates: int = 0
    progress: str = ""
    identifier: Identifier | None = None
    has_answer: bool = False
    has_session: bool = False
    strays: int = 0
    login: int = 0

    def begin_attempt(self) -> None:
        """Forget what an earlier message of the same handshake saw."""
        self.raw = self.status = self.failure = self.refusal = self.identifier = None
        self.has_answer = self.has_session = False
        self.challenge = self.retry_after = ""

    async def note_progress(self, progress: float, total: float | None, message: str | None) -> None:
        """Keep how far the server said it was. Its words are not kept, and it gets no more time."""
        self.updates += 1
        self.progress = f"{progress:g}" if total is None else f"{progress:g} of {total:g}"

    def note_answer(self, status: int, challenge: str, retry_after: str) -> None:
        self.status = status
        self.challenge = challenge
        self.retry_after = retry_after


CALL: ContextVar[CallRecord | None] = ContextVar("mcp_call", default=None)
