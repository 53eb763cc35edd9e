"""`python -m mcpcatalog.firstparty.docs --folder DIR`: the docs server as a process of its own.

The tokens come from the variable DOCS_SERVER_TOKENS (several with commas, so that one can be rotated) or from the file
that DOCS_SERVER_TOKENS_FILE names, never from the command line. Without TLS it listens on this machine only.
"""

import argparse
import ipaddress
import json
import logging
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from mcpcatalog.firstparty.docs.app import PATH, DocsServer
from mcpcatalog.firstparty.docs.contracts import CONTRACTS
from mcpcatalog.firstparty.docs.library import Library

TOKENS: Final = "DOCS_SERVER_TOKENS"
MINIMUM_TOKEN: Final = 24
MAXIMUM_CONNECTIONS: Final = 64


class Unusable(Exception):
    """The process must not start; the text says why."""


def main(arguments: list[str], environment: Mapping[str, str]) -> int:
    """Serve until a signal ends it; return the exit code."""
    options = _parser().parse_args(arguments)
    if options.contracts:
        sys.stdout.write(json.dumps([contract.model_dump() for contract in CONTRACTS], indent=2) + "\n")
        return 0
    try:
        app = DocsServer(Library(_folder(options.folder)), _tokens(environment))
        settings = _settings(options)
    except Unusable as why:
        sys.stderr.write(f"docs server: {why}\n")
        return 2
    import uvicorn

    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stderr)
    sys.stderr.write(f"docs server: listening on {options.host}:{options.port}{PATH}\n")
    uvicorn.run(app, **settings)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m mcpcatalog.firstparty.docs")
    parser.add_argument("--folder", default="", help="the folder of Markdown")
    parser.add_argument("--contracts", action="store_true", help="print its tools as a fixed server declares them")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8770)
    parser.add_argument("--tls-certificate", default="", help="a file in PEM form")
    parser.add_argument("--tls-key", default="", help="a file in PEM form")
    return parser


def _folder(name: str) -> Path:
    folder = Path(name).resolve()
    if not name or not folder.is_dir():
        raise Unusable("--folder is not a folder")
    return folder


def _tokens(environment: Mapping[str, str]) -> list[str]:
    text = environment.get(TOKENS, "")
    file = environment.get(f"{TOKENS}_FILE", "")
    if file:
        try:
            text = Path(file).read_text(encoding="ascii")
        except (OSError, ValueError):
            raise Unusable(f"the file of {TOKENS}_FILE cannot be read") from None
    tokens = text.replace(",", " ").split()
    if not tokens or any(len(token) < MINIMUM_TOKEN or not token.isascii() for token in tokens):
        raise Unusable(f"{TOKENS} needs a token of at least {MINIMUM_TOKEN} characters")
    return tokens


def _settings(options: argparse.Namespace) -> dict[str, Any]:
    """Raises: Unusable, where a token would travel in the clear."""
    has_tls = bool(options.tls_certificate and options.tls_key)
    if not has_tls and not _is_here(options.host):
        raise Unusable("on an address that others reach it needs --tls-certificate and --tls-key")
    tls = {"ssl_certfile": options.tls_certificate, "ssl_keyfile": options.tls_key} if has_tls else {}
    return {
        "host": options.host, "port": options.port, "access_log": False, "log_level": "warning", "lifespan": "off",
        "server_header": False, "date_header": False, "proxy_headers": False, "ws": "none",
        "limit_concurrency": MAXIMUM_CONNECTIONS, "timeout_keep_alive": 30, "timeout_graceful_shutdown": 5,
        "h11_max_incomplete_event_size": 16_384, "http": "h11", "loop": "asyncio", **tls,
    }  # fmt: skip


def _is_here(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], os.environ))
