"""The one map from what the SDK and the wire report to our own failures.

Every way out of the SDK passes here; a test walks the SDK's exception classes against `SDK_ERRORS`. The record of the
call is asked first, because the SDK throws status and network cause away. No code of the range -32000 to -32019 is
believed: a server may send any of them. Only `mcpcatalog.sdk` imports it.
"""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Final

from mcp import MCPError, UrlElicitationRequiredError
from mcp.client.extension import UnexpectedClaimedResult
from mcp.client.streamable_http import ResumptionError, StreamableHTTPError
from mcp.client.subscriptions import ListenNotSupportedError, SubscriptionLost
from mcp_types import CONNECTION_CLOSED, INVALID_PARAMS, METHOD_NOT_FOUND, PARSE_ERROR, REQUEST_TIMEOUT
from pydantic import ValidationError

from mcpcatalog import remote
from mcpcatalog.sdk.record import CallRecord
from toolsys.egress import EgressError, EgressRefused, retry_after_seconds

URL_ELICITATION_REQUIRED: Final = -32042
MISSING_CLIENT_CAPABILITY: Final = -32021
_REFUSED_BEFORE_RUNNING: Final = frozenset({METHOD_NOT_FOUND, INVALID_PARAMS})

# Where no better cause is known, what a class of the SDK means. A subclass counts as its nearest parent here.
SDK_ERRORS: Final[dict[type[BaseException], type[remote.RemoteError]]] = {
    UrlElicitationRequiredError: remote.AuthUnsupported,
    MCPError: remote.UpstreamError,
    UnexpectedClaimedResult: remote.InputRequired,
    ListenNotSupportedError: remote.ProtocolViolation,
    SubscriptionLost: remote.ServerUnreachable,
    ResumptionError: remote.ServerUnreachable,
    StreamableHTTPError: remote.ServerUnreachable,
    ValidationError: remote.ProtocolViolation,
    EgressError: remote.ServerUnreachable,
    TimeoutError: remote.RequestTimeout,
    OSError: remote.ServerUnreachable,
    RuntimeError: remote.ProtocolViolation,
}


def of_connect(error: BaseException | None, record: CallRecord, scheme: remote.AuthScheme) -> remote.RemoteError:
    """Explain a handshake that failed; None is a deadline. Nothing of any call was sent."""
    found = next((leaf for leaf in leaves(error) if isinstance(leaf, remote.RemoteError)), None)
    mapped = found or record.refusal or _of_failure(record) or _of_connect_status(record, scheme)
    if mapped is None:
        mapped = next((_of_leaf(leaf, record) for leaf in leaves(error)), remote.RequestTimeout())
    if isinstance(mapped, remote.RequestTimeout):
        mapped = remote.ServerUnreachable("the handshake did not finish in time")
    if isinstance(mapped, remote.UpstreamError):
        mapped = remote.ProtocolViolation(mapped.detail)
    mapped.effect = "not_applied"
    return mapped


def of_call(error: BaseException, record: CallRecord) -> remote.RemoteError:
    """Explain a request that ended without a result on a connection that had worked."""
    if isinstance(error, remote.RemoteError):
        return error
    if record.refusal is not None:
        return record.refusal
    mapped = _of_failure(record) or _of_call_status(record) or _of_leaf(next(leaves(error)), record)
    return with_progress(mapped, record)


def with_progress(error: remote.RemoteError, record: CallRecord) -> remote.RemoteError:
    """Say how far the server said it was: for whoever has to find out what became of the call."""
    if record.progress:
        error.detail += f" (progress was {record.progress})"
        error.args = (f"{error.args[0]} (progress was {record.progress})",)
    return error


def leaves(error: BaseException | None) -> Iterator[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        for inner in error.exceptions:
            yield from leaves(inner)
    elif error is not None:
        yield error


def _of_failure(record: CallRecord) -> remote.RemoteError | None:
    failure = record.failure
    if failure is None:
        return None
    effect: remote.Effect = "unknown" if failure.was_sent or record.was_sent else "not_applied"
    if failure.reason == "too_large":
        return remote.ResponseTooLarge(str(failure), effect=effect)
    if isinstance(failure, EgressRefused):
        return remote.DestinationRefused(str(failure), effect=effect)
    if failure.reason == "proxy":
        return remote.NoWayOut(failure.detail, effect=effect)
    if failure.reason == "timeout":
        return remote.RequestTimeout(str(failure), effect=effect)
    return remote.ServerUnreachable(str(failure), effect=effect)


def _of_connect_status(record: CallRecord, scheme: remote.AuthScheme) -> remote.RemoteError | None:
    challenge = record.challenge.lower()
    if record.status == 401 and scheme is remote.AuthScheme.NONE and challenge.startswith("bearer"):
        return remote.AuthUnsupported("the server asks for a login that only a person can give")
    # Some servers answer 403 to a credential that they do not know.
    if record.status == 401 or (record.status == 403 and "insufficient_scope" not in challenge):
        return remote.AuthFailed(f"status {record.status}")
    return _of_call_status(record)


def _of_call_status(record: CallRecord) -> remote.RemoteError | None:
    detail = f"status {record.status}"
    if record.status == 401:
        expired = remote.AuthExpired(detail, effect="not_applied")
        expired.login = record.login
        return expired
    if record.status == 403:
        return remote.PermissionDenied(detail, effect="not_applied")
    if record.status == 429:
        return remote.RateLimited(detail, effect="not_applied", retry_after_seconds=_wait(record))
    return None


def _wait(record: CallRecord) -> float | None:
    return retry_after_seconds(record.retry_after, datetime.now(UTC))


def _of_leaf(error: BaseException, record: CallRecord) -> remote.RemoteError:
    if isinstance(error, MCPError):
        return _of_rpc(error, record)
    for known, ours in SDK_ERRORS.items():
        if isinstance(error, known):
            return ours(f"{type(error).__name__}: {str(error)[:300]}")
    return remote.RemoteError(type(error).__name__)


def _of_rpc(error: MCPError, record: CallRecord) -> remote.RemoteError:
    # What a server says of time and of connections is not believed.
    if error.code == REQUEST_TIMEOUT and not record.has_answer:
        return remote.RequestTimeout("no answer in time")
    if error.code == CONNECTION_CLOSED and not record.has_answer:
        return remote.ServerUnreachable("the connection ended")
    if error.code == PARSE_ERROR:
        return remote.ProtocolViolation(error.message[:300])
    if record.status == 404:
        return _of_missing(record)
    if error.code == URL_ELICITATION_REQUIRED:
        return remote.AuthUnsupported("the server asks for a login that only a person can give", effect="not_applied")
    if error.code == MISSING_CLIENT_CAPABILITY:
        return remote.InputRequired("the server requires a capability that is declined", effect="not_applied")
    if record.status is not None and record.status >= 500:
        return remote.ServerUnreachable(f"status {record.status}", retry_after_seconds=_wait(record))
    effect: remote.Effect = "not_applied" if error.code in _REFUSED_BEFORE_RUNNING else "unknown"
    return remote.UpstreamError(f"{error.code}: {error.message[:1_000]}", effect=effect)


def _of_missing(record: CallRecord) -> remote.RemoteError:
    """Explain a 404: of a session it means that the server forgot it and ran nothing in it; sending again is not ours
    to do. Without one it means that there is no such method, and while connecting that no MCP server is there.
    """
    if record.has_session:
        return remote.ServerUnreachable("the server forgot the session", effect="not_applied")
    if record.is_connecting:
        return remote.ServerUnreachable("there is no MCP server at this address")
    return remote.UpstreamError("the server knows no such method", effect="not_applied")
