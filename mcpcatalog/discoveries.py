"""Listing a live connection and remembering what was seen: at a session's opening, and whenever one connects again.

A connection that is opened in mid-session is listed once, before anything is sent on it, so that a tool whose
declaration is no longer the pinned one is not called under it. Source: TS "Run teardown releases", DESIGN §7.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from mcpcatalog import mapping, services
from mcpcatalog.background import written
from mcpcatalog.remote import Catalog, OutOfConnections, RemoteError, RemoteServer, ServerConfig
from toolsys.ports import Clock

type Declarations = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Discoveries:
    clock: Clock
    output_ceiling_bytes: int

    async def declared(self, server: ServerConfig, connection: RemoteServer) -> Declarations:
        """Return the hash of each usable declaration by its remote name, listing the connection at its first use.

        Raises: RemoteError.
        """
        if connection.declared is None:
            catalog = await connection.discover()
            generation = await written(lambda: self.record(server, catalog, connection.connected_in_seconds))
            connection.declared = {tool.name: mapping.declaration_hash(tool) for tool, _ in generation.tools}
        return connection.declared

    def record(self, server: ServerConfig, catalog: Catalog, seconds: float) -> mapping.Generation:
        """Map and remember one listing. Not on the event loop: it writes."""
        generation = mapping.map_catalog(server, catalog, output_ceiling_bytes=self.output_ceiling_bytes)
        services.record_discovery(server, catalog, generation, at=self.clock.now(), connected_in_seconds=seconds)
        return generation

    async def forget(self, server: ServerConfig, error: RemoteError) -> None:
        """A connection that could not be opened makes what was remembered stale."""
        if isinstance(error, OutOfConnections):
            return
        now = self.clock.now()
        await written(lambda: services.record_failure(server, error.reason_code, error.detail, at=now))
