"""The egress table as data: what is asked for, what its name resolves to, and the reason it must end with.

`{sink}` in a URL is the port of the sink. A row's destination is on the allowlist even where it is hostile, so that
the rule under test and not the list refuses it; `allowed` says otherwise. `ANSWERED` rows keep the table honest: a
client that refuses everything fails them.
"""
# ruff: noqa: RUF001 - letters that look like others are what some rows are about

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

ANSWERED: Final = "answered"
# Two addresses behind which the public server stands, and one that swallows every dial.
PUBLIC, PUBLIC_6, BLACK_HOLE, CLOSED = "8.8.8.8", "2001:4860:4860::8888", "1.1.1.1", "9.9.9.9"
# What a resolver may do instead of answering.
NEVER, NO_SUCH_NAME = ("never",), ("no such name",)
API: Final = "https://api.example/"
MAXIMUM_BYTES: Final = 4_000


@dataclass(frozen=True, slots=True)
class Row:
    """`answers` holds one tuple a resolution, the last for all later ones. `requests` is how many reach the public
    server, `sink` how many connections the sink gets, `seconds` the bound on the whole, `tries` how often it is sent.
    """

    name: str
    url: str
    expected: str
    answers: tuple[tuple[str, ...], ...] = ((PUBLIC,),)
    allowed: tuple[str, ...] | None = None
    opened: tuple[str, ...] = ()
    is_plain_allowed: bool = True
    denied_hosts: tuple[str, ...] = ()
    denied_networks: tuple[str, ...] = ()
    environment: tuple[tuple[str, str], ...] = ()
    requests: int = 0
    sink: int = 0
    seconds: float = 5.0
    tries: int = 1


NOT_PUBLIC: Final = {
    "loopback": "127.0.0.1 127.1.2.3 127.255.255.254 ::1",
    "unspecified": "0.0.0.0 0.1.2.3 ::",
    "private": "10.0.0.1 10.255.255.255 172.16.0.1 172.31.255.254 192.168.0.1 192.168.255.254",
    "carrier-grade NAT": "100.64.0.1 100.127.255.254",
    "link-local": "169.254.0.1 169.254.255.254 fe80::1 febf::1",
    "metadata": "169.254.169.254 169.254.170.2 100.100.100.200 192.0.0.192 168.63.129.16 fd00:ec2::254",
    "multicast": "224.0.0.1 239.255.255.250 ff02::1 ff0e::1",
    "broadcast and reserved": "255.255.255.255 240.0.0.1 192.0.0.1 192.88.99.1",
    "documentation": "192.0.2.1 198.51.100.1 203.0.113.1 2001:db8::1 3fff::1",
    "benchmark": "198.18.0.1 198.19.255.254 2001:2::1",
    "unique and site local": "fc00::1 fdff:ffff::1 fec0::1",
    "mapped": "::ffff:127.0.0.1 ::ffff:7f00:1 ::ffff:10.0.0.1 ::ffff:a9fe:a9fe ::ffff:0.0.0.0",
    "compatible": "::127.0.0.1 ::7f00:1 ::a9fe:a9fe",
    "translated": "::ffff:0:127.0.0.1 ::ffff:0:a9fe:a9fe ::ffff:0:8.8.8.8",
    "NAT64": "64:ff9b::7f00:1 64:ff9b::127.0.0.1 64:ff9b::a9fe:a9fe 64:ff9b::10.0.0.1 64:ff9b:1::808:808",
    "6to4": "2002:7f00:1:: 2002:a9fe:a9fe:: 2002:808:808::",
    "Teredo": "2001:0:4136:e378:8000:63bf:3fff:fdd2 2001::1",
    "ISATAP": "2001:4860::5efe:7f00:1 2001:4860::200:5efe:a00:1",
    "other special": "100::1 100:0:0:1::1 2001:10::1 2001:20::1 5f00::1 4000::1 1::1",
}

# What inet_aton, and so the system's resolver, reads as an address.
NUMBERS: Final = {
    "127.0.0.1": (
        "2130706433 0x7f000001 0X7F000001 017700000001 0x7f.1 0x7f.0.0.1 0177.0.0.1 0177.0.0.01 127.1 127.0.1 "
        "127.0.0.0x1 127.000.000.001 00000127.0.0.1 127.0.0.1. 6425673729 0x17f000001"
    ),
    "169.254.169.254": "2852039166 0xa9fea9fe 0251.0376.0251.0376 169.254.43518 169.16689662 0xa9.0xfe.0xa9.0xfe",
    "10.0.0.1": "167772161 10.1 012.1 0xa.1",
    "0.0.0.0": "0 00 0x0 0x",
    "255.255.255.255": "4294967295 256.0.0.1 1.2.3.4.5 1.2.3 api.0x7f api.127",
}

