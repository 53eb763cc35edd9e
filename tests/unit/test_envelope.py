"""Sealed bytes open where they belong and nowhere else."""

from uuid import UUID

import pytest

from tests.spec.requirements import gate
from toolsys.envelope import CannotOpen, Envelope

OLD, NEW, FOREIGN = (bytes([n]) * 32 for n in range(3))
ROW = UUID(int=1)
PLAIN = b'{"a":1}'


def seal(envelope: Envelope) -> bytes:
    return envelope.seal(PLAIN, tenant_id="acme", kind="result", row=UUID(int=1))


def opened(envelope: Envelope, sealed: bytes, tenant_id: str = "acme", kind: str = "result", row: UUID = ROW) -> bytes:
    return envelope.open(sealed, tenant_id=tenant_id, kind=kind, row=row)


@gate("sealing.bound")
def test_what_was_sealed_opens_and_shows_nothing() -> None:
    envelope = Envelope([NEW])
    sealed = seal(envelope)
    assert opened(envelope, sealed) == PLAIN
    assert PLAIN not in sealed
    assert sealed != seal(envelope), "each value has a data key and nonces of its own"
    assert opened(envelope, envelope.seal(b"", tenant_id="acme", kind="result", row=UUID(int=1))) == b""


@gate("sealing.bound")
@pytest.mark.parametrize(
    ("tenant_id", "kind", "row"),
    [("globex", "result", UUID(int=1)), ("acme", "arguments", UUID(int=1)), ("acme", "result", UUID(int=2)),
     ("acme\0result", "", UUID(int=1)), ("", "", UUID(int=0))],
)  # fmt: skip
def test_a_value_moved_elsewhere_does_not_open(tenant_id: str, kind: str, row: UUID) -> None:
    envelope = Envelope([NEW])
    with pytest.raises(CannotOpen):
        opened(envelope, seal(envelope), tenant_id, kind, row)


@gate("sealing.bound")
def test_a_value_damaged_anywhere_does_not_open() -> None:
    envelope = Envelope([NEW])
    sealed = seal(envelope)
    for position in range(len(sealed)):
        damaged = bytearray(sealed)
        damaged[position] ^= 1
        with pytest.raises(CannotOpen):
            opened(envelope, bytes(damaged))
    for length in range(len(sealed)):
        with pytest.raises(CannotOpen):
            opened(envelope, sealed[:length])


@gate("sealing.bound")
def test_the_ring_rotates() -> None:
    before = seal(Envelope([OLD]))
    rotated = Envelope([NEW, OLD])
    assert opened(rotated, before) == PLAIN
    with pytest.raises(CannotOpen):
        opened(Envelope([OLD]), seal(rotated))
    assert opened(Envelope([NEW]), seal(rotated)) == PLAIN
    with pytest.raises(CannotOpen):
        opened(Envelope([FOREIGN]), before)


@gate("sealing.bound")
def test_digests_are_keyed_and_survive_a_rotation() -> None:
    digest = Envelope([OLD]).digest(PLAIN)
    assert Envelope([NEW, OLD]).digest(PLAIN) == digest
    assert len({digest, Envelope([NEW]).digest(PLAIN), Envelope([OLD]).digest(b"{}")}) == 3


@pytest.mark.parametrize("ring", [[], [b"short"], [NEW, b"x" * 33]])
def test_a_ring_without_whole_keys_is_refused(ring: list[bytes]) -> None:
    with pytest.raises(ValueError, match="32-byte"):
        Envelope(ring)
