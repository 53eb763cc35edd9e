"""An effect log for tests, in this process: the same handler that `manage.py demo_effects` serves."""

import tempfile
import threading
from dataclasses import replace
from http.server import ThreadingHTTPServer
from pathlib import Path
from types import TracebackType

from config.management.commands.demo_effects import EffectLog, Handler
from toolsys.builtin.demo import DemoExternalWrite
from toolsys.egress import policy_for
from toolsys.ports import Runtime, Tool
from toolsys.registry import Registry


class EffectServer:
    """Serves on a free loopback port while entered."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory()
        self._log = EffectLog(Path(self._folder.name) / "effects.jsonl")
        handler = type("TestHandler", (Handler,), {"log": self._log})
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}/effects"

    def __enter__(self) -> "EffectServer":
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._log.released.set()
        self._server.shutdown()
        self._server.server_close()
        self._folder.cleanup()

    def lines(self) -> list[str]:
        return [effect["line"] for effect in self._log.lines()]

    def installed_in(self, runtime: Runtime) -> Runtime:
        """Return the runtime with `demo.external_write` pointed at this server."""
        registry = runtime.registry
        assert isinstance(registry, Registry)
        host = self.url.split("/")[2]
        policy = policy_for([self.url], open_networks=("127.0.0.1/32",), plain_http_hosts=(host,))
        return replace(runtime, registry=_Replacing(registry, DemoExternalWrite(self.url, policy)))


class _Replacing:
    """The registry, with one builtin replaced by another of the same spec.

    The digest that approvals bind to covers the tool's address, so the replacement keeps the original's binding.
    """

    def __init__(self, registry: Registry, tool: DemoExternalWrite) -> None:
        self._registry = registry
        self._tool = tool

    def resolve(self, name: str, facts: object) -> Tool | None:
        found = self._registry.resolve(name, facts)  # type: ignore[arg-type]
        if found is None or found.spec.name != self._tool.spec.name:
            return found
        self._tool.binding = found.binding
        return self._tool
