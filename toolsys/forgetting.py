"""Forgets what is old, in bounded batches, as chores of the scheduler do; here, of the MCP face.

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
    functions = ("toolsys_forget_calls", "toolsys_forget_conversations")
    return sum(in_batches(function, retention_days) for function in functions)


def in_batches(function: str, retention_days: float) -> int:
    """Call a function of (seconds, limit) until it finds no full batch, but not for ever; return how many rows went."""
    total = 0
    for _ in range(BATCHES_A_PASS):
        found = int(database.call(f"SELECT {function}(%s, %s)", (retention_days * 86_400, BATCH))[0][0])
        total += found
        if found < BATCH:
            break
    return total
