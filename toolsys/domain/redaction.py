"""The redacted copy that rows, pages and events keep; the sealed payload holds the whole.

Fails closed: a member whose *name* sounds like a secret is replaced whatever it holds, one that sounds like an address
keeps its postal code only, and text is searched for secrets, cards, national ids, e-mail addresses and phone numbers.
Pure. Source: DESIGN §8, GW "Input Redaction", "Output Redaction".
"""

import math
import re
from enum import Enum, auto
from functools import lru_cache
from typing import Any, Final

MARK: Final = "[REDACTED]"
MAXIMUM_TEXT: Final = 2_000
MAXIMUM_MEMBERS: Final = 200
MAXIMUM_DEPTH: Final = 12
_MARGIN: Final = 1_000
# Lone surrogates stand for what is taken out: a cut text has none, and they are more than it has characters.
_PLACES: Final = 0xD800
NAMES_KEPT: Final = 4_096
LONGEST_KEPT_NAME: Final = 64
_SHORTEST, _LONGEST = 10**9, 10**19  # of numbers that can be a phone or a card

_SECRET_NAME: Final = re.compile(
    r"passw|passphrase|secret|token|(?:api|private|session|access)[ _-]?key|authori[sz]ation|cookie|credential|"
    r"(?<![a-z])(?:pin|cvv|cvc)(?![a-z])|ssn|social[ _-]?security|tax[ _-]?id|iban|(?:card|account)[ _-]?number",
    re.IGNORECASE,
)
_PHONE_NAME: Final = re.compile(
    r"phone|mobile|msisdn|whats_?app|(?<![a-z])(?:tel|fax|cell|sms)(?![a-z])", re.IGNORECASE
)
# An address of the post. Others of that name say where a machine or a mailbox is.
_ADDRESS_NAME: Final = re.compile(
    r"street|apartment|house[ _-]?number|address[ _-]?line|(?<![a-z])addr(?:ess)?[ _-]?[12](?!\d)|"
    r"(?:postal|mailing|shipping|billing|delivery|home|residential)[ _-]?address|(?<![a-z _-])address(?:es)?(?![a-z])",
    re.IGNORECASE,
)
_POSTAL_NAME: Final = re.compile(r"(?<![a-z])zip(?![a-z]{2})|zip[ _-]?code|post(?:al)?[ _-]?code", re.IGNORECASE)
_POSTAL_CODE: Final = re.compile(
    r"\b(?:\d{5}(?:-\d{4})?|\d{4} ?[A-Z]{2}|[A-Z]{1,2}\d[A-Z\d]? ?\d[A-Z]{2}|[A-Z]\d[A-Z] ?\d[A-Z]\d)\b"
)
_SOCIAL_SECURITY: Final = re.compile(r"\b(?!000|666|9\d\d)\d{3}-(?!00)\d\d-(?!0000)\d{4}\b")
_NANP: Final = re.compile(r"1?[2-9]\d{2}[2-9]\d{6}\Z")
_SECRET_TEXT: Final = re.compile(
    r"-----BEGIN [A-Z ]{0,32}PRIVATE KEY-----[\s\S]*?(?:-----END [A-Z ]{0,32}PRIVATE KEY-----|\Z)|"
    r"\bAKIA[0-9A-Z]{16}\b|\bgh[pousr]_[A-Za-z0-9]{30,}|\bgithub_pat_\w{20,}|"
    r"\bxox[abprs]-[\w-]{10,}|\bsk-[\w-]{16,}|\bsk_(?:live|test)_\w{10,}|\bglpat-[\w-]{16,}|\bnpm_\w{30,}|"
    r"\btsk_[0-9a-z]{8}_[\w-]{20,}|\beyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]{4,}|\b[Bb]earer\s+[\w.~+/-]{12,}=*|"
    r"\w+://[^\s/:@]{1,64}:[^\s/@]{1,128}@",
)
_EMAIL: Final = re.compile(r"\b[\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63}){1,4}\b")
_DIGITS: Final = re.compile(r"(?<![\w.])\+?\(?\d(?:[ ().-]{0,2}\d){8,18}(?![\w])")


class Sound(Enum):
    """What the name of a member sounds like."""

    SECRET = auto()
    PHONE = auto()
    ADDRESS = auto()
    NOTHING = auto()


def holds_secret(text: str) -> bool:
    """Say whether a known kind of key, or a URL's password, is in a text."""
    return _SECRET_TEXT.search(text) is not None


def redact(value: Any, *, depth: int = 1) -> Any:
    """Return a copy of a JSON value that is fit for a row or a page."""
    if isinstance(value, str):
        return redact_text(value)
    if isinstance(value, dict):
        if depth > MAXIMUM_DEPTH:
            return MARK
        return {redact_text(key): _member(key, member, depth) for key, member in _members(value)}
    if isinstance(value, list | tuple):
        return MARK if depth > MAXIMUM_DEPTH else [redact(item, depth=depth + 1) for item in value[:MAXIMUM_MEMBERS]]
    if isinstance(value, int | float) and not isinstance(value, bool):
        return _number(value)
    return value


def _members(value: dict[str, Any]) -> list[tuple[str, Any]]:
    """Return what is kept of an object, by name: the same object has one redacted copy, however it was written."""
    return sorted(value.items(), key=lambda member: member[0])[:MAXIMUM_MEMBERS]


