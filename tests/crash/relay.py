"""A worker's child, as a stdio server is one: it takes one request on its standard input and carries it to the world.

It reports each moment of the connection, and outlives a worker that is killed alone: then it still sends what it was
handed. A worker that dies before it hands anything over leaves nothing behind. Run as `python -S -m tests.crash.relay`.
"""

import json
import socket
import sys
from pathlib import Path

from tests.crash.gates import OneShotProbe

ANSWER_SECONDS = 90.0


def main() -> None:
    """Carry one line there and its answer back."""
    line = sys.stdin.readline()
    if not line.endswith("\n"):
        return
    order = json.loads(line)
    probe, tenant = OneShotProbe(Path(order["gates"])), order["tenant"]
    request = (json.dumps(order["request"]) + "\n").encode()
    probe.reached("before_connect", tenant)
    with socket.create_connection(("127.0.0.1", order["port"]), timeout=ANSWER_SECONDS) as world:
        probe.reached("after_connect", tenant)
        world.sendall(request[:1])
        probe.reached("after_first_byte", tenant)
        world.sendall(request[1:])
        probe.reached("after_last_byte", tenant)
        try:
            answer = world.makefile("rb").readline()
        except OSError:
            answer = b""
    try:
        sys.stdout.write(answer.decode() or "\n")
        sys.stdout.flush()
    except BrokenPipeError:
        # The worker is gone: nobody is left to tell.
        sys.stderr.close()


if __name__ == "__main__":
    main()
