"""What a tenant's enabled servers offer to a new session, put together from what a process has read before.

Configuration and what people said are kept under the tenant's authorization epoch, which every change of them raises;
the specs of a generation under its hash and the configuration that made them. What discovery observes is read anew.
"""

from dataclasses import dataclass, field, replace
from typing import Final

from mcpcatalog import mapping, quarantine, selectors
from mcpcatalog.remote import CatalogMode, ServerConfig
from mcpcatalog.selectors import Commands, Observed, ServerState
from toolsys.domain.spec import ToolSpec
from toolsys.kept import Kept

TENANTS_KEPT: Final = 1_024
GENERATIONS_KEPT: Final = 256


@dataclass(frozen=True, slots=True)
class _Configured:
    epoch: int
    configs: dict[str, ServerConfig]


@dataclass(frozen=True, slots=True)
class _Listed:
    """One tool of a generation: its spec, and what a review of it is of."""

    spec: ToolSpec
    remote_name: str
    declared: str


@dataclass(frozen=True, slots=True)
class _Mapped:
    """The tools of one generation as they are under one configuration."""

    config: ServerConfig
    tools: tuple[_Listed, ...]

    def is_of(self, config: ServerConfig) -> bool:
        return self.config == config and self.config.overrides == config.overrides


@dataclass(frozen=True, slots=True)
class Offers:
    commands: Commands
    _configured: Kept[_Configured] = field(default_factory=lambda: Kept(TENANTS_KEPT))
    _mapped: Kept[_Mapped] = field(default_factory=lambda: Kept(GENERATIONS_KEPT))

    def states(self, tenant_id: str) -> list[ServerState]:
        """Return the enabled servers, in the order of their ids."""
        epoch, observed = selectors.observed(tenant_id)
        known = self._configured.get(tenant_id)
        # A new server raises no epoch: nothing was decided on it yet.
        if known is None or known.epoch != epoch or observed.keys() - known.configs.keys():
            configs = {state.config.server_id: state.config for state in self._read(tenant_id)}
            known = self._configured.put(tenant_id, _Configured(epoch, configs))
        return [_state(known.configs[name], seen) for name, seen in observed.items() if name in known.configs]

    def sources(self, tenant_id: str) -> frozenset[str]:
        return frozenset(state.config.server_id for state in self.states(tenant_id) if is_offering(state))

    def specs(self, tenant_id: str) -> list[ToolSpec]:
        return [spec for spec, is_held in self._judged(tenant_id) if not is_held]

    def withheld(self, tenant_id: str) -> list[ToolSpec]:
        """Return what waits until somebody has looked at it."""
        return [spec for spec, is_held in self._judged(tenant_id) if is_held]

    def _judged(self, tenant_id: str) -> list[tuple[ToolSpec, bool]]:
        """What people accepted raises no epoch, and so is read anew."""
        mapped = self._all(tenant_id)
        if not quarantine.is_asked(tenant_id):
            return [(tool.spec, False) for found in mapped for tool in found.tools]
        reviews = quarantine.reviews(tenant_id, {tool.declared for found in mapped for tool in found.tools})
        return [
            (tool.spec, reviews.holds_back(found.config, tool.remote_name, tool.declared))
            for found in mapped
            for tool in found.tools
        ]

    def _all(self, tenant_id: str) -> list[_Mapped]:
        states = [state for state in self.states(tenant_id) if state.catalog_hash and is_offering(state)]
        known = {state.config.server_id: self._known(state) for state in states}
        missing = [state for state in states if known[state.config.server_id] is None]
        hashes = {state.config.server_id: state.catalog_hash for state in missing}
        read = selectors.generations(tenant_id, hashes) if missing else {}
        for state in missing:
            config, version = state.config, state.catalog_hash
            tools = tuple(
                _Listed(mapping.spec_of(config, tool, version, declared), tool.name, declared)
                for tool, declared in read[config.server_id]
            )
            known[config.server_id] = self._mapped.put(_key(state), _Mapped(config, tools))
        return [found for found in known.values() if found is not None]

    def _known(self, state: ServerState) -> _Mapped | None:
        found = self._mapped.get(_key(state))
        return found if found is not None and found.is_of(state.config) else None

    def _read(self, tenant_id: str) -> list[ServerState]:
        return selectors.enabled_servers(tenant_id, self.commands)


def is_offering(state: ServerState) -> bool:
    """A refused login hides what a server lists, until it lets us in again. What is declared here needs no login."""
    return not state.has_refused_login or state.config.mode is CatalogMode.FIXED


def _key(state: ServerState) -> tuple[str, str, str]:
    return state.config.tenant_id, state.config.server_id, state.catalog_hash


def _state(config: ServerConfig, seen: Observed) -> ServerState:
    return selectors.state_of(replace(config, negotiated_revision=seen.negotiated_revision), seen)
