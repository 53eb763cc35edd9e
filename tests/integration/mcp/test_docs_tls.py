"""The docs server over TLS, as on an address that others reach: a worker trusts what its deployment trusts, no more."""

import datetime as dt
import ipaddress
import os
import socket
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from mcpcatalog import services
from mcpcatalog.firstparty.docs.contracts import CONTRACTS
from mcpcatalog.remote import AuthScheme, CatalogMode, ServerConfig, Transport
from tests.factories import Tenancy
from tests.integration.mcp.conftest import _wait_for, policy_of
from tests.integration.mcp.test_affinity import in_new_session, until
from tests.integration.mcp.test_ladder import READ
from tests.integration.processes import child_process
from tests.spec.requirements import gate
from tests.workers import process
from toolsys import queue
from toolsys.domain.states import OutcomeStatus

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[3]
TOKEN = "docs-token-" + "s3cr3t" * 4


def authority(folder: Path, name: str) -> tuple[Path, Path, Path]:
    """Make an authority and a certificate of 127.0.0.1 that it signed; return its file, the chain's, and the key's."""
    now = dt.datetime.now(dt.UTC)
    keys = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    issuer = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"{name} authority")])

    def made(subject: x509.Name, key: ec.EllipticCurvePrivateKey, *, is_authority: bool) -> x509.Certificate:
        return (
            x509.CertificateBuilder().subject_name(subject).issuer_name(issuer).public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - dt.timedelta(minutes=5)).not_valid_after(now + dt.timedelta(days=1))
            .add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
            .add_extension(x509.KeyUsage(
                digital_signature=True, key_cert_sign=is_authority, crl_sign=is_authority, content_commitment=False,
                key_encipherment=False, data_encipherment=False, key_agreement=False, encipher_only=False,
                decipher_only=False), critical=True)
            .add_extension(
                x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(keys[0].public_key()), critical=False)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
            .sign(keys[0], hashes.SHA256())
        )  # fmt: skip

    def written(suffix: str, data: bytes) -> Path:
        path = folder / f"{name}.{suffix}"
        path.write_bytes(data)
        return path

    server = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "docs")])
    pem = serialization.Encoding.PEM
    private = keys[1].private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return (
        written("authority", made(issuer, keys[0], is_authority=True).public_bytes(pem)),
        written("certificate", made(server, keys[1], is_authority=False).public_bytes(pem)),
        written("key", private),
    )


@contextmanager
def docs(folder: Path, certificate: Path, key: Path) -> Iterator[tuple[int, Path]]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    log = certificate.with_suffix(".log")
    command = [sys.executable, "-m", "mcpcatalog.firstparty.docs", "--folder", str(folder), "--port", str(port),
               "--tls-certificate", str(certificate), "--tls-key", str(key)]  # fmt: skip
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("DJANGO", "DATABASE"))}
    with log.open("ab") as out, child_process(
        command, cwd=ROOT, stdout=out, stderr=out, env={**clean, "DOCS_SERVER_TOKENS": TOKEN}
    ) as child:  # fmt: skip
        try:
            _wait_for(port, child)
            yield port, log
        finally:
            child.kill()


@gate("docs.tls")
@pytest.mark.usefixtures("_database")
def test_a_worker_calls_over_tls_whom_its_deployment_trusts_and_nobody_else(acme: Tenancy, tmp_path: Path) -> None:
    folder = tmp_path / "docs"
    folder.mkdir()
    (folder / "index.md").write_text("# Guide\n\nzebra\n")
    ours, *trusted = authority(tmp_path, "ours")
    _, *strange = authority(tmp_path, "strange")
    redis = queue.call_queue().connection
    redis.delete(queue.call_queue().key)
    with ExitStack() as stack:
        served = {name: stack.enter_context(docs(folder, *files)) for name, files in
                  (("trusted", trusted), ("strange", strange))}  # fmt: skip
        stack.enter_context(process("scheduler"))
        stack.enter_context(process("worker", SSL_CERT_FILE=str(ours), TOOLSYS_CREDENTIAL_DOCS=TOKEN))
        until(lambda: any(each["cmd"] == "blpop" for each in redis.client_list()), "a worker")
        for name, (port, _) in served.items():
            config = ServerConfig(
                acme.id, name, Transport.HTTP, f"https://127.0.0.1:{port}/mcp", auth_scheme=AuthScheme.BEARER,
                credential_ref="env:TOOLSYS_CREDENTIAL_DOCS", mode=CatalogMode.FIXED, fixed_tools=CONTRACTS,
                classification=READ,
            )  # fmt: skip
            services.register_server(
                config, policy=policy_of(config), stdio_names=(), output_ceiling_bytes=1_048_576, using="operator"
            )
        tenancy = in_new_session(acme)
        calls = {name: tenancy.propose((f"mcp.{name}.docs_search", {"query": "zebra"}))[0] for name in served}
        until(lambda: all(tenancy.call(call).outcome_status for call in calls.values()), "the end of both")
        found = {name: tenancy.call(call) for name, call in calls.items()}
    assert found["trusted"].outcome_status is OutcomeStatus.SUCCEEDED
    assert found["trusted"].payload["structured"]["results"][0]["line"] == 1
    refused = found["strange"]
    assert (refused.outcome_status, refused.reason_code) == (OutcomeStatus.UNAVAILABLE, "tool.server_unreachable")
    assert '"status"' not in served["strange"][1].read_text(), "no request was made of it"
    assert '"status"' in served["trusted"][1].read_text()
