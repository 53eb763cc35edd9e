"""The counts of MCP, as the specification names them, and no label that a tenant or a server can widen without end.

A server's id is a label because the specification wants it; past the first `MAXIMUM_SERVERS` of a process the rest are
counted together. Tenants, sessions, tools and texts are never labels. Source: TS "Spans and metrics".
"""

from typing import Final

from prometheus_client import Counter, Gauge, Histogram

from toolsys.labels import BoundedLabel

MAXIMUM_SERVERS: Final = 200
SUCCEEDED: Final = "succeeded"
REPORTED_ERROR: Final = "reported_error"
CANCELLED: Final = "cancelled"

REQUESTS: Final = Counter("mcp_requests_total", "JSON-RPC requests by how they ended.", ["server", "method", "outcome"])
REQUEST_SECONDS: Final = Histogram("mcp_request_seconds", "From sending a request to its end.", ["method"])
CONNECT_FAILURES: Final = Counter("mcp_connect_failures_total", "Failed handshakes.", ["server", "reason_code"])
CONNECTS: Final = Counter("mcp_connects_total", "Finished handshakes.", ["server", "transport"])
DISCONNECTS: Final = Counter("mcp_disconnects_total", "Ended connections by reason.", ["server", "reason_code"])
CONNECTIONS: Final = Gauge("mcp_connections", "Open connections.", ["transport"], multiprocess_mode="livesum")
STRAYS: Final = Counter("mcp_stray_messages_total", "Messages that nobody asked for.", ["server", "kind"])
ROUTED: Final = Counter("mcp_routed_calls_total", "Calls of servers that keep state, by where they are done.", ["to"])

# All processes together may show as many more names as there are processes.
server_label: Final = BoundedLabel(MAXIMUM_SERVERS)


def count_request(server_id: str, method: str, outcome: str, seconds: float) -> None:
    REQUESTS.labels(server_label(server_id), method, outcome).inc()
    REQUEST_SECONDS.labels(method).observe(seconds)


def count_strays(server_id: str, kind: str, count: int = 1) -> None:
    """`kind` is answer (to somebody else), request, progress (of nothing), log or notification."""
    if count:
        STRAYS.labels(server_label(server_id), kind).inc(count)
