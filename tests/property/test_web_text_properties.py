"""What a page says, over any bytes in any charset, and when it asks to come again, whatever it writes there."""

from datetime import UTC, datetime

from hypothesis import example, given
from hypothesis import strategies as st

from tests.spec.requirements import gate
from toolsys.builtin.web_fetch import NotText, text_of
from toolsys.egress import MAXIMUM_RETRY_AFTER_SECONDS, HttpAnswer, retry_after_seconds


@gate("web.text")
@given(
    st.binary(max_size=200),
    st.sampled_from(["text/plain; charset=", "application/json;charset=", "text/html; charset=\"", "; charset=", ""]),
    st.sampled_from([
        "", "utf-8", "utf-16", "utf-16le", "utf-32", "shift_jis", "euc-jp", "euc-kr", "iso-2022-jp", "gb2312", "gbk",
        "gb18030", "big5", "koi8-u", "cp874", "cp949", "iso-8859-15", "macintosh", "ascii", "idna", "punycode", "zip",
        "undefined", "mbcs", "utf-8-sig", "raw_unicode_escape", "base64", "charmap",
    ]),
)  # fmt: skip
def test_whatever_bytes_come_in_whatever_charset_they_are_text_or_refused(
    body: bytes, media_type: str, label: str
) -> None:
    try:
        text = text_of(HttpAnswer(200, body, {"content-type": f"{media_type}{label}"}))[0]
    except NotText:
        return
    assert "\0" not in text


@gate("web.failures")
@given(st.lists(st.sampled_from([
    "Mon,", "30", "31", "Feb", "Nov", "0001", "2026", "9999", "99999999999", "12:00:00", "12:99:00", "GMT", "+9999",
    "-0000", "+99999999", "-1", "1.5", "inf", "nan", "\u0663", "\x00", "",
]), max_size=7).map(" ".join))  # fmt: skip
@example("Feb 99999999999 99999999999 12:00:00 0 EST")
def test_when_to_come_again_is_bounded_or_unknown(field: str) -> None:
    seconds = retry_after_seconds(field, datetime(2026, 11, 30, tzinfo=UTC))
    assert seconds is None or 0 <= seconds <= MAXIMUM_RETRY_AFTER_SECONDS
