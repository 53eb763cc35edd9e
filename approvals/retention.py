"""Forgets old messages of the outbox, with their attempts: a chore of the scheduler, in bounded batches.

Only what was delivered or given up goes; what waits for an endpoint that is off waits on. Source: DESIGN §5.
"""

from typing import Final

from toolsys import database

BATCH: Final = 500
BATCHES_A_PASS: Final = 20


def forget_deliveries(retention_days: float) -> int:
    """Delete what has been over for so long, at least a day; return how many messages went.

    Transaction: one for each batch; who dies in between has deleted whole batches.
    """
    total = 0
    for _ in range(BATCHES_A_PASS):
        found = int(database.call("SELECT approvals_forget_deliveries(%s, %s)", (retention_days * 86_400, BATCH))[0][0])
        total += found
        if found < BATCH:
            break
    return total
