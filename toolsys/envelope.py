"""Envelope encryption for payloads and credentials: AES-256-GCM data keys under a ring of master keys.

Every sealed value has a data key of its own, wrapped by the newest master key; both layers are bound to where the
bytes belong (tenant, kind, row), so that a sealed value moved elsewhere does not open. Source: DESIGN §8.

    version 1 | key id 4 bytes | nonce 12 | wrapped data key 48 | nonce 12 | ciphertext and tag
"""

import hashlib
import hmac
import os
from collections.abc import Sequence
from typing import Final
from uuid import UUID

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

_VERSION: Final = b"\x01"
_KEY_BYTES: Final = 32
_WRAPPED: Final = slice(17, 65)
_HEADER: Final = 77


class CannotOpen(Exception):
    """The sealed bytes are damaged, or belong elsewhere."""


class UnknownKey(CannotOpen):
    """The master key is not in this process's ring: another process may have it. The text names it by its id."""


class Envelope:
    """Seals under the first key of the ring and opens under any. Implements `ports.Sealer`."""

    def __init__(self, ring: Sequence[bytes]) -> None:
        if not ring or any(len(key) != _KEY_BYTES for key in ring):
            raise ValueError("MASTER_ENCRYPTION_KEY needs one or more 32-byte keys")
        self._keys = {key_id(key): AESGCM(key) for key in ring}
        self._current = key_id(ring[0])
        # Digests outlive key rotation of payloads, so they hang on the oldest key of the ring.
        self._digest_key = hmac.digest(ring[-1], b"toolsys payload digest", "sha256")

    def seal(self, plain: bytes, *, tenant_id: str, kind: str, row: UUID) -> bytes:
        bound = _associated(tenant_id, kind, row, self._current)
        data_key, wrap_nonce, nonce = os.urandom(_KEY_BYTES), os.urandom(12), os.urandom(12)
        wrapped = self._keys[self._current].encrypt(wrap_nonce, data_key, bound)
        return b"".join((
            _VERSION, self._current, wrap_nonce, wrapped, nonce, AESGCM(data_key).encrypt(nonce, plain, bound)
        ))  # fmt: skip

    def open(self, sealed: bytes, *, tenant_id: str, kind: str, row: UUID) -> bytes:
        """Raises: CannotOpen; UnknownKey."""
        if sealed[:1] != _VERSION or len(sealed) < _HEADER:
            raise CannotOpen("unknown version, or cut")
        found = self._keys.get(sealed[1:5])
        if found is None:
            raise UnknownKey(f"MASTER_ENCRYPTION_KEY lacks the key {sealed[1:5].hex()} that sealed this")
        bound = _associated(tenant_id, kind, row, sealed[1:5])
        try:
            data_key = found.decrypt(sealed[5:17], sealed[_WRAPPED], bound)
            return AESGCM(data_key).decrypt(sealed[65:_HEADER], sealed[_HEADER:], bound)
        except InvalidTag:
            raise CannotOpen("damaged, or moved from where it belongs") from None

    def digest(self, plain: bytes) -> str:
        return hmac.digest(self._digest_key, plain, "sha256").hex()


def key_id(key: bytes) -> bytes:
    return hashlib.sha256(b"toolsys key id" + key).digest()[:4]


def _associated(tenant_id: str, kind: str, row: UUID, key: bytes) -> bytes:
    return b"\0".join((tenant_id.encode(), kind.encode(), row.bytes, key))