MALFORMED: Final = {
    "zone": "[fe80::1%25eth0] [fe80::1%eth0] [::1%25lo] [::1%lo] [fe80::1%25]",
    "brackets": "[127.0.0.1] [v1.x] [::1 ::1] ::1 [] [::g] [1:2] [::1]x [::1].api.example [[::1]] [::ffff:127.1]",
    "trailing dots": "localhost. api.example. api.example.. 169.254.169.254.",
    "dots and dashes": ".api.example api..example -api.example api-.example api.-example . - %",
    "percent": "127%2e0.0.1 %31%32%37.0.0.1 localhost%00.api.example api.example%23.x %6c%6f%63alhost %2561 api%40x",
    "fullwidth": "１２７.0.0.1 ａpi.example api．example 127。0。0。1 127｡0｡0｡1 ［::1］",
    "look-alikes": "ⓛocalhost ①②⑦.0.0.1 loсalhost ⅼocalhost аpi.example \u212a.example ℡.example ß.example",
    "invisible": "api\u200b.example api\u00ad.example api\u200d.example \u202eelpmaxe.ipa api\ufeff.example",
    "control": "api\x00.example api\x7f.example api\x85.example api\ud800.example",
    "separators": "api.example;127.0.0.1 api.example,127.0.0.1 api.example|127.0.0.1 127.0.0.1\\.api.example {api}",
    "ports": "api.example:0 api.example:65536 api.example:99999 api.example:-1 api.example:+443 api.example: "
             "api.example:4４3 api.example:44_3 api.example:443:80 api.example:0x1bb api.example:http "
             "api.example:000443",
    "length": f"{'a' * 64}.example {'a.' * 130}example",
}  # fmt: skip

WHITE: Final = ("api\t.example", "api\n.example", "api\r.example", "api .example", "api.example\x0b")
NOT_ABSOLUTE: Final = (
    "", "/", "//127.0.0.1/", "127.0.0.1", "127.0.0.1:80/", "https:127.0.0.1/", "https:/127.0.0.1/",
    "https:\\\\127.0.0.1\\", "https:///127.0.0.1/", "https://", "https://:443/", "https://?x", "https://#x",
    " https://api.example/", "https ://api.example/", "https:\n//api.example/", "https://api.example/\r\nHost: x",
    "https://api.example/a b", "https://api.example/\x00", "https://api.example/" + "a" * 9_000,
    "javascript:x", "data:text/plain,x", "mailto:a@api.example",
)  # fmt: skip
SCHEMES: Final = (
    "ftp", "file", "gopher", "dict", "ldap", "ldaps", "tftp", "sftp", "ws", "wss", "unix", "http+unix", "jar:https",
    "view-source:https", "blob:https", "httpſ", "ʰttps", "h\u200bttps", "https%3a", "netdoc", "phar", "ssh", "smb",
)  # fmt: skip
USERS: Final = (
    "user:word@api.example", "user@api.example", "@api.example", ":@api.example", "api.example@127.0.0.1",
    "127.0.0.1@api.example", "api.example:443@127.0.0.1", "a@b@api.example", "api.example\\@127.0.0.1",
    "api.example%20@127.0.0.1", "[::1]@api.example", "api.example:pass%00word@127.0.0.1",
)  # fmt: skip
STRANGERS: Final = (
    "https://evil.example/", "https://evil.api.example/", "https://api.example.evil.example/",
    "https://evil-api.example/", "https://apiexample/", "https://xn--pi-6kc.example/", "https://api.example:22/",
    "https://api.example:8443/", "https://api.example:80/", "http://api.example:443/", "http://api.example/",
    "https://127.0.0.1:{sink}/", "https://localhost:{sink}/",
)  # fmt: skip
REDIRECTS: Final = {
    "to loopback": "https://127.0.0.1:{sink}/", "to the same origin": "https://api.example/raw/ok",
    "to a path": "/raw/ok", "without a scheme": "//127.0.0.1:{sink}/", "to metadata": "http://169.254.169.254/latest/",
}  # fmt: skip
ANSWERS: Final = {
    ANSWERED: "raw/ok raw/chunked raw/identity raw/not_modified raw/created raw/refresh raw/continue raw/long raw/both "
              "raw/folded",
    "encoding": "raw/gzip raw/x-gzip raw/br raw/zstd raw/twice raw/two_fields",
    "too_large": "raw/declared raw/over raw/one_field raw/many_fields endless/body endless/chunks "
                 "endless/chunk_extensions endless/fields endless/one_line endless/interim",
    "connection_lost": "raw/short raw/conflicting raw/negative raw/hexadecimal raw/digits raw/bad_chunk raw/huge_chunk "
                       "raw/trailers raw/upgrade raw/http09 raw/nonsense raw/nul_field raw/status_99 raw/transfer_gzip "
                       "drop broken_tls broken_tls/body",
}  # fmt: skip
TIMED: Final = ("drip/head", "drip/body", "silent")


