"""What a tool may reach while it runs: exactly TS's `ToolExecutionContext`, and the small ports on it.

There is no database session, registry, policy or way to another tool on it; their absence is the design.
Source: TS "ToolExecutionContext, and what a tool is allowed to reach".
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol
from uuid import UUID

from toolsys.domain import scrubbing
from toolsys.domain.results import ArtifactRef


@dataclass(frozen=True, slots=True)
class Principal:
    """Who acts. `scopes` are already intersected with those of the API key that proposed."""

    id: UUID
    external_id: str
    scopes: frozenset[str]


@dataclass(frozen=True, slots=True)
class ExecutionTarget:
    kind: str
    server_id: str | None = None


@dataclass(frozen=True, slots=True)
class WorkspaceFile:
    """A part of a file: the bytes that were read from `offset` on, and how large the whole is."""

    data: bytes
    offset: int
    total_bytes: int


@dataclass(frozen=True, slots=True)
class WorkspaceEntry:
    """`kind` is file, directory or other; what is neither can be seen and not opened."""

    path: str
    kind: str
    size_bytes: int


class WorkspaceRefused(Exception):
    """The path or its target is not usable. `reason` is one of ours: not_found, path, kind, name_taken, full."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class WorkspaceHandle(Protocol):
    """The run's private folder; paths are relative and cannot leave it. All raise WorkspaceRefused."""

    def read_bytes(self, path: str, *, offset: int, limit: int) -> WorkspaceFile: ...

    def write_bytes(self, path: str, data: bytes) -> bool:
        """Replace the file as a whole, or make it; return whether it is new."""

    def list_entries(self, path: str, *, depth: int, limit: int) -> tuple[list[WorkspaceEntry], bool]:
        """Return entries in order, and whether there are more than `limit`."""


class ArtifactWriter(Protocol):
    """Creates artifacts of this invocation; it cannot read any."""

    async def write(self, data: bytes, media_type: str) -> ArtifactRef: ...


class SecretValue:
    """A resolved credential. It prints as stars; `reveal` is called in two places only (DESIGN §8)."""

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def reveal(self) -> str:
        return self._value

    def taken_out_of[T: (str, bytes)](self, data: T) -> T:
        """Return a text, or the bytes of one, without this value."""
        return scrubbing.without(data, self._value)

    def __repr__(self) -> str:
        return "SecretValue(***)"

    __str__ = __repr__


class CredentialResolver(Protocol):
    async def resolve(self, credential_ref: str) -> SecretValue: ...


class CancellationToken(Protocol):
    @property
    def is_cancelled(self) -> bool: ...


@dataclass(frozen=True, slots=True)
class ToolExecutionContext:
    invocation_id: UUID
    call_id: str
    run_id: UUID
    session_id: UUID
    tenant_id: str
    principal: Principal
    step_number: int
    attempt_number: int
    idempotency_key: str
    deadline_at: datetime
    timeout_seconds: float
    maximum_output_bytes: int
    target: ExecutionTarget
    workspace: WorkspaceHandle | None
    artifacts: ArtifactWriter
    credentials: CredentialResolver
    cancellation: CancellationToken
    mark_effect_sent: Callable[[], Awaitable[None]]
