"""What the ledger's copy never holds."""

import json
from typing import Any

import pytest

from tests.spec.requirements import gate
from toolsys.domain.redaction import MARK, MAXIMUM_MEMBERS, MAXIMUM_TEXT, redact, redact_text, replaced

SECRETS = [
    "AKIAIOSFODNN7EXAMPLE",
    "ghp_" + "a1" * 18,
    "github_pat_11ABCDEFG0_abcdefghijkl",
    "xoxb-123456789012-abcdef",
    "sk-proj-abcdefghijklmnop1234",
    "sk_live_4eC39HqLyjWDarjtT1zdp7dc",
    "glpat-abcdefghij0123456789",
    "npm_" + "b2" * 18,
    "tsk_ab12cd34_" + "Z" * 43,
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.dozjgNryP4J3jVmN",
    "Bearer abcdef0123456789",
    "bearer abcdef0123456789==",
    "4111 1111 1111 1111",
    "4111-1111-1111-1111",
    "4111111111111111",
    "378282246310005",
    "jane.doe+x@mail.example.org",
    "ümit@exämple.de",
    "+49 30 123456789",
    "+14155552671",
    "415-555-2671",
    "(415) 555-2671",
    "+1 (415) 555-2671",
    "1.415.555.2671",
]


@gate("redaction.closed")
@pytest.mark.parametrize("secret", SECRETS)
def test_secrets_and_personal_data_are_replaced_wherever_they_stand(secret: str) -> None:
    frames = ["{}", "see {} there", '"{}"', "<{}>", "a,{},b", "({})", "key={}\n"]
    found = {frame: redact_text(frame.format(secret)) for frame in frames}
    assert {frame: text for frame, text in found.items() if MARK not in text or secret.strip("()+") in text} == {}


@gate("redaction.closed")
def test_a_url_keeps_its_host_and_loses_its_password() -> None:
    assert redact_text("postgres://app:hunter2@db.example/x") == f"{MARK}db.example/x"


@gate("redaction.closed")
@pytest.mark.parametrize("end", ["\n-----END RSA PRIVATE KEY-----", ""], ids=["whole", "cut off"])
def test_a_private_key_goes_with_its_body(end: str) -> None:
    key = f"-----BEGIN RSA PRIVATE KEY-----\nMIIEowIBAAKCAQEA0Z3VS5JJcds3\nabcdefgh{end}"
    assert redact_text(f"before {key}") == f"before {MARK}"


@gate("redaction.closed")
@pytest.mark.parametrize("name", [
    "password", "Passwd", "client_secret", "apiKey", "api_key", "X-Api-Key", "Authorization", "refresh_token", "cookie",
    "private_key", "pin", "PIN", "user_pin", "cvv", "card_cvc", "ssn", "iban", "card_number", "credential", "tax_id",
    "card-number", "Account Number", "private-key", "social-security",
])  # fmt: skip
def test_a_member_that_sounds_like_a_secret_is_replaced_whatever_it_holds(name: str) -> None:
    values: list[Any] = ["plain", 1234, 12.5, ["a"], {"a": "b"}, 0]
    found = [redact({"outer": [{name: value, "other": "kept"}]}) for value in values]
    assert found == [{"outer": [{name: MARK, "other": "kept"}]}] * len(values)


def test_an_empty_secret_and_a_flag_stay_as_they_are() -> None:
    given: dict[str, Any] = {"password": None, "token": "", "secret": [], "cookie": {}, "has_token": True}
    assert redact(given) == given


@pytest.mark.parametrize("text", [
    "Hello, world", "2026-11-30T05:17:00Z", "1234567890", "order 4711", "3.14159265358979", "spinning shopping",
    "4111 1111 1111 1112", "10115 Berlin", "018f3a5c-0000-7000-8000-000000000001", "a@b", "sk-short",
])  # fmt: skip
def test_ordinary_text_is_left_alone(text: str) -> None:
    assert redact_text(text) == text


def test_ordinary_values_are_left_alone() -> None:
    given = {"spinner": "x", "opinion": "y", "n": 1234567890123, "zip": "10115", "f": 1.5, "t": True, "none": None}
    assert redact(given) == given


def test_card_numbers_written_as_numbers_are_replaced() -> None:
    assert redact([4111111111111111, -4111111111111111, 4111111111111112]) == [MARK, MARK, 4111111111111112]


@gate("redaction.closed")
@pytest.mark.parametrize(
    "number",
    [4155552671, 14155552671, 442071838750, 4915112345678, 33612345678, 919876543210, 861381234567890,
     14155552671.0, 4111111111111111.0, -14155552671],
)  # fmt: skip
def test_phone_and_card_numbers_sent_as_numbers_are_replaced(number: float) -> None:
    assert redact({"contacts": [{"n": number}]}) == {"contacts": [{"n": MARK}]}


@pytest.mark.parametrize(
    "number",
    [1764489900, 1764489900123, 1764489900123456, 1234567890123, 999_999_999, 10**9, 10**15, 2**63, 10**400,
     3.5e10 + 0.5, 0, -1, 1155552671],
)  # fmt: skip
def test_moments_counts_and_long_identifiers_are_left_alone(number: float) -> None:
    assert redact([number]) == [number]