def rows() -> Iterator[Row]:
    """Yield every row. The names are unique."""
    yield from _addresses()
    yield from _hosts()
    yield from _urls()
    yield from _resolutions()
    yield from _policies()
    yield from _ambient()
    yield from _answers()


def _addresses() -> Iterator[Row]:
    for kind, texts in NOT_PUBLIC.items():
        for text in texts.split():
            host = f"[{text}]" if ":" in text else text
            yield Row(f"{kind}: http to {text}", f"http://{host}:{{sink}}/", "address")
            yield Row(f"{kind}: https to {text}", f"https://{host}:{{sink}}/", "address")
            yield Row(f"{kind}: a name that is {text}", API, "address", ((text,),))
            yield Row(f"{kind}: {text} behind a public address", API, "address", ((PUBLIC, text),))
    for text in ("[::1]", "[0:0:0:0:0:0:0:1]", "[::0001]", "[0000:0000::0001]", "[::FFFF:7F00:1]"):
        yield Row(f"a spelling of {text}", f"https://{text}:{{sink}}/", "address")


def _hosts() -> Iterator[Row]:
    for address, texts in NUMBERS.items():
        for text in texts.split():
            yield Row(f"number: {text}", f"http://{text}:{{sink}}/", "malformed", ((address,),))
    for kind, texts in MALFORMED.items():
        for text in texts.split(" "):
            yield Row(f"{kind}: {text!r}", f"https://{text}/", "malformed", (("127.0.0.1",),))
    for text in WHITE:
        yield Row(f"white space: {text!r}", f"https://{text}/", "malformed", (("127.0.0.1",),))
    for host in ("localhost", "LOCALHOST", "ip6-localhost", "localhost.localdomain", "127.0.0.1.nip.example", "a_b"):
        yield Row(f"a name of this machine: {host}", f"https://{host}:{{sink}}/", "address", (("127.0.0.1",),))
    yield Row("metadata by name", "http://metadata.google.internal/", "address", (("169.254.169.254",),))


def _urls() -> Iterator[Row]:
    for text in NOT_ABSOLUTE:
        yield Row(f"not absolute or not clean: {text[:40]!r}", text, "malformed")
    for scheme in SCHEMES:
        yield Row(f"scheme: {scheme!r}", f"{scheme}://api.example/", "not_allowed")
    for user in USERS:
        yield Row(f"user: {user!r}", f"https://{user}:{{sink}}/", "userinfo", (("127.0.0.1",),))
    for mark in "?#/":
        url = f"https://127.0.0.1:{{sink}}{mark}@api.example/"
        yield Row(f"the host ends at {mark}", url, "address", allowed=(url, API))
    yield Row("a user after the fragment's mark", "https://api.example/raw/ok#@127.0.0.1", ANSWERED, requests=1)
    yield Row("upper case", "HTTPS://API.EXAMPLE/raw/ok", ANSWERED, requests=1)
    yield Row("the default port, written", "https://api.example:443/raw/ok", ANSWERED, requests=1)
    yield Row("line ends in a path, encoded", "https://api.example/raw/ok?%0d%0aHost:%20x", ANSWERED, requests=1)
    yield Row("letters beyond ASCII in a query", "https://api.example/raw/ok?q=ä", ANSWERED, requests=1)


def _resolutions() -> Iterator[Row]:
    lists = {
        "a bad one first": ("127.0.0.1", PUBLIC), "a bad one last": (PUBLIC, PUBLIC_6, "::1"),
        "behind a chain of names": (PUBLIC, PUBLIC, PUBLIC, "10.0.0.1"), "65 answers": (PUBLIC,) * 65,
        "no address": ("api.example",), "a number": ("2130706433",), "a short form": ("127.1",),
        "octal": ("0177.0.0.1",),
        "a zone on a public address": ("2001:4860::1%lo",), "link-local with a zone": ("fe80::1%eth0",), "empty": ("",),
    }  # fmt: skip
    for name, answer in lists.items():
        yield Row(f"answers: {name}", API, "address", (answer,))
    yield Row("answers: none", API, "unreachable", ((),))
    yield Row("no such name", API, "unreachable", (NO_SUCH_NAME,))
    yield Row("a resolver that never answers", API, "timeout", (NEVER,), seconds=0.1)
    yield Row("a dial that never connects", API, "timeout", ((BLACK_HOLE,),), seconds=0.1)
    yield Row("nobody listens", API, "unreachable", ((CLOSED,),))
    ok = "https://api.example/raw/ok"
    yield Row("the second address works", ok, ANSWERED, ((CLOSED, PUBLIC),), requests=1)
    yield Row("four are closed, a fifth is not tried", ok, "unreachable",
              (("9.9.9.9", "9.9.9.10", "9.9.9.11", "9.9.9.12", PUBLIC),))  # fmt: skip
    for name, text in {"IPv6": PUBLIC_6, "mapped": f"::ffff:{PUBLIC}", "NAT64": f"64:ff9b::{PUBLIC}"}.items():
        yield Row(f"a public address, {name}", ok, ANSWERED, ((text,),), requests=1)
    yield Row("a public address, literal", f"https://{PUBLIC}/raw/ok", ANSWERED, ((),), requests=1)
    # Public when it is checked, loopback when a client asks again for the dial.
    for address in ("127.0.0.1", "::1", "169.254.169.254", "::ffff:127.0.0.1"):
        yield Row(f"rebinding to {address} before the dial", ok, ANSWERED, ((PUBLIC,), (address,)), requests=1)
        yield Row(f"rebinding to {address} before the next fetch", ok, "address", ((PUBLIC,), (address,)),
                  requests=1, tries=2)  # fmt: skip
    yield Row("the name stays what the certificate is for", "https://other.example/raw/ok", "unreachable")


