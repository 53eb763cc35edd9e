"""The registry: builtin tools from the build, everything else from providers, each session through its pin.

A session resolves against exactly the set that it advertised; what changed since is judged live, at call time. Pins are
immutable, so they are kept by their hash. Source: TS "Resolution", "Advertisement is pinned".
"""

import logging
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final
from uuid import UUID

from toolsys.domain import canonical, names, offering
from toolsys.domain.calls import Facts
from toolsys.domain.offering import Audience, Limit
from toolsys.domain.registration import RegistrationReport, Rejection, declaration_defects, forced, schema_defects
from toolsys.domain.schemas import USUAL, UTMOST
from toolsys.domain.spec import JsonObject, ToolSource, ToolSpec
from toolsys.kept import Kept
from toolsys.pins import Pin, PinWriter, identity
from toolsys.ports import NotAvailable, Tool, ToolProvider
from toolsys.scrubbing import watched
from toolsys.validation import UnusableSchema, compile_schema

log = logging.getLogger(__name__)

PINS_KEPT: Final = 512
VERDICTS_KEPT: Final = 8_192
# The registry takes entries from the build, from MCP and from devices, and from nowhere else.
BUILT_SOURCES: Final = frozenset({ToolSource.BUILTIN, ToolSource.SANDBOX})
DYNAMIC_SOURCES: Final = frozenset({ToolSource.MCP, ToolSource.DEVICE})
PinReader = Callable[[str, UUID], JsonObject]


class RegistrationError(Exception):
    """A builtin broke a rule: the process must not start."""


class ToolNotFoundError(LookupError):
    """This build has no tool of that name, or not in that version."""


