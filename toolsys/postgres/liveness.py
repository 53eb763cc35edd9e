"""Tells whether the server has ended an idle connection, without a round trip: asked before each use of one.

Else every thread that holds a connection learns of a restarted server by the failure of what it does next. Pure.
"""

import select
from typing import Any

import psycopg


def is_ended(connection: "psycopg.Connection[Any]") -> bool:
    """An idle connection has nothing to read, unless it was ended.

    What else a server may say unasked costs no more than a new connection.
    """
    if connection.closed:
        return True
    waiting = select.poll()
    waiting.register(connection.fileno(), select.POLLIN)
    return bool(waiting.poll(0))
