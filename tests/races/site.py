"""The web process's WSGI application, with the race tools: `granian --interface wsgi tests.races.site:application`.

Granian serves it in a child of the process that we start, which nobody else ends when that one is killed.
"""

import os
import signal

from config.supervisor import dies_with_parent
from config.wsgi import application
from tests.races.actor import install

__all__ = ["application"]

if (bind := dies_with_parent(signal.SIGKILL, os.getppid())) is not None:
    bind()
install()
