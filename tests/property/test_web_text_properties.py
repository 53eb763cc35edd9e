"""The text of a page, over any bytes in any charset."""

from hypothesis import given
from hypothesis import strategies as st

from tests.spec.requirements import gate
from toolsys.builtin.web_fetch import NotText, text_of
from toolsys.egress import HttpAnswer


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
