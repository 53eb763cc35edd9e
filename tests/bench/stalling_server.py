"""An MCP server over Streamable HTTP whose one tool never answers: `python -m tests.bench.stalling_server PORT`."""

import sys
import time

from mcp.server import MCPServer

server = MCPServer("stalls")


@server.tool()
def stall() -> str:
    """Take longer than anybody waits."""
    time.sleep(60)
    return "late"


if __name__ == "__main__":
    server.run("streamable-http", host="127.0.0.1", port=int(sys.argv[1]), json_response=True, stateless_http=True)
