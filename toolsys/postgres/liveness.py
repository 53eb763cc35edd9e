"""Tells whether the server has ended an idle connection, without a round trip: asked before each use of one.

Else every thread that holds a connection learns of a restarted server by the failure of what it does next. Pure.
"""

import select
from typing import Any, Final

import psycopg

# An attribute of the connection, with which it ends.
_ATTRIBUTE: Final = "toolsys_waiting"


def is_ended(connection: "psycopg.Connection[Any]") -> bool:
    """An idle connection has nothing to read, unless it was ended.

    What else a server may say unasked costs no more than a new connection.
    """
    if connection.closed:
        return True
    waiting: select.poll | None = vars(connection).get(_ATTRIBUTE)
    if waiting is None:
        waiting = vars(connection)[_ATTRIBUTE] = select.poll()
        waiting.register(connection.fileno(), select.POLLIN)
    return bool(waiting.poll(0))
