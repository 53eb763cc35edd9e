"""Media types: what is recorded of a claim, and what a browser is ever told."""

from uuid import UUID

import pytest

from tests.spec.requirements import gate
from toolsys.domain import media

IDENTIFIER = UUID("018f0000-0000-7000-8000-00000000000a")


@pytest.mark.parametrize(
    ("claimed", "recorded"),
    [
        ("image/png", "image/png"),
        ("Image/PNG", "image/png"),
        ("text/plain; charset=UTF-8", "text/plain; charset=utf-8"),
        ('text/plain;charset="utf-8"', "text/plain; charset=utf-8"),
        ("application/vnd.ms-excel", "application/vnd.ms-excel"),
        ("text/html", "text/html"),
        ("", media.OPAQUE),
        ("png", media.OPAQUE),
        ("image/png\r\nSet-Cookie: a=b", media.OPAQUE),
        ("image/png\n", "image/png"),
        ("image/png; boundary=x", media.OPAQUE),
        ("a" * 64 + "/x", media.OPAQUE),
        ("image/p\u0433", media.OPAQUE),
        ("image/png, text/html", media.OPAQUE),
        ("*/*", media.OPAQUE),
    ],
)
def test_a_claimed_type_is_recorded_only_in_the_grammar_of_a_header(claimed: str, recorded: str) -> None:
    assert media.recorded(claimed) == recorded


@gate("artifact.served")
@pytest.mark.parametrize("kind", [
    "text/html", "text/html; charset=utf-8", "TEXT/HTML", "application/xhtml+xml", "image/svg+xml", "text/xml",
    "application/xml", "text/javascript", "application/javascript", "application/x-shockwave-flash", "text/css",
    "multipart/mixed", "message/rfc822", "text/cache-manifest", "application/vnd.ms-excel", "nonsense",
])  # fmt: skip
def test_what_could_hold_a_script_is_served_as_opaque_bytes(kind: str) -> None:
    assert media.served(kind) == media.OPAQUE
    assert media.file_name(IDENTIFIER, kind) == f"artifact-{IDENTIFIER}.bin"


@pytest.mark.parametrize(
    ("kind", "served", "extension"),
    [
        ("image/png", "image/png", "png"),
        ("text/plain; charset=utf-8", "text/plain; charset=utf-8", "txt"),
        ("text/csv; charset=utf-16", "text/csv; charset=utf-8", "csv"),
        ("application/json", "application/json", "json"),
    ],
)
def test_harmless_types_are_served_as_they_are(kind: str, served: str, extension: str) -> None:
    assert (media.served(kind), media.file_name(IDENTIFIER, kind)) == (served, f"artifact-{IDENTIFIER}.{extension}")


@pytest.mark.parametrize(
    ("path", "kind"),
    [("a/b.PNG", "image/png"), ("x.jpeg", "image/jpeg"), ("x.log", media.TEXT),
     ("notes.md", "text/markdown; charset=utf-8"), ("x.html", media.OPAQUE), ("x.svg", media.OPAQUE),
     ("noextension", media.OPAQUE), ("dir.png/x", media.OPAQUE)],
)  # fmt: skip
def test_a_type_is_guessed_from_a_closed_list(path: str, kind: str) -> None:
    assert media.of_path(path) == kind
