"""Forgets old messages of the outbox, with their attempts: a chore of the scheduler, in bounded batches.

Only what was delivered or given up goes; what waits for an endpoint that is off waits on. Source: DESIGN §5.
"""

from toolsys import forgetting


def forget_deliveries(retention_days: float) -> int:
    """Delete what has been over for so long, at least a day; return how many messages went.

    Transaction: one for each batch; who dies in between has deleted whole batches.
    """
    return forgetting.in_batches("approvals_forget_deliveries", retention_days)
