"""Queue entry points: ids in, one service call, nothing out. Their paths are wire format and never renamed.

The worker hands each its `Runtime` first. Arriving twice, late or for nothing must change nothing.
"""

from uuid import UUID

from toolsys import services, wakeups
from toolsys.ports import Inspectable, Runtime


def advance_call(runtime: Runtime, tenant_id: str, invocation_id: str, claim_epoch: str) -> None:
    """The epoch only tells one ring from the next; what stands is read."""
    services.advance_step(tenant_id, runtime, invocation_id=UUID(invocation_id))


def advance_step(runtime: Runtime, tenant_id: str, step_id: str) -> None:
    services.advance_step(tenant_id, runtime, step_id=UUID(step_id))


def refresh_provider(runtime: Runtime, domain: str, tenant_id: str, key: str) -> None:
    """Let a provider look again at what one of its sources offers, and wake who waits for it."""
    try:
        runtime.providers[domain].refresh(tenant_id, key)
    finally:
        wakeups.wake(services.refresh_key(domain, tenant_id))


def inspect_source(runtime: Runtime, domain: str, tenant_id: str, key: str) -> None:
    """Let a provider look closely at one of its sources, because a person asked for it."""
    provider = runtime.providers[domain]
    if isinstance(provider, Inspectable):
        provider.inspect(tenant_id, key)
