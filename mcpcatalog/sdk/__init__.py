"""The adapter to the MCP SDK: the only package that imports `mcp` or `mcp_types`.

Its face is `mcpcatalog.remote`; no SDK type, exception or pickle leaves it. Importing a module of it costs most of a
second, so only the worker does, lazily, through `mcpcatalog.tool` and `mcpcatalog.discovery`.
"""
