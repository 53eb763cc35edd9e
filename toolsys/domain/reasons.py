"""One row per reason code: status, fixed message, retryable, remediation, HTTP status, source.

API bodies, admin text and the reference page are rendered from this table. Codes are wire format: they are added,
never renamed. No message ever contains a rule, a host, a stack trace or text from outside. Source: TS "What the
model reads", "Advertisement is pinned", GW "Failure Modes", DESIGN §1, §3 and §6.
"""

from dataclasses import dataclass
from typing import Final

from toolsys.domain.results import Remediation, ToolFailureKind, ToolOutcome
from toolsys.domain.states import OutcomeStatus

NONE, MODIFY, LATER, ASK, OPERATOR = (
    Remediation.NONE, Remediation.MODIFY_ARGUMENTS, Remediation.RETRY_LATER, Remediation.ASK_USER,
    Remediation.CONTACT_OPERATOR,
)  # fmt: skip
DENIED, FAILED, UNAVAILABLE, UNCERTAIN, SUCCEEDED = (
    OutcomeStatus.DENIED, OutcomeStatus.FAILED, OutcomeStatus.UNAVAILABLE, OutcomeStatus.UNCERTAIN,
    OutcomeStatus.SUCCEEDED,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Reason:
    """`status` is None for a problem of the request, which writes no row; outcomes travel as HTTP 200."""

    code: str
    status: OutcomeStatus | None
    message: str
    retryable: bool
    remediation: Remediation
    http_status: int
    source: str


def _outcome(
    code: str, status: OutcomeStatus, message: str, source: str, *, fix: Remediation = NONE, retryable: bool = False
) -> Reason:
    return Reason(code, status, message, retryable, fix, 200, source)


def _problem(
    code: str, http_status: int, message: str, source: str, *, fix: Remediation = NONE, retryable: bool = False
) -> Reason:
    return Reason(code, None, message, retryable, fix, http_status, source)


_NOT_ALLOWED: Final = "Not performed. Policy does not allow this action."
_NOT_REACHABLE: Final = "This capability is not reachable right now."
_HELD: Final = "Not performed. Approval was required and was denied."

_ROWS: Final = (
    _outcome("tool.succeeded", SUCCEEDED, "Performed.", "TS results"),
    # Denied before a tool ran.
    _outcome("policy.matrix.unknown_tool", DENIED, "Not performed. No such tool is offered here.", "TS Resolution"),
    _outcome("policy.agent.not_enabled", DENIED, "Not performed. This agent may not use this tool.", "TS step 2"),
    _outcome("policy.scope.missing", DENIED, "Not performed. A required permission is missing.", "TS step 3"),
    _outcome("policy.switch.off", DENIED, "Not performed. Execution is switched off.", "DESIGN §5", retryable=True),
    _outcome("policy.feature.disabled", DENIED, "Not performed. Tool execution is not enabled for this organisation.",
             "GW Feature Flag"),
    _outcome("policy.manifest.not_listed", DENIED, "Not performed. This tool is not part of this run.", "GW Manifest"),
    _outcome("policy.matrix.none", DENIED, _NOT_ALLOWED, "DESIGN §5"),
    _outcome("policy.matrix.workspace_read", DENIED, _NOT_ALLOWED, "DESIGN §5"),
    _outcome("policy.matrix.workspace_write", DENIED, _HELD, "DESIGN §5"),
    _outcome("policy.matrix.network_read", DENIED, _NOT_ALLOWED, "DESIGN §5"),
    _outcome("policy.matrix.external_read", DENIED, _HELD, "DESIGN §5"),
    _outcome("policy.matrix.external_write", DENIED, _HELD, "TS What the model reads"),
    _outcome("policy.rule.allow", DENIED, _NOT_ALLOWED, "DESIGN §5 rules"),
    _outcome("policy.rule.observe", DENIED, _NOT_ALLOWED, "DESIGN §5 rules"),
    _outcome("policy.rule.require_expert_approval", DENIED, _HELD, "DESIGN §5 rules"),
    _outcome("policy.rule.require_client_approval", DENIED, _HELD, "DESIGN §5 rules"),
    _outcome("policy.rule.block", DENIED, _NOT_ALLOWED, "DESIGN §5 rules"),
    _outcome("policy.rule.unreadable", DENIED, _NOT_ALLOWED, "DESIGN §5 rules", fix=OPERATOR),
    _outcome("policy.trust.untrusted_write", DENIED, _HELD, "DESIGN §5 built in rules"),
    _outcome("policy.trust.skill_authoring", DENIED, _NOT_ALLOWED, "TS Skills"),
    _outcome("policy.approval.rejected", DENIED, _HELD, "DESIGN §5"),
    _outcome("policy.approval.expert_rejected", DENIED, "Not performed. An expert reviewed and rejected this action.",
             "GW EXPERT_REJECTED"),
    _outcome("policy.approval.client_rejected", DENIED, "Not performed. The client reviewed and rejected this action.",
             "DESIGN §5 seats"),
    _outcome("policy.approval.expired", DENIED, "Not performed. Approval was required and did not arrive in time.",
             "DESIGN §5", fix=ASK),
    _outcome("policy.approval.voided", DENIED, "Not performed. The approval no longer matches this action.",
             "DESIGN §5", fix=ASK),
    _outcome("policy.approval.not_covering", DENIED, "Not performed. The approval does not cover this action.",
             "DESIGN §3", fix=ASK),
    _outcome("policy.approval.grant_ended", DENIED, "Not performed. The standing approval for this action has ended.",
             "DESIGN §3 grants", fix=ASK),
    # What people who reject a call may tell the agent (`domain.rejections`).
    _outcome("policy.rejected.wrong_target", DENIED, "Not performed. This is the wrong target for the action.",
             "issue 5 reject codes", fix=MODIFY),
    _outcome("policy.rejected.wrong_arguments", DENIED, "Not performed. A reviewer found the arguments wrong.",
             "issue 5 reject codes", fix=MODIFY),
    _outcome("policy.rejected.not_needed", DENIED, "Not performed. A reviewer found the action not needed.",
             "issue 5 reject codes"),
    _outcome("policy.rejected.not_now", DENIED, "Not performed. A reviewer wants this action at a later time.",
             "issue 5 reject codes", fix=LATER),
    _outcome("policy.rejected.too_risky", DENIED, "Not performed. A reviewer found the action too risky.",
             "issue 5 reject codes"),
    _outcome("policy.rejected.ask_first", DENIED, "Not performed. Ask the user before proposing this action.",
             "issue 5 reject codes", fix=ASK),
    _outcome("tool.not_found.not_offered", DENIED, "Not performed. No such tool is offered here.", "TS Control tools"),
    _outcome("tool.budget_spent", DENIED, "Not performed. This run has made all the calls that it may make.",
             "DESIGN §6 budgets", fix=ASK),
    _outcome("tool.policy_denied", DENIED, "Stopped. The same denied action was proposed repeatedly.", "TS breakers"),
    _outcome("tool.repeat_uncertain", DENIED, "Not performed. An identical call has an unknown outcome.",
             "TS breakers"),
    # Failed.
    _outcome("tool.arguments_invalid", FAILED, "The arguments do not fit this tool.", "TS step 4", fix=MODIFY),
    _outcome("tool.not_found", FAILED, "The target of this call was not found.", "TS ToolFailureKind", fix=MODIFY),
    _outcome("tool.permission", FAILED, "The remote system refused this call.", "TS ToolFailureKind", fix=OPERATOR),
    _outcome("tool.timeout", FAILED, "The call did not finish in time.", "TS context", retryable=True, fix=LATER),
    _outcome("tool.output_too_large", FAILED, "The tool produced more output than allowed.", "TS Output", fix=MODIFY),
    _outcome("tool.output_too_large.performed", FAILED, "The tool ran and produced more output than allowed.",
             "TS step 11"),
    _outcome("tool.output_invalid", FAILED, "The tool ran and its answer could not be read.", "TS step 11"),
    _outcome("tool.output_invalid.not_text", FAILED, "The target is not text and was not read.", "issue 3 web.fetch",
             fix=MODIFY),
    _outcome("tool.upstream_error", FAILED, "The tool reported an error. Details follow as data.", "TS outcomes",
             retryable=True, fix=MODIFY),
    _outcome("tool.transport", FAILED, "The connection to the tool failed.", "TS ToolFailureKind", retryable=True,
             fix=LATER),
    _outcome("tool.internal", FAILED, "The tool failed.", "TS ToolFailureKind", fix=OPERATOR),
    _outcome("tool.rate_limited", FAILED, "The remote system asked to slow down.", "DESIGN §4", retryable=True,
             fix=LATER),
    _outcome("tool.egress_denied", FAILED, "This destination is not permitted.", "DESIGN §8", fix=OPERATOR),
    _outcome("tool.protocol_error", FAILED, "The tool's answer did not follow its protocol.", "DESIGN §7",
             fix=OPERATOR),
    _outcome("tool.input_required_unsupported", FAILED, "The tool asked for input that is not provided here.",
             "DESIGN §7"),
    _outcome("tool.credentials_missing", FAILED, "This tool is not connected to its account.",
             "GW Missing Credentials", fix=OPERATOR),
    _outcome("tool.run_cancelled", FAILED, "The run was cancelled.", "TS Control tools"),
    _outcome("tool.cancelled", FAILED, "The call was cancelled.", "DESIGN §4"),
    _outcome("tool.run_expired", FAILED, "The run ended before this call could start.", "DESIGN §3"),
    _outcome("tool.unreadable", FAILED, "What was stored of this call cannot be read any more.", "DESIGN §3",
             fix=OPERATOR),
    _outcome("tool.claims_spent", FAILED, "The call could not be completed after several attempts.", "DESIGN §4",
             retryable=True, fix=LATER),
    _outcome("tool.loop_detected", FAILED, "Stopped. The same call was repeated without new evidence.", "TS breakers"),
    _outcome("audit.persistence_failed", FAILED, "The result could not be recorded.", "AUD", fix=OPERATOR),
    # Unavailable: advertised, not callable now.
    _outcome("tool.server_unreachable", UNAVAILABLE, _NOT_REACHABLE, "TS availability", retryable=True),
    _outcome("tool.server_busy", UNAVAILABLE, _NOT_REACHABLE, "issue 4 B45", retryable=True, fix=LATER),
    _outcome("tool.server_unauthorized", UNAVAILABLE, _NOT_REACHABLE, "TS availability", fix=OPERATOR),
    _outcome("tool.auth_failed", UNAVAILABLE, _NOT_REACHABLE, "TS Authentication", fix=OPERATOR),
    _outcome("tool.auth_unsupported", UNAVAILABLE, _NOT_REACHABLE, "TS Authentication", fix=OPERATOR),
    _outcome("tool.withdrawn", UNAVAILABLE, "This capability was withdrawn.", "TS availability"),
    _outcome("tool.quarantined", UNAVAILABLE, "This capability waits for a review.", "DESIGN §7", fix=OPERATOR),
    _outcome("tool.device_offline", UNAVAILABLE, _NOT_REACHABLE, "TS availability", retryable=True),
    # Uncertain.
    _outcome("tool.outcome_unknown", UNCERTAIN, "The outcome of this call is unknown. Do not repeat it.",
             "TS outcomes"),
    # Problems of the request: nothing was written.
    _problem("request.malformed", 400, "The body is not valid JSON.", "DESIGN §1", fix=MODIFY),
    _problem("request.invalid", 422, "The request does not fit its schema.", "DESIGN §1", fix=MODIFY),
    _problem("request.unsupported_media_type", 415, "Send application/json.", "issue Bad input", fix=MODIFY),
    _problem("request.not_acceptable", 406, "Only application/json is produced.", "notes api", fix=MODIFY),
    _problem("request.too_large", 413, "The body is larger than allowed.", "issue Bad input", fix=MODIFY),
    _problem("request.method_not_allowed", 405, "This method is not allowed here.", "notes api", fix=MODIFY),
    _problem("request.not_found", 404, "There is no such resource.", "issue Bad input", fix=MODIFY),
    _problem("request.range_not_satisfiable", 416, "The range lies outside of this content.", "issue 3 artifact API",
             fix=MODIFY),
    _problem("artifact.unreadable", 500, "The stored content is damaged or missing.", "issue 3 artifact API",
             fix=OPERATOR),
    _problem("request.throttled", 429, "Too many requests.", "notes api", retryable=True, fix=LATER),
    _problem("auth.missing", 401, "Send an API key: Authorization: Bearer tsk_...", "DESIGN §6"),
    _problem("auth.invalid", 401, "This API key is not valid.", "DESIGN §6"),
    _problem("auth.forbidden", 403, "This key or account may not do that.", "DESIGN §6", fix=OPERATOR),
    _problem("auth.csrf", 403, "The request carries no valid CSRF token.", "DESIGN §6"),
    _problem("session.closed", 409, "This session is closed.", "DESIGN §6"),
    _problem("run.not_open", 409, "This run has ended.", "issue Bad input"),
    _problem("run.expired", 409, "This run's deadline has passed.", "issue Bad input"),
    _problem("step.conflict", 409, "This step was submitted before with another body.", "DESIGN §3"),
    _problem("step.duplicate_call_id", 422, "Each call of a step needs a call_id of its own.", "TS step", fix=MODIFY),
    _problem("approval.changed", 409, "This request changed. Look at it again.", "DESIGN §5"),
    _problem("approval.altered", 409, "What this request shows is not what it was asked for. It can only be rejected.",
             "DESIGN §5 digest"),
    _problem("approval.decided", 409, "This request is already decided.", "DESIGN §5"),
    _problem("approval.expired", 409, "This request has expired.", "DESIGN §5"),
    _problem("approval.call_ended", 409, "The call was cancelled; there is nothing to decide.", "issue 5 races"),
    _problem("approval.own_call", 403, "Whoever proposed a call cannot decide it.", "DESIGN §5 four eyes"),
    _problem("approval.own_key", 403, "Whoever owns the key that proposed a call cannot decide it.",
             "DESIGN §5 four eyes"),
    _problem("approval.own_policy", 403, "Whoever wrote what holds this call cannot decide it.",
             "DESIGN §5 four eyes"),
    _problem("approval.already_voted", 409, "You have voted on this request.", "DESIGN §5 seats"),
    _problem("approval.no_vote", 409, "You have no vote here that could be withdrawn.", "issue 5 withdrawn votes"),
    _problem("approval.seat_taken", 409, "That seat is taken by somebody else.", "DESIGN §5 seats"),
    _problem("approval.password_needed", 403, "Enter your password again to decide this.", "issue 5 high risk"),
    _problem("approval.bulk_mixed", 422, "Approve together only what is of one tool and one reason.",
             "issue 5 bulk", fix=MODIFY),
    _problem("catalog.changed", 409, "This catalog changed. Look at it again.", "DESIGN §7"),
    _problem("grant.not_open", 409, "This grant is not waiting for a confirmation.", "issue 5 grants"),
    _problem("grant.ended", 409, "This grant has ended.", "issue 5 grants"),
    _problem("access.not_refused", 409, "This call was not refused for want of access.", "issue 5 access requests"),
    _problem("access.decided", 409, "This request for access is answered.", "issue 5 access requests"),
    _problem("access.limit", 429, "This run has asked for access too often.", "issue 5 access requests", fix=ASK),
    _problem("resolution.not_uncertain", 409, "The outcome of this call is known.", "DESIGN §4"),
    # The MCP face: what is wrong with a message, and a call that has no outcome yet.
    _problem("mcp.request_invalid", 400, "The message is not one JSON-RPC request.", "DESIGN §6 mcp", fix=MODIFY),
    _problem("mcp.method_unknown", 404, "This method is not served here.", "DESIGN §6 mcp", fix=MODIFY),
    _problem("mcp.parameters_invalid", 400, "The parameters do not fit the method.", "DESIGN §6 mcp", fix=MODIFY),
    _problem("mcp.revision_unsupported", 400, "This protocol revision is not served here.", "DESIGN §6 mcp",
             fix=MODIFY),
    _problem("mcp.header_mismatch", 400, "A header and the message disagree.", "DESIGN §6 mcp", fix=MODIFY),
    _problem("mcp.capability_missing", 400, "The request does not declare a capability that it needs.",
             "DESIGN §6 mcp", fix=MODIFY),
    _problem("mcp.origin_refused", 403, "Requests of this origin are not answered.", "DESIGN §6 mcp"),
    _problem("mcp.session_missing", 400, "Send the Mcp-Session-Id that initialize returned.", "DESIGN §6 mcp",
             fix=MODIFY),
    _problem("mcp.session_unknown", 404, "There is no such session. Send initialize again.", "DESIGN §6 mcp"),
    _problem("mcp.task_unknown", 404, "There is no such task.", "DESIGN §6 mcp", fix=MODIFY),
    _problem("mcp.key_reused", 409, "This idempotency key named another call before.", "DESIGN §6 mcp", fix=MODIFY),
    _problem("mcp.waiting_for_approval", 409, "Not performed yet. People have to approve it first.", "DESIGN §6 mcp",
             retryable=True, fix=LATER),
    _problem("mcp.in_progress", 409, "Not finished yet. It goes on by itself.", "DESIGN §6 mcp", retryable=True,
             fix=LATER),
    _problem("server.internal", 500, "Something went wrong here. The request id helps support.", "notes api",
             fix=OPERATOR),
    _problem("server.unreadable", 500, "What was stored of this cannot be read any more.", "DESIGN §8", fix=OPERATOR),
    _problem("server.unavailable", 503, "The service is not ready.", "notes api", retryable=True, fix=LATER),
)  # fmt: skip

REASONS: Final = {row.code: row for row in _ROWS}

_KIND_CODES: Final = {
    ToolFailureKind.INVALID_ARGUMENTS: "tool.arguments_invalid",
    ToolFailureKind.OUTCOME_UNKNOWN: "tool.outcome_unknown",
}


def reason(code: str) -> Reason:
    return REASONS[code]


def code_for_failure(kind: ToolFailureKind, claimed: str) -> str:
    """Return the code of the table for a tool's failure: the tool's own if it is known, else its kind's."""
    if claimed in REASONS and REASONS[claimed].status in {FAILED, UNAVAILABLE, UNCERTAIN}:
        return claimed
    return _KIND_CODES.get(kind, f"tool.{kind}")


def outcome(code: str, action: str) -> ToolOutcome:
    """Render the six fields from the table.

    Raises: LookupError for a code that is a problem of the request and no outcome.
    """
    row = REASONS[code]
    if row.status is None:
        raise LookupError(code)
    return ToolOutcome(
        status=row.status, action=action, reason_code=code, message=row.message, retryable=row.retryable,
        remediation=row.remediation,
    )  # fmt: skip
