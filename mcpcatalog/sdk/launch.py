"""Run as a script between the worker and a stdio server: dies with the worker, drops core dumps, then becomes it.

`python -I -S launch.py PARENT_PID COMMAND [ARGUMENT ...]`. A preexec function would do the same after a fork inside a
threaded process, which may deadlock; `setpriv` is not on every machine. Imports the standard library only.
"""

import ctypes
import os
import resource
import signal
import sys

PR_SET_PDEATHSIG = 1


def main(parent: int, argv: list[str]) -> None:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent:  # the worker died before the line above took hold
            os.kill(os.getpid(), signal.SIGKILL)
    try:
        os.execvp(argv[0], argv)  # noqa: S606 - becoming the server is the purpose
    except OSError as error:
        sys.exit(f"cannot start {argv[0]}: {error.strerror}")


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])