class Registry:
    """Implements `ports.ToolRegistry`. Built once, at start, by `config.wiring`."""

    def __init__(
        self,
        builtins: Iterable[Tool],
        providers: Mapping[str, ToolProvider],
        read_pin: PinReader,
        *,
        output_ceiling_bytes: int,
        limits: Sequence[Limit] = (),
    ) -> None:
        self._ceiling = output_ceiling_bytes
        self._limits = tuple(limits)
        tools = list(builtins)
        self._builtins = {tool.spec.name: tool for tool in tools}
        self._providers = providers
        self._read_pin = read_pin
        self._pins: Kept[dict[str, ToolSpec]] = Kept(PINS_KEPT)
        self._judged: Kept[tuple[Rejection, ...]] = Kept(VERDICTS_KEPT)
        self._compiled: Kept[tuple[Rejection, ...]] = Kept(VERDICTS_KEPT)
        self._writer = PinWriter()
        report = self._examined([tool.spec for tool in tools], BUILT_SOURCES)
        # What is built in is not mended: a trust that would have to be overwritten is a mistake in the code.
        broken = [*report.rejected, *_unforced([tool.spec for tool in tools])]
        if broken:
            raise RegistrationError("; ".join(f"{bad.name}: {bad.reason} ({bad.detail})" for bad in broken))

    def get(self, name: str, version: str | None = None) -> Tool:
        """Return a tool of this build. Raises: ToolNotFoundError."""
        tool = self._builtins.get(name)
        if tool is None or version not in {None, tool.spec.version}:
            raise ToolNotFoundError(name)
        return tool

    def known(self, tenant_id: str, wanted: Collection[str]) -> dict[str, ToolSpec]:
        """Return those tools of these names that some new session of this tenant could pin."""
        found = {name: self._builtins[name].spec for name in wanted if name in self._builtins}
        for domain in {names.domain_of(name) for name in wanted} & self._providers.keys():
            report = self.register_dynamic(self._providers[domain].specs(tenant_id), names.RESERVED_DOMAINS[domain])
            found |= {spec.name: spec for spec in report.accepted if spec.name in wanted}
        return found

    def resolve(self, name: str, facts: Facts) -> Tool | None:
        """Raises: NotAvailable (tool.withdrawn)."""
        pinned = self.pinned(facts).get(name)
        if pinned is None:
            return None
        session = facts.session
        if not offering.is_offered(name, self._limits, profile=session.profile, environment=session.environment):
            raise NotAvailable("tool.withdrawn", "this deployment no longer offers it in this session's environment")
        provider = self._providers.get(names.domain_of(name))
        if provider is not None:
            return provider.bind(facts.tenant_id, pinned, facts.authz_epoch, facts.session.id)
        try:
            return watched(self.get(name, pinned.version))
        except ToolNotFoundError:
            raise NotAvailable("tool.withdrawn", "this build no longer has the pinned version") from None

    def specs_for_session(
        self,
        tenant_id: str,
        enabled: Sequence[str],
        scopes: frozenset[str],
        *,
        profile: str = "",
        environment: str = "",
    ) -> list[ToolSpec]:
        """Return what a new session pins, in name order.

        Enabled for the agent, permitted to the principal, and not limited to another profile or environment.
        """
        audience = Audience(tuple(enabled), scopes, profile, environment)
        offered = [tool.spec for tool in self._builtins.values()]
        for domain, provider in self._providers.items():
            report = self.register_dynamic(provider.specs(tenant_id), names.RESERVED_DOMAINS[domain])
            for bad in report.rejected:
                log.warning("not registered tool=%s reason=%s", bad.name, bad.reason)
            offered += report.accepted
        return sorted((spec for spec in offered if audience.may_pin(spec, self._limits)), key=lambda spec: spec.name)

    def withheld_for_session(
        self,
        tenant_id: str,
        enabled: Sequence[str],
        scopes: frozenset[str],
        *,
        profile: str = "",
        environment: str = "",
    ) -> list[str]:
        """Return the names that a new session would pin if somebody had looked at them, sorted."""
        audience = Audience(tuple(enabled), scopes, profile, environment)
        held = [spec for provider in self._providers.values() for spec in provider.withheld(tenant_id)]
        return sorted(spec.name for spec in held if audience.may_pin(spec, self._limits))

    def register_dynamic(self, specs: Sequence[ToolSpec], source: ToolSource) -> RegistrationReport:
        """Force and check what a provider found, one by one: a bad one never costs its siblings.

        Each rejection has a reason. Nothing is kept here: providers keep catalogs, sessions keep their pins.
        """
        return self._examined([forced(spec) for spec in specs], frozenset({source}) & DYNAMIC_SOURCES)

    def pin(self, specs: Sequence[ToolSpec]) -> Pin:
        """Return what a session that advertises these stores."""
        return self._writer.pin(specs)

    def pinned(self, facts: Facts) -> dict[str, ToolSpec]:
        """Return the set that `tool_schema_sha256` addresses.

        Raises: NotAvailable (tool.withdrawn), where what is stored is not what was advertised.
        """
        sha = facts.session.tool_schema_sha256
        key = (facts.tenant_id, sha)
        found = self._pins.get(key)
        if found is None:
            stored = self._read_pin(facts.tenant_id, facts.session.id)
            if canonical.sha256_hex(canonical.canonical_bytes(stored)) != sha:
                raise NotAvailable("tool.withdrawn", "the stored set does not have the session's hash")
            found = self._pins.put(key, {name: ToolSpec.model_validate(spec) for name, spec in stored.items()})
        return found

    def _examined(self, specs: Sequence[ToolSpec], sources: frozenset[ToolSource]) -> RegistrationReport:
        """Two of one name are both refused, so that nothing depends on an order."""
        accepted, rejected = [], []
        counted = Counter(spec.name for spec in specs)
        for spec in specs:
            bad = list(self._defects(spec))
            if spec.source not in sources:
                bad.append(Rejection(spec.name, "source.not_here", f"{spec.source} tools are not registered this way"))
            if counted[spec.name] > 1:
                bad.append(Rejection(spec.name, "name.duplicate", "another tool has this name"))
            rejected += bad
            accepted += [] if bad else [spec]
        return RegistrationReport(tuple(accepted), tuple(rejected))

    def _defects(self, spec: ToolSpec) -> Sequence[Rejection]:
        key = identity(spec) if spec.source is ToolSource.MCP else None
        known = self._judged.get(key)
        if known is not None:
            return known
        found = declaration_defects(spec, output_ceiling_bytes=self._ceiling) or self._schema_defects(spec)
        return found if key is None else self._judged.put(key, found)

    def _schema_defects(self, spec: ToolSpec) -> tuple[Rejection, ...]:
        """Compiling costs. The version of an MCP tool is its catalog's hash: a verdict on its schema stays true."""
        key = (spec.name, spec.version) if spec.source is ToolSource.MCP else None
        known = self._compiled.get(key)
        if known is not None:
            return known
        # What is discovered was judged by its own server's caps when its catalog was read; none may pass the utmost.
        caps = UTMOST if spec.source is ToolSource.MCP else USUAL
        found = schema_defects(spec, caps) or tuple(_compiling_defects(spec))
        return found if key is None else self._compiled.put(key, found)


def _compiling_defects(spec: ToolSpec) -> Iterator[Rejection]:
    for label, schema in (("schema.input", spec.input_schema), ("schema.output", spec.output_schema)):
        if schema is not None:
            try:
                compile_schema(schema)
            except UnusableSchema as error:
                yield Rejection(spec.name, label, str(error))


def _unforced(specs: Iterable[ToolSpec]) -> list[Rejection]:
    return [
        Rejection(spec.name, "trust.forced", f"{spec.source} output is external and untrusted")
        for spec in specs
        if forced(spec) != spec
    ]
