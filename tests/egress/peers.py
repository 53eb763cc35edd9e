"""The peers of the egress table, on this machine's loopback: a sink that counts, and a server that misbehaves.

A connection at the sink is one that nobody may make. The server stands in for a public host:
it speaks TLS under the name `api.example`, and the first segment of the path says what it does; only after `kept` does
the connection stay open.
"""

import asyncio
import gzip
import ipaddress
import os
import socket
import ssl
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

HOST = "api.example"
LOOPBACKS = ("127.0.0.1", "::1")
MAXIMUM_WRITTEN = 64 * 1024 * 1024
BLOCK = b"x" * 65_536

type Write = Callable[[bytes], Awaitable[None]]


@dataclass
class Sink:
    """Listens on both loopbacks at one port and counts who comes. `families` are those that this machine has."""

    port: int = 0
    connections: int = 0
    families: tuple[str, ...] = ()

    def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\nconnection: close\r\n\r\nsink")
        writer.close()


@dataclass
class PublicServer:
    """`requests` are the heads that came, `written` what was handed to the network since it was last set to 0.

    `scripts` are answers that a test writes for itself, at `/script/{name}`.
    """

    port: int = 0
    requests: list[bytes] = field(default_factory=list)
    written: int = 0
    scripts: dict[str, bytes] = field(default_factory=dict)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async def write(data: bytes) -> None:
            self.written += len(data)
            if self.written > MAXIMUM_WRITTEN:
                raise ConnectionError("the client reads without end")
            writer.write(data)
            await writer.drain()

        try:
            is_kept = True
            while is_kept:
                head = await reader.readuntil(b"\r\n\r\n")
                self.requests.append(head)
                _, what, *rest = head.split(b" ", 2)[1].decode().split("?")[0].split("/", 2)
                if what == "script":
                    await write(self.scripts[rest[0]])
                    return
                if what == "broken_tls":
                    await write(OK + b"content-length: 1000\r\n\r\n" if rest else b"")
                    os.write(writer.get_extra_info("socket").fileno(), b"this is no record of TLS" * 10)
                    await asyncio.sleep(0.05)
                    return
                await BEHAVIOURS[what](write, rest[0] if rest else "")
                is_kept = what == "kept"
        except (ConnectionError, asyncio.IncompleteReadError, ssl.SSLError):
            pass
        finally:
            writer.transport.abort() if self.written > MAXIMUM_WRITTEN else writer.close()


async def _raw(write: Write, text: str) -> None:
    await write(RAW[text])


async def _redirect(write: Write, text: str) -> None:
    status, _, target = text.partition("/")
    await write(f"HTTP/1.1 {status} Elsewhere\r\nlocation: {target}\r\ncontent-length: 0\r\n\r\n".encode())


async def _endless(write: Write, text: str) -> None:
    """Begin as `ENDLESS` says and go on with its second part until nobody listens."""
    head, part = ENDLESS[text]
    await write(head)
    while True:
        await write(part)


async def _drip(write: Write, text: str) -> None:
    """A byte from time to time: always alive, never done."""
    if text == "body":
        await write(b"HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\n")
    while True:
        await write(b"H")
        await asyncio.sleep(0.02)


async def _silent(write: Write, text: str) -> None:
    await asyncio.sleep(30)


async def _drop(write: Write, text: str) -> None:
    """The request was taken; the answer never comes."""


BEHAVIOURS: dict[str, Callable[[Write, str], Awaitable[None]]] = {
    "raw": _raw, "kept": _raw, "redirect": _redirect, "endless": _endless, "drip": _drip, "silent": _silent,
    "drop": _drop,
}  # fmt: skip

