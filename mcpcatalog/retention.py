"""Forgets what MCP servers made us keep: a chore of the scheduler, in bounded batches.

What any session pinned is evidence and stays; what goes is what was only ever listed. Source: decision record 21.
"""

from toolsys import database, forgetting


def forget_catalogs(retention_days: float) -> int:
    """Delete old changes with the generations that no session pinned, withdrawn skills, and what dead workers left.

    Return how many changes and skills went. Transaction: one for each batch.
    """
    # No worker has this name: it only clears away those that have been dead for an hour.
    database.call("SELECT mcpcatalog_release_worker(%s)", ("",))
    functions = ("mcpcatalog_forget_changes", "toolsys_forget_skills")
    return sum(forgetting.in_batches(function, retention_days) for function in functions)