@gate("redaction.closed")
@pytest.mark.parametrize("name", ["phone", "phoneNumber", "mobile_no", "tel", "home-tel", "fax", "MSISDN", "whatsapp"])
def test_a_member_that_sounds_like_a_phone_loses_its_numbers(name: str) -> None:
    values: list[Any] = [5552671, "5552671", "555 26 71", 1155552671, [5552671], {"work": ["5552671"]}]
    found = [json.dumps(redact({name: value, "city": "Berlin"})) for value in values]
    assert [text for text in found if MARK not in text or "71" in text or "Berlin" not in text] == []


@pytest.mark.parametrize(
    ("name", "value"), [("phone", None), ("has_phone", True), ("phone_type", "home"), ("hotel", 5552671), ("cells", 42)]
)
def test_what_only_sounds_like_a_phone_stays(name: str, value: Any) -> None:
    assert redact({name: value}) == {name: value}


@pytest.mark.parametrize(
    ("name", "address", "kept"),
    [
        ("address", "742 Evergreen Terrace, Springfield, OR 97475", f"{MARK} 97475"),
        ("shipping_address", "12345 Main Street, Springfield, IL 62701-0001", f"{MARK} 62701-0001"),
        ("billingAddress", "10 Downing Street, London SW1A 2AA", f"{MARK} SW1A 2AA"),
        ("street", "12345 Main Street", MARK),
        ("address_line_1", "somewhere", MARK),
        ("addresses", ["Keizersgracht 1, 1015 CJ Amsterdam", ""], [f"{MARK} 1015 CJ", ""]),
        ("address", {"street": "1 Main St", "city": "Bern", "zip": "3011", "geo": {"lat": 46.9}},
         {"street": MARK, "city": MARK, "zip": "3011", "geo": {"lat": MARK}}),
        ("address", {"postal_code": 97475, "lines": [17]}, {"postal_code": 97475, "lines": [MARK]}),
    ],
)  # fmt: skip
def test_an_address_keeps_its_postal_code_only(name: str, address: Any, kept: Any) -> None:
    assert redact({name: address}) == {name: kept}


@pytest.mark.parametrize("name", ["ip_address", "mac-address", "listen_address", "wallet address", "zipper"])
def test_where_a_machine_is_stays(name: str) -> None:
    assert redact({name: "10.0.0.1"}) == {name: "10.0.0.1"}


@pytest.mark.parametrize(("text", "kept"), [
    ("his is 219-09-9999, he said", f"his is {MARK}, he said"), ("of 000-12-3456", "of 000-12-3456"),
    ("part x219-09-9999", "part x219-09-9999"),
])  # fmt: skip
def test_a_social_security_number_is_replaced_in_text(text: str, kept: str) -> None:
    assert redact_text(text) == kept


def test_keys_are_searched_too() -> None:
    assert redact({"jane@example.org": 1}) == {MARK: 1}


@gate("redaction.closed")
def test_what_it_returns_can_be_stored() -> None:
    found = redact({"a\0": "b\0\ud800", "n": [float("nan"), float("inf"), 1.0]})
    assert found == {"a\N{SYMBOL FOR NULL}": "b\N{SYMBOL FOR NULL}?", "n": [None, None, 1.0]}
    json.dumps(found, allow_nan=False, ensure_ascii=False).encode()


@gate("redaction.closed")
@pytest.mark.parametrize("offset", [0, 5, 15, 19])
@pytest.mark.parametrize("secret", ["AKIAIOSFODNN7EXAMPLE", "4111 1111 1111 1111!", "jane.doe@example.org"])
def test_half_a_secret_at_the_limit_is_not_kept(secret: str, offset: int) -> None:
    start = "." * (MAXIMUM_TEXT - offset - 1) + " "
    found = redact_text(start + secret + " and more")
    assert found.startswith(start[:1_000])
    assert secret[:5] not in found


def test_long_text_wide_objects_and_deep_values_are_cut() -> None:
    assert (
        redact_text("x" * 2_500) == "x" * 2_000 + "... [500 more characters]" or redact_text("x" * 2_500) == "x" * 2_000
    )
    assert len(redact({str(n): n for n in range(1_000)})) == MAXIMUM_MEMBERS
    assert len(redact(list(range(1_000)))) == MAXIMUM_MEMBERS
    deep: Any = {"password": "x"}
    for _ in range(100):
        deep = {"a": [deep]}
    assert MARK in json.dumps(redact(deep))
    assert "password" not in json.dumps(redact(deep))


@gate("decision.fingerprints")
def test_what_is_taken_out_is_told_in_the_order_of_its_marks() -> None:
    text = "to +14155552671 or jane@example.org, key AKIAIOSFODNN7EXAMPLE, order 12345678901, id 078-05-1120"
    assert replaced(text) == ["+14155552671", "jane@example.org", "AKIAIOSFODNN7EXAMPLE", "078-05-1120"]
    assert replaced("nothing to hide, literally [REDACTED] \U000f0000 \0 \ud800") == []
