"""Ends the process groups of a supervisor that vanished without stopping them (SIGKILL, out of memory).

A script of its own, standard library only, run with `python -I -S guardian.py <seconds between asking and killing>`;
nobody imports it. It reads `+group` and `-group` lines from its standard input, which the supervisor holds open; the
end of that input is the supervisor's death or its regular end. What is still listed then is asked to stop and, after
the bound, killed.
"""

import os
import signal
import sys
import time
from contextlib import suppress


def _send(group: int, number: int) -> bool:
    """Signal a group; tell whether anything of it is left."""
    try:
        os.killpg(group, number)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def main() -> None:
    """Follow the supervisor's list until its end, then clear what it left."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    groups: list[int] = []
    for line in sys.stdin:
        group = int(line[1:])
        if line.startswith("+"):
            groups.append(group)
        else:
            with suppress(ValueError):
                groups.remove(group)
    left = [group for group in groups if _send(group, signal.SIGTERM)]
    end = time.monotonic() + float(sys.argv[1])
    while left and time.monotonic() < end:
        time.sleep(0.05)
        left = [group for group in left if _send(group, 0)]
    for group in left:
        _send(group, signal.SIGKILL)


if __name__ == "__main__":
    main()
