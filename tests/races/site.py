"""The web process's WSGI application, with the race tools: `granian --interface wsgi tests.races.site:application`."""

from config.wsgi import application
from tests.races.actor import install

__all__ = ["application"]

install()