def redact_text(text: str) -> str:
    """Replace secrets and personal data, cut to 2,000 characters; NUL and lone surrogates go (jsonb refuses them)."""
    cut = _cut(text)
    if cut.isalpha():
        return cut
    found = _SECRET_TEXT.sub(MARK, cut)
    found = _EMAIL.sub(MARK, found)
    found = _SOCIAL_SECURITY.sub(MARK, found)
    found = _DIGITS.sub(_card_or_phone, found)
    return found if len(text) <= MAXIMUM_TEXT else f"{found}... [{len(text) - len(cut)} more characters]"


def replaced(text: str) -> list[str]:
    """Return what `redact_text` takes out of a text, in the order of its marks; for whoever holds the whole text."""
    found: list[str] = []

    def taken(match: re.Match[str]) -> str:
        found.append(match.group())
        return chr(_PLACES + len(found) - 1)

    rest = _cut(text)
    for pattern in (_SECRET_TEXT, _EMAIL, _SOCIAL_SECURITY):
        rest = pattern.sub(taken, rest)
    rest = _DIGITS.sub(lambda match: taken(match) if _card_or_phone(match) == MARK else match.group(), rest)
    return [found[ord(char) - _PLACES] for char in rest if ord(char) - _PLACES in range(len(found))]


def _cut(text: str) -> str:
    cut = text[: _before_a_straddling_match(text) if len(text) > MAXIMUM_TEXT else MAXIMUM_TEXT]
    cut = cut.replace("\0", "\N{SYMBOL FOR NULL}")
    return cut if cut.isascii() else cut.encode("utf-8", "replace").decode("utf-8")


def _before_a_straddling_match(text: str) -> int:
    """Cut before what the limit would split: half a secret is no longer recognized, and is still a secret."""
    window, limit = text[: MAXIMUM_TEXT + _MARGIN], MAXIMUM_TEXT
    spans = [
        match.span()
        for pattern in (_SECRET_TEXT, _EMAIL, _SOCIAL_SECURITY, _DIGITS)
        for match in pattern.finditer(window)
    ]
    for start, end in sorted(spans, key=lambda span: -span[1]):
        if start < limit < end:
            limit = start
    return limit


def passes_luhn(digits: str) -> bool:
    total = 0
    for index, digit in enumerate(reversed(digits)):
        doubled = int(digit) * (2 if index % 2 else 1)
        total += doubled - 9 if doubled > 9 else doubled
    return total % 10 == 0


def _member(name: str, value: Any, depth: int) -> Any:
    sounds_like = _sound(name) if len(name) <= LONGEST_KEPT_NAME else _sound.__wrapped__(name)
    if sounds_like is Sound.SECRET and value not in (None, "", [], {}) and not isinstance(value, bool):
        return MARK
    if sounds_like is Sound.PHONE:
        return _phones(value, depth + 1)
    if sounds_like is Sound.ADDRESS:
        return _address(value, depth + 1)
    return redact(value, depth=depth + 1)


@lru_cache(NAMES_KEPT)
def _sound(name: str) -> Sound:
    """Say what a member's name sounds like; the same names come again and again."""
    if _SECRET_NAME.search(name):
        return Sound.SECRET
    if _PHONE_NAME.search(name):
        return Sound.PHONE
    return Sound.ADDRESS if _ADDRESS_NAME.search(name) else Sound.NOTHING


def _address(value: Any, depth: int) -> Any:
    """What stands under a name that sounds like an address: its postal code stays."""
    if isinstance(value, dict | list | tuple):
        if depth > MAXIMUM_DEPTH:
            return MARK
        if isinstance(value, dict):
            return {
                redact_text(key): redact(member, depth=depth + 1) if _POSTAL_NAME.search(key)
                else _address(member, depth + 1)
                for key, member in _members(value)
            }  # fmt: skip
        return [_address(item, depth + 1) for item in value[:MAXIMUM_MEMBERS]]
    if value is None or value == "" or isinstance(value, bool):
        return value
    # A number in front is the house's.
    codes = [found for found in _POSTAL_CODE.finditer(str(value)[:MAXIMUM_TEXT]) if found.start()]
    return f"{MARK} {codes[-1].group()}" if codes else MARK


def _card_or_phone(match: re.Match[str]) -> str:
    text = match.group()
    digits = re.sub(r"\D", "", text)
    is_phone = text.startswith("+") or (len(digits) in {10, 11} and bool(re.search(r"[ ().-]", text)))
    return MARK if _is_card(digits) or is_phone else text


def _number(value: float) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if abs(value) < _SHORTEST or abs(value) >= _LONGEST or value != int(value):
        return value
    digits = str(abs(int(value)))
    return MARK if _is_card(digits) or _is_phone(digits) else value


def _is_card(digits: str) -> bool:
    return 13 <= len(digits) <= 19 and passes_luhn(digits)


def _is_phone(digits: str) -> bool:
    """Judge a number that was sent as one: there is no plus sign to tell it by.

    North American with or without the 1, else 11 to 15 digits of any other country. Seconds, milliseconds and
    microseconds since 1970 begin with a 1 until the year 2033 and are left alone.
    """
    return bool(_NANP.match(digits)) or (11 <= len(digits) <= 15 and digits[0] != "1")


def _phones(value: Any, depth: int) -> Any:
    """What stands under a name that sounds like a phone's: any number of six digits or more goes."""
    if isinstance(value, dict | list | tuple):
        if depth > MAXIMUM_DEPTH:
            return MARK
        if isinstance(value, dict):
            return {redact_text(key): _phones(member, depth + 1) for key, member in _members(value)}
        return [_phones(item, depth + 1) for item in value[:MAXIMUM_MEMBERS]]
    if isinstance(value, bool) or value is None:
        return value
    return MARK if len(re.sub(r"\D", "", str(value)[:MAXIMUM_TEXT])) >= 6 else redact(value, depth=depth)
