"""MCP servers that misbehave in more than a hundred ways, and what must become of each: a table, played by tests."""
