"""MCP servers that we ship: processes of their own, which import neither Django nor the SDK."""
