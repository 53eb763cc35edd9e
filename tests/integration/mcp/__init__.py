"""The MCP adapter against real peers: programs from PyPI, and one that misbehaves on purpose. Loopback only."""
