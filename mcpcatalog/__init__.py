"""MCP servers as tools: what is configured, what was discovered, and the tools made of it.

Importing this package, its models, admin or provider never imports the MCP SDK; only `mcpcatalog.sdk` does.
"""