def _policies() -> Iterator[Row]:
    for url in STRANGERS:
        yield Row(f"not on the list: {url}", url, "not_allowed", (("127.0.0.1",),), allowed=(API,))
    yield Row("nothing is allowed by default", API, "not_allowed", allowed=())
    yield Row("denied", API, "denied", denied_hosts=("api.example",))
    yield Row("denied with what is below it", "https://a.b.example/", "denied", denied_hosts=("B.example.",))
    yield Row("denied does not reach beside", "https://api.example/raw/ok", ANSWERED, denied_hosts=("i.example",),
              requests=1)  # fmt: skip
    yield Row("a denied network", API, "address", denied_networks=("8.8.8.0/24",))
    yield Row("a denied network, mapped", API, "address", ((f"::ffff:{PUBLIC}",),), denied_networks=("8.8.8.0/24",))
    yield Row("denied although opened", "http://127.0.0.1:{sink}/", "address", opened=("127.0.0.0/8",),
              denied_networks=("127.0.0.1/32",))  # fmt: skip
    yield Row("plain HTTP without an opt-in", "http://api.example/", "plain_http", (("10.0.0.1",),),
              opened=("10.0.0.0/8",), is_plain_allowed=False)  # fmt: skip
    yield Row("plain HTTP to an opened address without an opt-in", "http://127.0.0.1:{sink}/", "plain_http",
              opened=("127.0.0.1/32",), is_plain_allowed=False)  # fmt: skip
    yield Row("HTTPS where plain HTTP has no opt-in", "https://api.example/raw/ok", ANSWERED,
              allowed=(API, "http://api.example:443/"), is_plain_allowed=False, requests=1)  # fmt: skip
    yield Row("plain HTTP to a public address", "http://api.example/", "plain_http")
    yield Row("plain HTTP to one public address of two", "http://api.example/", "plain_http",
              (("10.0.0.1", PUBLIC),), opened=("10.0.0.0/8",))  # fmt: skip
    yield Row("beside the opened network", "http://127.0.0.2:{sink}/", "address", opened=("127.0.0.1/32",))
    yield Row("the sink counts", "http://127.0.0.1:{sink}/", ANSWERED, opened=("127.0.0.1/32",), sink=1)
    yield Row("the sink counts, by name", "http://localhost:{sink}/", ANSWERED, (("127.0.0.1",),),
              opened=("127.0.0.1/32",), sink=1)  # fmt: skip


def _ambient() -> Iterator[Row]:
    """What the environment says about proxies and passwords is not for us."""
    proxy = "http://127.0.0.1:{sink}"
    for name in ("HTTPS_PROXY", "https_proxy", "ALL_PROXY", "HTTP_PROXY"):
        yield Row(
            f"a proxy in {name}", "https://api.example/raw/ok", ANSWERED, environment=((name, proxy),), requests=1
        )
    yield Row("a password in netrc", "https://api.example/raw/ok", ANSWERED, environment=(("NETRC", "{netrc}"),),
              requests=1)  # fmt: skip


def _answers() -> Iterator[Row]:
    for status in (300, 301, 302, 303, 305, 307, 308, 399):
        for name, target in REDIRECTS.items():
            url = f"https://api.example/redirect/{status}/{target}"
            yield Row(f"redirect {status} {name}", url, "redirect", requests=1)
    for reason, paths in ANSWERS.items():
        for path in paths.split():
            yield Row(f"answer: {path}", f"https://api.example/{path}", reason, requests=1)
    yield Row("answer: raw/huge_field", "https://api.example/raw/huge_field", "too_large", requests=1)
    for path in TIMED:
        yield Row(f"answer: {path}", f"https://api.example/{path}", "timeout", requests=1, seconds=0.5)
