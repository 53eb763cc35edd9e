"""A process of the product with the race tools: `python -m tests.races.actor worker|scheduler`.

It runs `manage.py worker` and `manage.py scheduler` as they stand. From outside it wraps two public names, so that a
test can see a job begin and end, and hold the sweeper between its question and its rings.
"""

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

EFFECTS: Final = "RACES_EFFECTS"
JOBS: Final = "RACES_JOBS"


def install() -> None:
    """Add the tools to what this process composes. Called before anything is composed."""
    from config import wiring
    from tests.races.tools import World, race_tools

    builtins = wiring.builtins

    def with_race_tools(clock: Any) -> Any:
        return [*builtins(clock), *race_tools(World(Path(os.environ[EFFECTS])), wiring.probe())]

    wiring.builtins = with_race_tools


def _around(owner: Any, name: str, before: Callable[[Any], None], after: Callable[[Any], None]) -> None:
    real = getattr(owner, name)

    def wrapped(*arguments: Any, **named: Any) -> Any:
        before(arguments)
        try:
            return real(*arguments, **named)
        finally:
            after(arguments)

    setattr(owner, name, wrapped)


def _tell(state: str, call: str) -> None:
    line = json.dumps({"pid": os.getpid(), "call": call, "state": state}) + "\n"
    file = os.open(os.environ[JOBS], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.write(file, line.encode())
    os.close(file)


def main(part: str) -> None:
    import django

    django.setup()
    from config import wiring
    from toolsys import jobs, queue
    from toolsys.execution import WorkerExecution

    install()
    probe = wiring.probe()
    if part == "worker":
        from config.management.commands.worker import Command as Worker

        def begins(arguments: Any) -> None:
            _tell("popped", arguments[2])
            probe.reached("before_job", "")

        _around(WorkerExecution, "drain", lambda _arguments: None, lambda _arguments: _tell("draining", ""))
        _around(jobs, "advance_call", begins, lambda arguments: _tell("done", arguments[2]))
        Worker().handle()
    else:
        from config.management.commands.scheduler import Command as Scheduler

        def sweeps(arguments: Any) -> None:
            if arguments[0]:
                probe.reached("before_sweep_ring", "")

        _around(queue, "ring_all", sweeps, lambda _arguments: None)
        Scheduler().handle()


if __name__ == "__main__":
    main(sys.argv[1])