OK = b"HTTP/1.1 200 OK\r\n"
BOMB = gzip.compress(b"\0" * 10_000_000)
RAW = {
    "ok": OK + b"content-type: text/plain\r\ncontent-length: 5\r\n\r\nhello",
    "chunked": OK + b"transfer-encoding: chunked\r\n\r\n2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n",
    "identity": OK + b"content-encoding: identity\r\ncontent-length: 5\r\n\r\nhello",
    "not_modified": b"HTTP/1.1 304 Not Modified\r\n\r\n",
    "created": b"HTTP/1.1 201 Created\r\nlocation: https://127.0.0.1/\r\ncontent-length: 0\r\n\r\n",
    "refresh": OK + b"refresh: 0; url=https://127.0.0.1/\r\nset-cookie: a=b\r\ncontent-length: 0\r\n\r\n",
    "continue": b"HTTP/1.1 100 Continue\r\n\r\n" + OK + b"content-length: 5\r\n\r\nhello",
    "gzip": OK + b"content-encoding: gzip\r\ncontent-length: %d\r\n\r\n" % len(BOMB) + BOMB,
    "x-gzip": OK + b"content-encoding: x-gzip\r\n\r\n" + BOMB,
    "br": OK + b"content-encoding: br\r\ncontent-length: 1\r\n\r\nx",
    "zstd": OK + b"content-encoding: ZSTD\r\ncontent-length: 1\r\n\r\nx",
    "twice": OK + b"content-encoding: identity, gzip\r\n\r\n" + BOMB,
    "two_fields": OK + b"content-encoding: identity\r\ncontent-encoding: gzip\r\n\r\n" + BOMB,
    "transfer_gzip": OK + b"transfer-encoding: gzip, chunked\r\n\r\n" + BOMB,
    "declared": OK + b"content-length: 10000000\r\n\r\n" + BLOCK,
    "over": OK + b"\r\n" + BLOCK,
    "short": OK + b"content-length: 100\r\n\r\nhello",
    "long": OK + b"content-length: 5\r\n\r\nhello and more than that",
    "conflicting": OK + b"content-length: 5\r\ncontent-length: 6\r\n\r\nhello",
    "negative": OK + b"content-length: -5\r\n\r\nhello",
    "hexadecimal": OK + b"content-length: 0x5\r\n\r\nhello",
    "digits": OK + b"content-length: " + b"9" * 5_000 + b"\r\n\r\nhello",
    "both": OK + b"content-length: 3\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
    "bad_chunk": OK + b"transfer-encoding: chunked\r\n\r\nzz\r\nhello\r\n",
    "huge_chunk": OK + b"transfer-encoding: chunked\r\n\r\n" + b"f" * 30 + b"\r\nhello\r\n",
    "one_field": OK + b"x-long: " + b"a" * 40_000 + b"\r\n\r\nhello",
    "huge_field": OK + b"x-long: " + b"a" * 400_000 + b"\r\n\r\nhello",
    "many_fields": OK + b"".join(b"x-%d: a\r\n" % number for number in range(200)) + b"content-length: 0\r\n\r\n",
    "trailers": OK + b"transfer-encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n" + b"x: " + b"a" * 400_000 + b"\r\n\r\n",
    "upgrade": b"HTTP/1.1 101 Switching Protocols\r\nupgrade: h2c\r\nconnection: upgrade\r\n\r\n",
    "http09": b"<html>hello</html>",
    "nonsense": b"\x16\x03\x01 no answer \r\n\r\n",
    "nul_field": OK + b"x-a: b\0c\r\ncontent-length: 0\r\n\r\n",
    "folded": OK + b"x-a: b\r\n location: https://127.0.0.1/\r\ncontent-length: 5\r\n\r\nhello",
    "status_99": b"HTTP/1.1 99 Low\r\n\r\n",
}
ENDLESS = {
    "body": (OK + b"\r\n", BLOCK),
    "chunks": (OK + b"transfer-encoding: chunked\r\n\r\n", b"1\r\nx\r\n" * 5_000),
    "chunk_extensions": (OK + b"transfer-encoding: chunked\r\n\r\n", b"1;" + b"e" * 50_000 + b"\r\nx\r\n"),
    "fields": (OK, b"x-a: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\r\n" * 100),
    "one_line": (b"HTTP/1.1 200 ", BLOCK),
    "interim": (b"", b"HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n" * 100),
}


def certificate(folder: Path) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """Return contexts of a server that is `api.example` and of a client that trusts only it."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, HOST)])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(
            x509.SubjectAlternativeName([
                x509.DNSName(HOST), x509.IPAddress(ipaddress.ip_address("8.8.8.8")),
            ]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )  # fmt: skip
    public = made.public_bytes(serialization.Encoding.PEM)
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    chain = folder / "chain.pem"
    chain.write_bytes(private + public)
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(chain)
    return server, ssl.create_default_context(cadata=public.decode())


def listeners() -> list[socket.socket]:
    """Bind one port on every loopback that this machine has."""
    first = socket.create_server((LOOPBACKS[0], 0))
    try:
        second = socket.create_server((LOOPBACKS[1], first.getsockname()[1]), family=socket.AF_INET6)
    except OSError:
        return [first]
    return [first, second]


@asynccontextmanager
async def peers() -> AsyncIterator[tuple[Sink, PublicServer, ssl.SSLContext]]:
    """Serve while entered. The context is what a client needs to trust the public server."""
    sink, public = Sink(), PublicServer()
    with tempfile.TemporaryDirectory() as folder:
        served, trusted = certificate(Path(folder))
    sockets = listeners()
    sink.port, sink.families = sockets[0].getsockname()[1], LOOPBACKS[: len(sockets)]
    servers = [await asyncio.start_server(sink.accept, sock=listener) for listener in sockets]
    servers.append(await asyncio.start_server(public.serve, LOOPBACKS[0], 0, ssl=served))
    public.port = servers[-1].sockets[0].getsockname()[1]
    try:
        yield sink, public, trusted
    finally:
        for server in servers:
            server.close()
