"""Where an edge of toolsys finds what the house was composed of: `settings.TOOLSYS_COMPOSITION` names a function.

`config.wiring` builds it once a process; toolsys never imports config. Used by views and commands only.
"""

from dataclasses import dataclass
from functools import cache

from django.conf import settings
from django.utils.module_loading import import_string

from toolsys.ports import Runtime
from toolsys.registry import Registry


@dataclass(frozen=True, slots=True)
class Composition:
    runtime: Runtime
    registry: Registry


@cache
def composed() -> Composition:
    built: Composition = import_string(settings.TOOLSYS_COMPOSITION)()
    return built
