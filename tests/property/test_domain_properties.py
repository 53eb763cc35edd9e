"""Names, recovery, trust, redaction, excerpts and envelopes, over everything that can be drawn."""

import json
from typing import Any
from uuid import UUID

from hypothesis import assume, given
from hypothesis import strategies as st

from tests.property.strategies import wild
from tests.spec.requirements import gate
from toolsys.domain import excerpt, names, recovery, redaction
from toolsys.domain.excerpt import Envelope as Wrapper
from toolsys.domain.recovery import RecoveryAction
from toolsys.domain.spec import Classification, IdempotencyClass, RiskLevel, SideEffectClass
from toolsys.domain.trust import TrustLevel, lowered, lowest
from toolsys.envelope import Envelope

ARTIFACT = UUID(int=7)
SEALER = Envelope([b"k" * 32])
UNTRUSTED = TrustLevel.EXTERNAL_UNTRUSTED
long_texts = st.builds(lambda unit, times: unit * times, st.text(min_size=1, max_size=12), st.integers(40, 400))
labels = st.sampled_from(TrustLevel)
classifications = st.builds(
    Classification,
    side_effect=st.sampled_from(SideEffectClass),
    risk=st.sampled_from(RiskLevel),
    idempotency=st.sampled_from(IdempotencyClass),
)
SECRETS = st.sampled_from([
    "AKIAIOSFODNN7EXAMPLE", "ghp_" + "a1" * 18, "sk-proj-abcdefghijklmnop1234", "tsk_ab12cd34_" + "Z" * 43,
    "4111 1111 1111 1111", "5500005555555559", "jane.doe@example.org", "+49 30 12345678", "(415) 555-2671",
])  # fmt: skip


@gate("decision.fingerprints")
@given(st.lists(st.one_of(SECRETS, st.text(max_size=40)), max_size=6).map("".join))
def test_the_marks_of_a_text_and_what_is_taken_out_of_it_are_as_many_and_in_order(text: str) -> None:
    assume(redaction.MARK not in text)
    shown = redaction.redact_text(text)
    for taken in redaction.replaced(text):
        shown = shown.replace(redaction.MARK, taken, 1)
    assert shown == text.replace("\0", "\N{SYMBOL FOR NULL}").encode("utf-8", "replace").decode()


@gate("names.normalization", "names.grammar")
@given(st.text(max_size=120))
def test_every_remote_name_becomes_a_name_in_the_grammar(remote: str) -> None:
    segment = names.normalize_remote_name(remote)
    assert 0 < len(segment) <= names.MAXIMUM_REMOTE_LENGTH
    assert names.is_valid_name(names.mcp_tool_name("acme", remote))
    assert names.normalize_remote_name(segment) in {segment, segment.replace("__", "_"), segment.rstrip("_")}
    assert names.normalize_remote_name(remote) == segment


@gate("recovery.table")
@given(classifications, classifications, st.booleans(), st.booleans())
def test_recovery_is_total_and_the_stricter_class_is_never_bolder(
    one: Classification, two: Classification, sent: bool, passes_key: bool
) -> None:
    def decided(found: Classification) -> RecoveryAction:
        return recovery.recover(recovery.effective_class(found.idempotency, passes_key=passes_key), effect_sent=sent)

    boldness = list(RecoveryAction)
    merged = one.stricter(two)
    assert merged == two.stricter(one)
    assert boldness.index(decided(merged)) >= max(boldness.index(decided(one)), boldness.index(decided(two)))
    assert sent or decided(merged) is RecoveryAction.RE_EXECUTE


@gate("trust.lowest")
@given(st.lists(labels), labels, st.none() | labels)
def test_no_label_ever_raises_trust(
    context: list[TrustLevel], declared: TrustLevel, claimed: TrustLevel | None
) -> None:
    assert all(lowest(context).rank >= label.rank for label in context)
    assert lowered(declared, claimed).rank >= declared.rank


@gate("redaction.closed")
@given(wild)
def test_redaction_never_raises_and_can_always_be_stored(value: Any) -> None:
    found = redaction.redact(value)
    stored = json.dumps(found, allow_nan=False, ensure_ascii=False).encode()
    assert b"\0" not in stored
    assert b"\\u0000" not in stored


@gate("redaction.closed")
@given(SECRETS, st.text(" .,:;()\n<>[]", max_size=2_050), st.text(" .,;\n<>[]", min_size=1, max_size=20))
def test_a_planted_secret_never_passes(secret: str, before: str, after: str) -> None:
    found = json.dumps(redaction.redact({"log": [f"{before} {secret}{after}"], f"{secret} ": 1}))
    assert secret not in found
    assert secret[:12] not in found


@gate("redaction.closed")
@given(st.sampled_from(["password", "api-key", "Authorization", "sessionToken", "PIN"]), wild)
def test_a_secret_member_never_passes_at_any_depth(name: str, value: Any) -> None:
    assume(value not in (None, "", [], {}) and not isinstance(value, bool))
    assert redaction.redact([{"a": {name: value}}]) == [{"a": {name: redaction.MARK}}]


@gate("output.excerpt")
@given(long_texts, st.integers(0, 2_500))
def test_an_excerpt_keeps_its_budget_and_is_cut_from_the_text(text: str, budget: int) -> None:
    data = text.encode("utf-8", "replace")
    clean = data.decode()
    assume(len(data) > budget)
    cut = excerpt.excerpt(clean, budget_bytes=budget, artifact_id=ARTIFACT)
    if cut is None:
        assert budget < len(excerpt.elision_line(len(data), ARTIFACT)) + 4
        return
    assert len(json.dumps(cut.plain(), ensure_ascii=False).encode()) - 2 <= budget
    assert clean.startswith(cut.head)
    assert clean.endswith(cut.tail)
    elided = len(data) - len(cut.head.encode()) - len(cut.tail.encode())
    assert cut.elision == excerpt.elision_line(elided, ARTIFACT)
    assert elided > 0


@gate("output.envelope")
@given(long_texts, st.integers(90, 400))
def test_external_text_never_stands_outside_an_envelope(text: str, budget: int) -> None:
    clean = text.encode("utf-8", "replace").decode()
    wrapper = Wrapper(UNTRUSTED, "mcp.acme.read", ("0123456789abcdef", "fedcba9876543210"))
    assume(len(clean.encode()) > budget)
    cut = excerpt.excerpt(clean, budget_bytes=budget, artifact_id=ARTIFACT)
    assume(cut is not None)
    assert cut is not None
    shown = cut.enveloped(wrapper)
    before, _, rest = shown.partition(wrapper.open(0) + "\n" + cut.head + "\n" + wrapper.close(0))
    between, _, after = rest.partition(wrapper.open(1) + "\n" + cut.tail + "\n" + wrapper.close(1))
    assert (before, between, after) == ("", f"\n{cut.elision}\n", "")


@gate("sealing.bound")
@given(st.binary(max_size=200), st.text(max_size=8), st.text(max_size=8), st.uuids())
def test_what_is_sealed_comes_back(plain: bytes, tenant: str, kind: str, row: UUID) -> None:
    tenant, kind = (part.encode("utf-8", "replace").decode() for part in (tenant, kind))
    sealed = SEALER.seal(plain, tenant_id=tenant, kind=kind, row=row)
    assert SEALER.open(sealed, tenant_id=tenant, kind=kind, row=row) == plain
