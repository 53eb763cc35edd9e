"""The adapter to the MCP SDK: the only package that imports `mcp` or `mcp_types`.

Its face is `mcpcatalog.remote`; no SDK type, exception or pickle leaves it. Importing a module of it costs most of a
second, so only the worker does, lazily, through `mcpcatalog.tool` and `mcpcatalog.discovery`.
"""

import logging

# The SDK logs whole messages at DEBUG and payloads in tracebacks at ERROR; httpx2 logs URLs. What we need to know of a
# call is on its record.
for _name in ("mcp", "client", "httpx2", "httpcore2"):
    logging.getLogger(_name).setLevel(logging.CRITICAL)
