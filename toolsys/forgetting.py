"""Ends and forgets what is old, in bounded batches, as chores of the scheduler do; here, runs and the MCP face.

The ledger keeps runs and calls themselves; what goes is that a client's call was this step. Source: decision record 15.
"""

from collections.abc import Sequence
from typing import Final

from toolsys import database

BATCH: Final = 500
BATCHES_A_PASS: Final = 20


def expire_runs() -> int:
    """Let the status of runs that nobody ended say that their deadline has passed, once no call of them is open.

    Return how many. Transaction: one for each batch.
    """
    return _in_batches("SELECT toolsys_expire_runs(%s)", (BATCH,))


def forget_conversations(retention_days: float) -> int:
    """Delete calls whose outcome is so old, at least a day, then conversations that were silent as long and hold none.

    Return how many rows went. Transaction: one for each batch; who dies in between has deleted whole batches.
    """
    functions = ("toolsys_forget_calls", "toolsys_forget_conversations")
    return sum(in_batches(function, retention_days) for function in functions)


def in_batches(function: str, retention_days: float) -> int:
    """Call a function of (seconds, limit) until it finds no full batch, but not for ever; return how many rows went."""
    return _in_batches(f"SELECT {function}(%s, %s)", (retention_days * 86_400, BATCH))


def _in_batches(statement: str, parameters: Sequence[float]) -> int:
    total = 0
    for _ in range(BATCHES_A_PASS):
        found = int(database.call(statement, parameters)[0][0])
        total += found
        if found < BATCH:
            break
    return total
