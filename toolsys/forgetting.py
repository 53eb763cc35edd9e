"""Forgets old calls and conversations of the MCP face: a chore of the scheduler, in bounded batches.

The ledger keeps the calls themselves; what goes is that a client's call was this step. Source: decision record 15.
"""

from typing import Final

from toolsys import database

BATCH: Final = 500
BATCHES_A_PASS: Final = 20


def forget_conversations(retention_days: float) -> int:
    """Delete calls whose outcome is so old, at least a day, then conversations that were silent as long and hold none.

    Return how many rows went. Transaction: one for each batch; who dies in between has deleted whole batches.
    """
    return _pass("toolsys_forget_calls", retention_days) + _pass("toolsys_forget_conversations", retention_days)


def _pass(function: str, retention_days: float) -> int:
    total = 0
    for _ in range(BATCHES_A_PASS):
        found = int(database.call(f"SELECT {function}(%s, %s)", (retention_days * 86_400, BATCH))[0][0])
        total += found
        if found < BATCH:
            break
    return total
