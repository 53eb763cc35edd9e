"""Which tools a session may pin: the four filters of the specification, and where the deployment limits a tool to.

A tool that a limit names exists only in the environments and under the profiles that the limit lists; every limit that
names it must admit it. Pure. Source: TS "Resolution" (specs_for_session), DESIGN §2 "Environment", "Profile".
"""

from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase

from toolsys.domain.spec import ToolSpec


@dataclass(frozen=True, slots=True)
class Limit:
    """Where the tools of one glob may be offered; None is everywhere."""

    tools: str
    environments: frozenset[str] | None = None
    profiles: frozenset[str] | None = None

    def admits(self, name: str, *, profile: str, environment: str) -> bool:
        return not fnmatchcase(name, self.tools) or (
            (self.environments is None or environment in self.environments)
            and (self.profiles is None or profile in self.profiles)
        )


@dataclass(frozen=True, slots=True)
class Audience:
    """Whom a session is for: the agent's globs, the effective scopes, the profile and the environment."""

    enabled: tuple[str, ...]
    scopes: frozenset[str]
    profile: str = ""
    environment: str = ""

    def may_pin(self, spec: ToolSpec, limits: Iterable[Limit]) -> bool:
        return (
            any(fnmatchcase(spec.name, glob) for glob in self.enabled)
            and spec.required_scopes <= self.scopes
            and is_offered(spec.name, limits, profile=self.profile, environment=self.environment)
        )


def is_offered(name: str, limits: Iterable[Limit], *, profile: str, environment: str) -> bool:
    return all(limit.admits(name, profile=profile, environment=environment) for limit in limits)
