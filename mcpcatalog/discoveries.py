"""Listing a live connection and remembering what was seen: at a session's opening, and whenever one connects again.

A connection that is opened in mid-session is listed once, before anything is sent on it, so that a tool whose
declaration is no longer the pinned one is not called under it. Source: TS "Run teardown releases", DESIGN §7.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from mcpcatalog import mapping, services
from mcpcatalog.background import written
from mcpcatalog.remote import Catalog, CatalogMode, OutOfConnections, RemoteError, RemoteServer, ServerConfig
from toolsys.ports import Clock

type Declarations = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Discoveries:
    clock: Clock
    output_ceiling_bytes: int

    async def declared(self, server: ServerConfig, connection: RemoteServer) -> Declarations:
        """Return the hash of each usable declaration by its remote name, listing the connection where nobody has.

        That is who opens it, in the same hold. A fixed server is never asked: what is declared here is all there is.
        Raises: RemoteError.
        """
        if connection.declared is None:
            is_fixed, at = server.mode is CatalogMode.FIXED, self.clock.now()
            catalog = mapping.declared_here(server) if is_fixed else await connection.discover()
            seen = replace(catalog, revision=connection.revision)
            generation = await written(lambda: self.record(server, seen, connection.connected_in_seconds, at))
            connection.declared = {tool.name: mapping.declaration_hash(tool) for tool, _ in generation.tools}
        return connection.declared

    def record(
        self, server: ServerConfig, catalog: Catalog, seconds: float | None, at: datetime
    ) -> mapping.Generation:  # fmt: skip
        """Map and remember one listing; without seconds nobody was connected. Not on the event loop: it writes.

        `at` is when the list was asked for: what the server announced since may not be in it.
        """
        generation = mapping.map_catalog(server, catalog, output_ceiling_bytes=self.output_ceiling_bytes)
        services.record_discovery(server, catalog, generation, at=at, connected_in_seconds=seconds)
        return generation

    async def forget(self, server: ServerConfig, error: RemoteError) -> None:
        """A connection that could not be opened makes what was remembered stale."""
        if isinstance(error, OutOfConnections):
            return
        now = self.clock.now()
        await written(lambda: services.record_failure(server, error.reason_code, error.detail, at=now))
