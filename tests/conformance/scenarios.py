"""Which client scenarios of the suite apply to our adapter, and why the others do not.

The suite's own list is compared with this table: a scenario that neither names is a failure until somebody decides.
"""

from typing import Final

OLD, NEW = "2025-11-25", "2026-07-28"
REVISIONS: Final = ("2025-03-26", "2025-06-18", OLD, NEW)

# By scenario; each is played at every revision that the suite gives it.
APPLY: Final = frozenset({
    "initialize", "tools_call", "sse-retry", "request-metadata", "http-standard-headers", "http-custom-headers",
    "http-invalid-tool-headers", "json-schema-ref-no-deref", "json-schema-2020-12-preservation",
    "auth/client-credentials-basic", "auth/pre-registration",
})  # fmt: skip

_PERSON: Final = "a login that a person gives in a browser: refused with tool.auth_unsupported (TS Authentication)"
_ISSUER: Final = "judges the answer that a browser brings back from a person's login, and no such login is begun (TS)"
_REGISTERS: Final = "needs a client that registers itself, and then a person's login; ours is configured by operators"
_INPUT: Final = "answering a server's question would be a second send: tool.input_required_unsupported (DESIGN §7)"
_FIXED: Final = "the token endpoint and its client are configured and never discovered (TS Authentication)"
_GRANTS: Final = "one grant, client_credentials with a secret; this is none of the five schemes (TS Authentication)"
_FILES: Final = "skills served as files are no surface of ours: prompts become skills (TS What MCP resources become)"

OTHERS: Final[dict[str, str]] = {
    "elicitation-sep1034-client-defaults": "elicitation is declined at negotiation (DESIGN §7)",
    "sep-2322-client-request-state": _INPUT,
    **dict.fromkeys(
        (
            "auth/metadata-default", "auth/metadata-var1", "auth/metadata-var2", "auth/metadata-var3",
            "auth/basic-cimd", "auth/scope-from-www-authenticate", "auth/scope-from-scopes-supported",
            "auth/scope-omitted-when-undefined", "auth/scope-step-up", "auth/scope-retry-limit",
            "auth/2025-03-26-oauth-metadata-backcompat", "auth/2025-03-26-oauth-endpoint-fallback",
            "auth/offline-access-scope", "auth/offline-access-not-supported",
        ),
        _PERSON,
    ),
    **dict.fromkeys(
        ("auth/token-endpoint-auth-basic", "auth/token-endpoint-auth-post", "auth/token-endpoint-auth-none"),
        _REGISTERS,
    ),
    **dict.fromkeys(
        (
            "auth/iss-supported", "auth/iss-not-advertised", "auth/iss-supported-missing", "auth/iss-wrong-issuer",
            "auth/iss-unexpected", "auth/iss-normalized",
        ),
        _ISSUER,
    ),
    **dict.fromkeys(
        (
            "auth/resource-mismatch", "auth/authorization-server-migration", "auth/metadata-issuer-mismatch",
        ),
        _FIXED,
    ),
    **dict.fromkeys(
        (
            "auth/client-credentials-jwt", "auth/enterprise-managed-authorization", "auth/dpop", "auth/dpop-nonce",
            "auth/wif-jwt-bearer",
        ),
        _GRANTS,
    ),
    **dict.fromkeys(
        (
            "sep-2640-client-no-prefetch", "sep-2640-client-verify-digest", "sep-2640-client-verify-size",
            "sep-2640-client-verify-frontmatter",
        ),
        _FILES,
    ),
}  # fmt: skip
EXTENSION: Final = "extension"
# An extension belongs to no revision; this is the one that it is played at.
PLAYED_AT: Final = {EXTENSION: NEW}
