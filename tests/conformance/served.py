"""Which server scenarios of the suite apply to our MCP face, and why the others do not.

A scenario may need tools by fixed names (`test_simple_text`, `slow_compute`): ours are governed, named by domain, and
none is made up for a suite. What those scenarios would see is tested in `tests/integration/api/test_mcp_*.py`.
"""

from typing import Final

from tests.conformance.scenarios import NEW, OLD

# By scenario, the revisions that are played.
SERVED: Final[dict[str, tuple[str, ...]]] = {
    "server-initialize": (OLD,),
    "server-session-lifecycle": (OLD,),
    "ping": (OLD,),
    "tools-list": (OLD, NEW),
    "dns-rebinding-protection": (OLD, NEW),
    "http-header-validation": (NEW,),
    "server-sse-multiple-streams": (OLD, NEW),
    "input-required-result-unsupported-methods": (NEW,),
}

_TOOL: Final = "calls a tool by a fixed name that is the suite's own; ours are named by domain and governed"
_TASK: Final = "makes tasks with tools of the suite's own; ours are held calls, which a person decides"
_RESOURCES: Final = "the face serves tools; resources of servers stand behind a tool of ours (TS)"
_PROMPTS: Final = "the face serves tools; prompts become skills, whose metadata is at /v1/skills (TS Skills)"
_ASKS: Final = "asks the client something; nothing here does: people decide in the console (DESIGN §6)"
_STREAMS: Final = "needs a stream of the server's; the face answers each request with one JSON document"
_FILES: Final = "skills served as files are no surface of ours (TS Skills)"

NOT_SERVED: Final[dict[str, str]] = {
    **dict.fromkeys(
        (
            "tools-call-simple-text", "tools-call-image", "tools-call-audio", "tools-call-embedded-resource",
            "tools-call-mixed-content", "tools-call-error", "json-schema-2020-12",
        ),
        _TOOL,
    ),
    **dict.fromkeys(
        ("tools-call-with-logging", "tools-call-with-progress", "logging-set-level", "server-sse-polling"), _STREAMS
    ),
    **dict.fromkeys(
        (
            "tools-call-sampling", "tools-call-elicitation", "elicitation-sep1034-defaults",
            "elicitation-sep1330-enums", "input-required-result-basic-elicitation",
            "input-required-result-basic-sampling", "input-required-result-basic-list-roots",
            "input-required-result-request-state", "input-required-result-multiple-input-requests",
            "input-required-result-multi-round", "input-required-result-missing-input-response",
            "input-required-result-non-tool-request", "input-required-result-result-type",
            "input-required-result-tampered-state", "input-required-result-capability-check",
            "input-required-result-ignore-extra-params", "input-required-result-validate-input",
        ),
        _ASKS,
    ),
    **dict.fromkeys(
        (
            "resources-list", "resources-read-text", "resources-read-binary", "resources-templates-read",
            "resources-subscribe", "resources-unsubscribe", "sep-2164-resource-not-found",
        ),
        _RESOURCES,
    ),
    **dict.fromkeys(
        (
            "prompts-list", "prompts-get-simple", "prompts-get-with-args", "prompts-get-embedded-resource",
            "prompts-get-with-image", "completion-complete",
        ),
        _PROMPTS,
    ),
    **dict.fromkeys(("sep-2640-skills-directory", "sep-2640-skills-enumeration", "sep-2640-skills-manifest"), _FILES),
    **dict.fromkeys(
        (
            "tasks-lifecycle", "tasks-capability-negotiation", "tasks-wire-fields", "tasks-request-state-removal",
            "tasks-mrtr-input", "tasks-request-headers", "tasks-dispatch-and-envelope", "tasks-status-notifications",
            "tasks-required-task-error", "tasks-mrtr-composition",
        ),
        _TASK,
    ),
    "caching": "asks for the lists of prompts and resources too, which are not served; tools/list passes its checks",
    "http-custom-header-server-validation": "needs a tool with x-mcp-header; the face takes them out of its schemas",
    "server-stateless": "needs tools of its own that sample, log and stream, and subscriptions; the rest passes",
}  # fmt: skip
