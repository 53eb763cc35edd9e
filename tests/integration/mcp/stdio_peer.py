"""A stdio MCP server of a few lines, run as a script: echoes its environment, or misbehaves as its argument says."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

CANCELLED: list = []  # type: ignore[type-arg]
CALLS: list = []  # type: ignore[type-arg]
MODE = sys.argv[1] if len(sys.argv) > 1 else "echo"


def answer(method: str, params: dict) -> dict | None:  # type: ignore[type-arg]
    if method == "initialize":
        return {
            "protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
            "serverInfo": {"name": "peer", "version": "0"},
        }  # fmt: skip
    if method == "tools/list":
        return {"tools": [{"name": "environment", "inputSchema": {"type": "object"}}]}
    if method == "tools/call":
        return call(params["name"])
    return None


ASKED = ("sampling/createMessage", "roots/list", "elicitation/create")


def asked(method: str) -> object:
    """Ask the client for something in the middle of its call, and return what it said."""
    print(json.dumps({"jsonrpc": "2.0", "id": f"ask {method}", "method": method, "params": {}}), flush=True)
    for line in sys.stdin:
        message = json.loads(line)
        if message.get("id") == f"ask {method}":
            return message.get("error", {}).get("code", "a result")
    return "nothing"


def call(name: str) -> dict:  # type: ignore[type-arg]
    CALLS.append(name)
    if name == "hang":
        time.sleep(30)
    if name == "die":
        os.kill(os.getpid(), signal.SIGKILL)
    if name == "flood":
        while True:
            sys.stdout.write("x" * 65_536)
    return {"content": [], "structuredContent": told(name)}


def told(name: str) -> dict:  # type: ignore[type-arg]
    """What a call returns that has no other purpose than to tell."""
    if name == "ask":
        return {method: asked(method) for method in ASKED}
    if name == "child":
        sleeper = subprocess.Popen(["sleep", "60"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        return {"pid": sleeper.pid}
    if name == "cancelled":
        return {"requests": CANCELLED}
    if name == "calls":
        return {"calls": CALLS}
    if name == "daemon":
        return {"pid": daemon()}
    return {"environment": dict(os.environ), "argv": sys.argv, "cwd": str(Path.cwd()), "pid": os.getpid()}


def daemon() -> int:
    """Start a process that hides as daemons do: in a session of its own, its parent gone, standard output kept."""
    read, write = os.pipe()
    if os.fork() == 0:
        os.setsid()
        sleeper = subprocess.Popen(["sleep", "60"])
        os.write(write, str(sleeper.pid).encode())
        os._exit(0)
    return int(os.read(read, 20))


def main() -> None:
    if MODE == "stubborn":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if MODE == "silent":
        time.sleep(60)
    print("noise on standard output, as real servers make", flush=True)
    print("words on standard error", file=sys.stderr, flush=True)
    for line in sys.stdin:
        message = json.loads(line)
        if message.get("method") == "notifications/cancelled":
            CANCELLED.append(message["params"]["requestId"])
        if "id" not in message or (message.get("params") or {}).get("name") == "wait":
            continue
        result = answer(message["method"], message.get("params") or {})
        reply = {"result": result} if result is not None else {"error": {"code": -32601, "message": "no"}}
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], **reply}), flush=True)
    while MODE == "stubborn":
        time.sleep(1)


main()
