"""The registry: builtin tools from the build, everything else from providers, each session through its pin.

A session resolves against exactly the set that it advertised; what changed since is judged live by the provider.
Pins are immutable, so they are kept by their hash. Source: TS "Resolution", "Advertisement is pinned".
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Final
from uuid import UUID

from toolsys.domain import canonical, names
from toolsys.domain.calls import Facts
from toolsys.domain.registration import RegistrationReport, Rejection, defects, forced
from toolsys.domain.spec import JsonObject, ToolSource, ToolSpec
from toolsys.kept import Kept
from toolsys.ports import NotAvailable, Tool, ToolProvider
from toolsys.validation import UnusableSchema, compile_schema

PINS_KEPT: Final = 512
PinReader = Callable[[str, UUID], JsonObject]


class RegistrationError(Exception):
    """A builtin broke a rule: the process must not start."""


class Registry:
    """Implements `ports.ToolRegistry`. Built once, at start, by `config.wiring`."""

    def __init__(
        self,
        builtins: Iterable[Tool],
        providers: Mapping[str, ToolProvider],
        read_pin: PinReader,
        *,
        output_ceiling_bytes: int,
    ) -> None:
        self._ceiling = output_ceiling_bytes
        tools = list(builtins)
        self._builtins = {tool.spec.name: tool for tool in tools}
        self._providers = providers
        self._read_pin = read_pin
        self._pins: Kept[dict[str, ToolSpec]] = Kept(PINS_KEPT)
        broken = [bad for tool in tools for bad in self._defects(tool.spec)]
        broken += [
            Rejection(tool.spec.name, "source", "only builtins are registered at build time")
            for tool in tools
            if tool.spec.source is not ToolSource.BUILTIN
        ]
        broken += [
            Rejection(tool.spec.name, "name.duplicate", "another builtin has this name")
            for tool in tools
            if self._builtins[tool.spec.name] is not tool
        ]
        if broken:
            raise RegistrationError("; ".join(f"{bad.name}: {bad.reason} ({bad.detail})" for bad in broken))

    def resolve(self, name: str, facts: Facts) -> Tool | None:
        """Raises: NotAvailable (tool.withdrawn)."""
        pinned = self._pin(facts).get(name)
        if pinned is None:
            return None
        provider = self._providers.get(names.domain_of(name))
        if provider is not None:
            return provider.bind(facts.tenant_id, pinned, facts.authz_epoch, facts.session.id)
        tool = self._builtins.get(name)
        if tool is None or tool.spec.version != pinned.version:
            raise NotAvailable("tool.withdrawn", "this build no longer has the pinned version")
        return tool

    def specs_for_session(self, tenant_id: str, enabled: Sequence[str], scopes: frozenset[str]) -> list[ToolSpec]:
        """Return what a new session pins: enabled for the agent and permitted to the principal, in name order."""
        offered = [tool.spec for tool in self._builtins.values()]
        for provider in self._providers.values():
            offered += provider.specs(tenant_id)
        kept = [
            spec
            for spec in offered
            if any(fnmatchcase(spec.name, glob) for glob in enabled) and spec.required_scopes <= scopes
        ]
        return sorted(kept, key=lambda spec: spec.name)

    def admissible(self, specs: Sequence[ToolSpec]) -> tuple[list[ToolSpec], RegistrationReport]:
        """Force and check specs from outside, one by one: a bad one never costs its siblings."""
        kept, rejected = [], []
        for spec in map(forced, specs):
            bad = self._defects(spec)
            rejected += bad
            if not bad:
                kept.append(spec)
        return kept, RegistrationReport(tuple(spec.name for spec in kept), tuple(rejected))

    def _defects(self, spec: ToolSpec) -> list[Rejection]:
        found = list(defects(spec, output_ceiling_bytes=self._ceiling))
        for label, schema in (("schema.input", spec.input_schema), ("schema.output", spec.output_schema)):
            if not found and schema is not None:
                try:
                    compile_schema(schema)
                except UnusableSchema as error:
                    found.append(Rejection(spec.name, label, str(error)))
        return found

    def _pin(self, facts: Facts) -> dict[str, ToolSpec]:
        key = (facts.tenant_id, facts.session.tool_schema_sha256)
        found = self._pins.get(key)
        if found is None:
            stored = self._read_pin(facts.tenant_id, facts.session.id)
            found = {name: ToolSpec.model_validate(spec) for name, spec in stored.items()}
            self._pins.put(key, found)
        return found


def pin_of(specs: Sequence[ToolSpec]) -> tuple[JsonObject, str]:
    """Return what a session stores and the hash that addresses exactly this set."""
    pinned = {
        spec.name: spec.model_dump(mode="json") | {"required_scopes": sorted(spec.required_scopes)} for spec in specs
    }
    return pinned, canonical.sha256_hex(canonical.canonical_bytes(pinned))
