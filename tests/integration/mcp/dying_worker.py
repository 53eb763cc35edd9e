"""`manage.py worker` as it stands, that kills itself with SIGKILL at a named moment of a login's renewal.

`python -m tests.integration.mcp.dying_worker MOMENT`: before or after a step of the ladder, or at a point of the
store. The moment `never` leaves the killing to whoever started it.
"""

import os
import signal
import sys
from typing import Any, Final

STEPS: Final = {
    "refused": ("begin_reauthentication", "before"), "begun": ("begin_reauthentication", "after"),
    "before_exchange": ("renew", "before"), "after_exchange": ("renew", "after"),
    "renewed": ("record_reauthentication", "before"), "recorded": ("record_reauthentication", "after"),
}  # fmt: skip


def kill() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def dying(owner: Any, name: str, moment: str) -> None:
    """Let the process die before or after a step of it."""
    real = getattr(owner, name)

    def told(*arguments: Any, **named: Any) -> Any:
        if moment == "before":
            kill()
        real(*arguments, **named)
        kill()

    async def awaited(*arguments: Any, **named: Any) -> Any:
        if moment == "before":
            kill()
        await real(*arguments, **named)
        kill()

    setattr(owner, name, awaited if name == "renew" else told)


def main(moment: str) -> None:
    import django

    django.setup()
    from config import wiring
    from config.management.commands.worker import Command as Worker
    from mcpcatalog import services
    from mcpcatalog.sdk.tokens import ClientCredentials
    from tests.races.moments import At

    if moment in STEPS:
        name, when = STEPS[moment]
        dying(ClientCredentials if name == "renew" else services, name, when)
    else:
        wiring.probe = lambda: At(moment, kill)
    Worker().handle()


if __name__ == "__main__":
    main(sys.argv[1])
