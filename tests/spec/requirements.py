"""The requirement manifest: what the specification and the design ask for, one behaviour a row.

`@gate("id")` binds a test to the requirement that it proves; `test_manifest.py` checks both directions from the source
of the tests, so that a partial run and a distributed one see the same. The sixteen hard gates keep their numbers; a
row that a later issue owes says so in `due`. Any test module may import `gate`; nothing else is for use elsewhere.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Requirement:
    """`due` names the issue that owes the proof; empty means now."""

    id: str
    source: str
    sentence: str
    due: str = ""


ISSUE_3, ISSUE_4, ISSUE_5 = "issue 3", "issue 4", "issue 5"
LATER: Final = frozenset({ISSUE_3, ISSUE_4, ISSUE_5})

_GATES: Final = (
    Requirement("gate.1", "TS gate 1", "Every registered ToolSpec passes registration validation."),
    Requirement("gate.2", "TS gate 2", "No MCP, device or sandbox tool is trusted above external_untrusted."),
    Requirement(
        "gate.3", "TS gate 3", "A non-idempotent builtin sets the watermark before its first outbound operation."
    ),
    Requirement("gate.4", "TS gate 4", "An outcome serializes to exactly six fields, its message from the table."),
    Requirement("gate.5", "TS gate 5", "No external text appears in the message of any failure path."),
    Requirement("gate.6", "TS gate 6", "The import-boundary walk passes."),
    Requirement("gate.7", "TS gate 7", "A crash at each of the fourteen steps recovers as the table says."),
    Requirement("gate.8", "TS gate 8", "Two concurrent submissions of the same call produce one execution."),
    Requirement(
        "gate.9", "TS gate 9", "Canonical form and hash are invariant under key order and Unicode composition."
    ),
    Requirement("gate.10", "TS gate 10", "A builtin in a reserved domain is a startup error."),
    Requirement("gate.11", "TS gate 11", "An MCP call traverses the same fourteen steps as a builtin call."),
    Requirement("gate.12", "TS gate 12", "A server that disconnects mid-call yields unavailable; the run goes on."),
    Requirement("gate.13", "TS gate 13", "No module outside the adapter imports an MCP SDK type."),
    Requirement("gate.14", "TS gate 14", "Configuration validation rejects every invalid authentication row."),
    Requirement("gate.15", "TS gate 15", "The re-authentication ladder is bounded and routed through recovery."),
    Requirement("gate.16", "TS gate 16", "A stdio child receives a constructed environment."),
)

_TYPES: Final = (
    Requirement(
        "result.shape", "TS ToolResult", "A tool result succeeded or carries a failure; it cannot state a status."
    ),
    Requirement("result.trust_lowers", "TS ToolResult", "A tool may lower the trust of its output and never raise it."),
    Requirement("context.fields", "TS ToolExecutionContext", "The context has exactly the specified fields."),
    Requirement(
        "spec.fields", "TS ToolSpec", "output_trust is required; an unclassified tool counts as the strictest."
    ),
    Requirement(
        "spec.stricter", "DESIGN §1", "Of snapshot and live classification the stricter counts, field by field."
    ),
    Requirement("states.total", "TS two result shapes", "Every outcome status maps to one terminal invocation status."),
    Requirement("reasons.complete", "STYLE §6", "Every reason code has one row, and codes are never renamed."),
    Requirement(
        "trust.lowest", "TS argument trust", "Origin trust is the lowest label; without labels it is untrusted."
    ),
)

_REGISTRY: Final = (
    Requirement("names.grammar", "TS Names", "A name is lower-case dotted segments of at most 96 characters."),
    Requirement("names.domains", "TS Names", "Domains are partitioned; builtins cannot enter mcp or device."),
    Requirement(
        "names.normalization", "TS Names", "A remote name has one normalized form, whatever else is in the catalog."
    ),
    Requirement("names.conflict", "TS Names", "Two tools of a server that normalize alike are both dropped."),
    Requirement("registration.control", "TS ToolSpec", "Control tools are a closed set without effects, in process."),
    Requirement(
        "registration.targets", "TS Names", "Network targets of builtins are valid with one classification only."
    ),
    Requirement(
        "registration.ceiling", "TS Output", "A tool above the global output ceiling is refused, never clamped."
    ),
    Requirement("registration.scopes", "DESIGN §7", "An MCP tool may require only scopes of its own server."),
    Requirement(
        "registration.siblings", "DESIGN §7", "One bad tool never costs its siblings; each rejection says why."
    ),
    Requirement(
        "schemas.no_remote", "TS validation", "A remote reference is refused at registration and never fetched."
    ),
    Requirement("schemas.closing", "DESIGN §1", "Unknown arguments are refused unless the schema permits them."),
    Requirement("schemas.bounded", "DESIGN §3", "Schemas are bounded in size and depth, patterns in time."),
    Requirement(
        "registry.filters", "TS Resolution", "A session is offered what agent, scopes, profile and environment permit."
    ),
    Requirement(
        "registry.availability", "TS Advertisement", "What makes an advertised tool uncallable shows at call time."
    ),
    Requirement("registry.pinned", "TS Resolution", "A session resolves against exactly the set that it advertised."),
    Requirement("registry.shared_sets", "TS Resolution", "A set is stored once, under its hash, and never changed."),
    Requirement(
        "registry.kept_offers", "TS Mapping", "What people say of a server shows in the next pin of every process."
    ),
)

_CALLS: Final = (
    Requirement("canonical.form", "TS canonical form", "Arguments have one canonical form, or are invalid arguments."),
    Requirement("canonical.strict", "DESIGN §1", "What two readers could read differently is refused."),
    Requirement("canonical.sent", "issue 3", "What is checked, hashed, shown and sent is one document."),
    Requirement("canonical.defaults", "TS canonical form", "Defaults are applied before the hash is taken."),
    Requirement(
        "key.derivation", "TS The key", "The key is the specified hash over its seven inputs; attempts are no input."
    ),
    Requirement("key.verbatim", "TS The key", "The key is passed on verbatim, only where the operator says."),
    Requirement("key.raw_space", "DESIGN §1", "Arguments without canonical form have a key space of their own."),
    Requirement("key.tenant", "DESIGN §1", "The key is unique per tenant: no tenant can probe another's rows."),
    Requirement(
        "arguments.nesting", "DESIGN §1", "Well-formed arguments nested too deeply are the fault of their call alone."
    ),
    Requirement("validation.oracle", "issue 3", "Two implementations of JSON Schema agree on what is valid."),
    Requirement("validation.total", "DESIGN §3", "Whatever a tool returns is judged; checking it never raises."),
    Requirement("validation.masked", "DESIGN §3", "What a validator says never contains the value that it refused."),
    Requirement("pipeline.order", "TS The pipeline", "Fourteen steps in one function, in order, with their commits."),
    Requirement(
        "pipeline.one_site", "TS The pipeline", "The pipeline is called from one module; the world from one line."
    ),
    Requirement("pipeline.no_transaction", "TS The pipeline", "No transaction is open while a tool runs."),
    Requirement("pipeline.read", "issue 2", "A read is handed off, executed once and recorded with its result."),
    Requirement(
        "pipeline.held", "TS step 7", "A held call waits, is approved, executed once, and its outcome recorded."
    ),
    Requirement("pipeline.refused", "DESIGN §1", "A refused call ends with its six fields and one terminal row."),
    Requirement("problem.writes_nothing", "DESIGN §1", "A fault of the request is a problem, and nothing is written."),
    Requirement(
        "steps.conflict", "DESIGN §3", "The same step with another body is a conflict; with the same, a replay."
    ),
    Requirement(
        "dedup.replay", "TS Deduplication", "A terminal row gives its recorded outcome again, without executing."
    ),
    Requirement("dedup.cases", "TS Deduplication", "A call that is known stands where its row says, in five cases."),
    Requirement("recovery.table", "TS watermark", "What a later worker does is a table of class and watermark."),
    Requirement(
        "recovery.key_place", "DESIGN §4", "Without a way to pass the key, conditional counts as non-idempotent."
    ),
    Requirement("recovery.unrecorded", "DESIGN §4", "A write that was sent and not recorded ends uncertain."),
    Requirement(
        "recovery.killed_after", "issue 2", "Killed after the watermark, a non-idempotent call ends uncertain."
    ),
    Requirement("recovery.killed_before", "issue 2", "Killed before the watermark, the call is executed again, once."),
    Requirement("breaker.loop", "TS breakers", "The fifth identical call of a run is not performed."),
    Requirement("breaker.answer_only", "ADR-0136", "The turn after the fourth identical call is for answering."),
    Requirement("breaker.evidence", "TS New evidence", "New evidence restarts the count, at most 32 times a run."),
    Requirement("breaker.denied", "TS breakers", "The third identical denial fails the run."),
    Requirement("breaker.uncertain", "TS breakers", "A call whose outcome is unknown is never proposed again."),
    Requirement("attempts.bounded", "DESIGN §4", "After a known failure: few attempts, growing waits, one key."),
    Requirement("attempts.class", "DESIGN §4", "Another attempt only where class and watermark permit it."),
    Requirement("worker.drain", "issue 3", "A worker told to stop gives back what it has not sent."),
    Requirement("audit.fail_closed", "AUD", "A write that cannot be recorded is not reported, and never repeated."),
    Requirement("recovery.unknown_watermark", "issue 3", "A watermark of unknown commit is read back before sending."),
    Requirement("recovery.fence", "DESIGN §4", "An open call of an older database epoch counts as sent."),
    Requirement("recovery.bound", "issue 3", "A killed worker's call is claimed again within lease and one sweep."),
    Requirement("egress.departure", "DESIGN §4", "The lease is asked for once more before the first byte leaves."),
    Requirement("recovery.resolution", "DESIGN §4", "A resolution is a row with evidence; the call stays uncertain."),
    Requirement("parallel.admission", "TS admission check", "A step runs in parallel only if every call of it may."),
    Requirement("parallel.cap", "TS Parallel calls", "Eight calls of a step run at a time; the others queue."),
    Requirement("parallel.siblings", "TS Parallel calls", "A failing call ends no sibling."),
    Requirement("queue.bells", "DESIGN §13", "A job is its id; what is no bell never stops a worker."),
    Requirement("cancel.call", "DESIGN §6", "A call asked to end sends nothing more."),
    Requirement("store.contract", "STYLE §8", "The store in memory answers like the real one, point by point."),
    Requirement("store.lock_order", "DESIGN §4", "Commits, cancellations and decisions never wait in a circle."),
    Requirement("recovery.older_epoch", "DESIGN §4", "A row of an older database epoch counts as sent until it ends."),
    Requirement("model.search", "issue 3", "No interleaving of workers and adversary breaks an invariant."),
    Requirement("model.races", "issue 3", "Each interleaving that the design names a rule for is decided by it."),
    Requirement("sabotage.planted", "STYLE §8", "Each planted defect applies, and names the tests that turn red."),
    Requirement("dedup.concurrent", "TS Deduplication", "The same submission many times at once is one row, run once."),
    Requirement("dedup.delivered_twice", "TS Deduplication", "A job delivered many times at once runs once."),
    Requirement("race.workers", "issue 3", "However many workers: each call once, claim epochs grow, no row is lost."),
    Requirement("race.zombies", "issue 3", "A worker frozen past its lease neither sends nor persists when it thaws."),
    Requirement("race.design", "DESIGN §3 §4", "Each interleaving that the design names a rule for has a test."),
    Requirement("lost.queue", "DESIGN §4", "Whatever the queue loses or repeats, every call ends, once."),
    Requirement("lost.database", "issue 3", "A database that goes away at any moment loses and doubles no call."),
    Requirement(
        "run.budget", "DESIGN §6", "No more calls of a run begin than its budget allows, whoever asks at once."
    ),
    Requirement("log.types", "STYLE §6", "What fails beside the call path is logged by its type, never by its text."),
    Requirement("pool.places", "DESIGN §13", "No thread of a worker waits for a connection that another one idles on."),
    Requirement("trace.steps", "issue 2", "A call can be shown with its fourteen steps and their times."),
)

_OUTPUT: Final = (
    Requirement(
        "output.excerpt", "TS Output", "Large output is head and tail at character boundaries, within its budget."
    ),
    Requirement(
        "output.envelope", "TS Output", "An envelope is never split; it is closed and opened around the elision."
    ),
    Requirement("output.artifact", "TS Output", "Above the inline ceiling the whole result becomes an artifact first."),
    Requirement("output.ceiling", "TS Output", "Past four times its limit, output is cut and the call has failed."),
    Requirement(
        "output.measure", "TS Output", "What is shown fits its budget as JSON; what is captured is counted in UTF-8."
    ),
    Requirement("output.structured", "TS Output", "A structured value is bounded by the tool's limit of its own."),
    Requirement(
        "output.reader", "TS Output", "A tool that streams past its hard ceiling is cancelled; its partial is kept."
    ),
    Requirement("output.invalid", "TS step 11", "A result that does not fit its schema failed, and the tool has run."),
    Requirement("output.empty", "faults B18", "A result is never shown as empty text; no content says so."),
    Requirement("output.unkept", "TS Output", "Output that cannot be written or referred to fails; none is dropped."),
    Requirement("artifact.order", "DESIGN §10", "Bytes are written before their row, and the row before the result."),
    Requirement("artifact.own", "TS Context", "A result may refer to what its own attempt wrote and to nothing else."),
    Requirement("artifact.trust", "TS Output", "An artifact inherits the label of its result."),
    Requirement("artifact.bounded", "issue 3", "What a tool may write is bounded in size, sum and number."),
    Requirement(
        "artifact.served", "DESIGN §6", "Adopted artifacts are served to their tenant, inert, checked, with ranges."
    ),
    Requirement("artifact.retention", "issue 5", "A file goes a retention after the end of its run, where one is set."),
    Requirement("artifact.orphans", "DESIGN §10", "Orphans are collected by age; a crash leaves no row without bytes."),
    Requirement("workspace.beneath", "issue 3", "Nothing outside of a run's workspace is read, written or listed."),
    Requirement("workspace.bounded", "issue 3", "A workspace is bounded in bytes, entries, depth and names."),
    Requirement("workspace.whole", "issue 3", "A file is replaced as a whole and durably, or not at all."),
    Requirement("redaction.closed", "DESIGN §8", "Redaction fails closed, and what it returns can be stored."),
    Requirement(
        "vault.write_only", "DESIGN §8", "A stored credential is written and erased, and read by the resolver only."
    ),
    Requirement(
        "discovery.reconnection", "TS Advertisement", "A reconnection calls nothing that is no longer the pin."
    ),
    Requirement(
        "discovery.not_applied", "TS Advertisement", "A changed catalog is recorded and not applied mid-session."
    ),
    Requirement("discovery.difference", "issue 4", "What changed in a catalog is kept in words for a reviewer."),
    Requirement(
        "mcp.real_servers", "issue 4", "Real servers of PyPI and npm are listed and called over both transports."
    ),
    Requirement(
        "mcp.corpus", "issue 4", "Each recorded tool of 20 real servers is offered by name or refused by reason."
    ),
    Requirement("secrets.nowhere", "issue 4", "No secret reaches rows, logs, events, errors, results or argv."),
    Requirement(
        "mcp.conformance", "issue 4", "The official client scenarios that apply pass; the others have reasons."
    ),
    Requirement("mcp.injection", "issue 4", "What a server orders stays labelled data, and changes no policy."),
    Requirement("mcp.hostile", "issue 4", "Whatever a server does, a call ends as it must, in time, sent once."),
    Requirement(
        "mcp.nothing_left", "issue 4", "Calls that go wrong leave no descriptor, thread, task or child behind."
    ),
    Requirement(
        "mcp.messages", "issue 4", "A message is read alike however it is cut, and an answer is its own call's."
    ),
    Requirement("discovery.singly", "DESIGN §7", "One bad tool is dropped singly; names that collide drop both."),
    Requirement(
        "resources.declared", "TS MCP resources", "Resources are one synthetic tool, an external read at any server."
    ),
    Requirement("resources.advertised", "TS MCP resources", "A URI is read only where the server advertises it."),
    Requirement("resources.read", "TS MCP resources", "A resource comes back as enveloped, untrusted content."),
    Requirement("resources.bounded", "TS MCP resources", "A list of resources is bounded and says what is missing."),
    Requirement("skills.of_mcp", "TS MCP prompts", "Prompts are read-only, untrusted skills and in no prefix."),
    Requirement("fixed.declared", "XP Decision", "A fixed server's catalog is declared here; the peer is never asked."),
    Requirement("fixed.closed", "XP Requirements", "Whatever does not fit a fixed contract ends with its reason code."),
    Requirement("docs.beneath", "XP", "The docs server opens nothing outside of its folder."),
    Requirement("docs.bounded", "XP", "The docs server's reading, asking and answering are bounded."),
    Requirement("docs.authenticated", "XP", "The docs server tells nothing to who has no token, and logs none."),
    Requirement("docs.boundary", "XP", "A call crosses processes to its outcome, and each failure has its reason."),
    Requirement("declined.negotiation", "TS MCP resources", "Sampling, roots and elicitation are declined."),
    Requirement("declined.input", "DESIGN §7", "input_required is no answer, and nothing is sent a second time."),
    Requirement("declined.tasks", "issue 4", "A tool that is callable only as a task is not offered."),
    Requirement("results.any_json", "issue 4", "Structured content is any JSON; no content is said to be none."),
    Requirement("results.artifacts", "issue 4", "Images, audio and blobs are artifacts; links are not followed."),
    Requirement("hostile.enveloped", "issue 4", "A server's words stay labelled and enveloped, and change no policy."),
    Requirement("key.passed", "DESIGN §7", "The idempotency key is passed where it is configured, never guessed."),
    Requirement("dialects.honoured", "DESIGN §1", "The declared dialect is honoured, and open objects are closed."),
    Requirement("oauth.exchange", "TS Authentication", "A token is exchanged at a fixed endpoint, at use only."),
    Requirement("oauth.refused", "TS Authentication", "A refused client ends with tool.auth_failed."),
    Requirement("auth.unsupported", "TS Authentication", "A login that needs a person is refused at connect."),
    Requirement("auth.no_baggage", "DESIGN §7", "Ambient baggage is never forwarded to a server."),
    Requirement("effects.proof", "TS Failure modes", "effect_status: not_applied is the only proof of no effect."),
    Requirement("effects.replayed", "DESIGN §7", "A keyed call without proof is replayed, then uncertain."),
    Requirement("calls.progress", "issue 4 Calls", "Progress is kept, and gives a call no more time."),
    Requirement("calls.cancelled", "issue 4 Calls", "Whoever cancels a call tells the server."),
    Requirement("calls.dead_server", "issue 4 Figures", "A server killed during a call is reported within 100 ms."),
    Requirement("metrics.processes", "issue 4", "All processes of one machine are one answer; the dead hold nothing."),
    Requirement("metrics.access", "DESIGN §9", "Metrics are shown to who knows the token, or on this machine only."),
    Requirement("docs.tls", "issue 4", "A worker speaks TLS with whom its deployment trusts, and asks nobody else."),
    Requirement("discovery.turns", "DESIGN §9", "One tenant's slow servers leave a worker's threads to the others."),
    Requirement("metrics.tools", "TS Spans and metrics", "Each call is counted once, under six names, as it ended."),
    Requirement("metrics.strays", "reported fault B29", "What a server says unasked is ignored and counted by kind."),
    Requirement("spans.tree", "TS Spans and metrics", "The passes of a call are one trace of the spans that TS names."),
    Requirement("metrics.labels", "TS Spans and metrics", "Labels are few and name no tenant, session or secret."),
    Requirement("discovery.warm_up", "TS Discovery", "A worker that starts looks at every server before anybody asks."),
    Requirement("discovery.pinned", "TS Events", "A session that takes a remembered discovery says so."),
    Requirement("connections.released", "TS MCP", "A session that ends releases its connections promptly."),
    Requirement("connections.told", "TS Events", "Each connection that ends is an event with a known reason."),
    Requirement("connections.shutdown", "TS Discovery", "A worker that stops forces what does not leave in its time."),
    Requirement("connections.slots", "TS Discovery", "Eight preparations and two process starts at a time."),
    Requirement("timeouts.separate", "TS MCP", "Connect, request and idle are three bounds; the shortest counts."),
    Requirement("affinity.routed", "DESIGN §7", "A session's calls go to the worker that holds its connection."),
    Requirement("affinity.moved", "DESIGN §7", "A lost worker's sessions go on elsewhere, and an event says so."),
    Requirement("vault.rotation", "DESIGN §8", "Two versions live while a rotation is under way; the newest counts."),
    Requirement("vault.epoch", "DESIGN §5", "A changed credential voids what was decided with the old one."),
    Requirement("sealing.bound", "DESIGN §8", "Sealed bytes open only where they belong, under any key of the ring."),
)

_DATABASE: Final = (
    Requirement("rls.forced", "DESIGN §9", "Row-level security is enabled and forced on every tenant-owned table."),
    Requirement("rls.isolates", "DESIGN §9", "A tenant reads and writes no row of another; without a tenant, none."),
    Requirement("rls.roles", "DESIGN §9", "The application's role is neither owner, superuser nor BYPASSRLS."),
    Requirement("rls.composite", "DESIGN §9", "Foreign keys between tenant-owned tables carry the tenant."),
    Requirement("rls.definers", "DESIGN §9", "Definer functions: NOLOGIN owner, fixed path, no public execution."),
    Requirement("ledger.append_only", "DESIGN §11", "Append-only tables refuse changes, whoever asks."),
    Requirement("schema.functions", "STYLE §3", "The SQL functions of the database are those of the source."),
)

_API: Final = (
    Requirement("mcp.face.tools", "DESIGN §6 mcp", "The MCP face lists the pinned tools, in one stable order."),
    Requirement("mcp.face.call", "DESIGN §6 mcp", "A call of an MCP client is one step with one call, collected once."),
    Requirement("mcp.face.attach", "DESIGN §6 mcp", "The same call while held or uncollected is the same step."),
    Requirement("mcp.face.held", "DESIGN §6 mcp", "A held call is a task for who speaks tasks, else a bounded wait."),
    Requirement("mcp.face.outcomes", "DESIGN §6 mcp", "What did not succeed is an error in the six fields."),
    Requirement("mcp.face.refused", "DESIGN §6 mcp", "A message at fault has a code of the protocol and one of ours."),
    Requirement("mcp.face.tenants", "DESIGN §6 mcp", "A key sees its own sessions, calls and tasks, and no others."),
    Requirement("mcp.face.cancel", "DESIGN §6 mcp", "A cancelled request ends the call that it asked for last."),
    Requirement("mcp.face.sessions", "DESIGN §6 mcp", "Each conversation has an agent session, and a run for a task."),
    Requirement("mcp.face.crash", "DESIGN §6 mcp", "Whoever dies in between, the same call goes on where it stood."),
    Requirement("mcp.face.clients", "DESIGN §6 mcp", "The SDK's own client works over both revisions."),
    Requirement("api.auth", "issue 2", "Without a live key nothing is read or written, and nothing is told."),
    Requirement("api.problems", "issue 2", "Malformed input is a problem body with a stable code, nothing written."),
    Requirement("api.wait", "DESIGN §6", "Prefer: wait answers with the outcome when it comes, else 202."),
    Requirement("api.other_tenant", "issue 2", "Another tenant's ids are not found."),
    Requirement("approvals.decide", "issue 2", "A held call is decided by people, through the console's own service."),
    Requirement("approvals.own_call", "DESIGN §5", "Whoever proposed a call cannot decide it."),
    Requirement("decision.shown", "notes console §2.1", "The page says what a call does, why it is held, what is new."),
    Requirement("decision.seats", "DESIGN §5 seats", "Each seat shows who sits in it; the last one decides."),
    Requirement("decision.withdraw", "issue 5 Approvals", "A vote is taken back on the page, until its use."),
    Requirement("decision.reject_code", "issue 5 Approvals", "A rejection carries a code that the agent is told."),
    Requirement("decision.password", "issue 5 Approvals", "High risk takes the password; guessing ends the session."),
    Requirement(
        "decision.several", "issue 5 Approvals", "Several requests are shown in full and decided by themselves."
    ),
    Requirement("console.get", "issue 5 Approvals", "Nothing acts on GET."),
    Requirement("inbox.queries", "issue 5 Figures", "The inbox asks a fixed number of queries, however many wait."),
    Requirement(
        "decision.browser", "issue 5 Prove", "Experts and clients decide in a browser: keys, 360 px, no scripts."
    ),
    Requirement("outbox.pages", "issue 5 Outbox", "Endpoints and deliveries are pages; a secret is shown once."),
    Requirement(
        "console.grants", "DESIGN §5 grants", "A grant is proposed, confirmed by others and revoked on its page."
    ),
    Requirement("console.history", "issue 5", "Who changed what is read by admins of that tenant only."),
    Requirement("console.access", "issue 5 Approvals", "A tenant's admin answers requests for access on a page."),
    Requirement("outbox.signed", "issue 5 Outbox", "A receiver of the public library verifies what webhooks carry."),
    Requirement("outbox.transactional", "issue 5 Outbox", "A message is written with its fact, once, or not at all."),
    Requirement("outbox.turns", "DESIGN §13", "A long queue of one endpoint hides no message of another."),
    Requirement("outbox.retries", "issue 5 Outbox", "Retries wait longer each time, end at a cap, and repeat one id."),
    Requirement("outbox.replay", "issue 5 Outbox", "A person has a message sent again; its receiver can tell."),
    Requirement("outbox.crash", "issue 5 Outbox", "Who dies between commit, delivery and record loses no message."),
    Requirement("outbox.retention", "issue 5 Outbox", "Old messages that are over go in batches with their attempts."),
    Requirement("outbox.mail", "issue 5 Outbox", "Messages carry a link and no argument value."),
    Requirement(
        "console.policy", "issue 5 Policy", "Rules, permissions, replays and dry runs are pages; trials write nothing."
    ),
    Requirement(
        "console.switches", "issue 5 Policy", "A kill switch is thrown by a second POST and says who threw it."
    ),
    Requirement("console.stale", "notes console 13", "A form that shows an older state than the row's is a conflict."),
    Requirement("console.roles", "issue 5 Prove", "Each page as each role; what is another tenant's does not exist."),
    Requirement("console.windows", "issue 5 Prove", "Each page at 360 px, dark, without scripts, and as axe sees it."),
    Requirement("roles.tenant", "DESIGN §2", "Organisations, their people and flag, by command."),
    Requirement("deploy.settings", "DESIGN §13", "The environment's reference has every setting, and only those."),
    Requirement("deploy.files", "DESIGN §13", "Compose, units and manifests agree with the code and with each other."),
    Requirement("deploy.played", "DESIGN §13", "The operations document, played as it is written."),
    Requirement("docs.links", "STYLE §7", "Every link of a Markdown file leads somewhere."),
    Requirement("console.addresses", "notes console 40", "No page is forgotten: the URLconf lists them."),
    Requirement("console.explain", "DESIGN §6", "An explanation is one selector, for people and for runtimes."),
    Requirement("approvals.binding", "DESIGN §5", "An approval is bound to everything that it was given for."),
    Requirement(
        "approvals.authorisation", "DESIGN §5", "Who may decide: seats, four eyes, one vote a person, in time."
    ),
    Requirement("approvals.races", "issue Approvals", "Of two changes one wins; no effect without a valid approval."),
    Requirement("approvals.votes", "DESIGN §5", "Seats are filled one by one, one rejection decides, words are kept."),
    Requirement("inbox.four_eyes", "DESIGN §5", "What somebody may not decide does not wait for them."),
    Requirement("approvals.evidence", "DESIGN §5", "What is shown is what the digest binds, or nobody can approve it."),
    Requirement(
        "passwords.bounded", "issue 5 high risk", "Guesses at passwords are bounded across processes, or not made."
    ),
    Requirement("approvals.api", "DESIGN §6", "Keys read approvals and decide none; people decide in their session."),
    Requirement("approvals.evaluations", "DESIGN §5", "Every evaluation of step 6 is stored, also one without change."),
    Requirement("approvals.access", "issue Approvals", "Whoever is refused can ask for access, once and bounded."),
    Requirement("grants.use", "DESIGN §5", "A use of a grant is taken and recorded together with the intent."),
    Requirement("grants.last_use", "DESIGN §5", "Of calls at once one takes the last use of a grant."),
    Requirement("grants.bounds", "DESIGN §5", "A grant is for what it says, and what it says never changes."),
    Requirement("grants.four_eyes", "issue Approvals", "A grant takes two people, each of them entitled to it."),
    Requirement("grants.end", "DESIGN §3", "A grant that ends before the watermark lets nothing out."),
    Requirement("grants.unreadable", "DESIGN §3", "A grant that cannot be read leaves the call to people."),
    Requirement("policy.matrix", "DESIGN §5", "The matrix is total, and untrusted content never loosens a verdict."),
    Requirement("policy.golden", "issue Policy", "Every cell of the matrix is in one reviewed file."),
    Requirement("policy.rules", "DESIGN §5", "Block wins, equal rules have no order, loosening needs the profile."),
    Requirement("policy.conditions", "DESIGN §5", "Argument values match by pointer and operator, or cannot be told."),
    Requirement("policy.matchers", "DESIGN §5", "A rule matches what it lists; an unreadable one blocks."),
    Requirement("policy.permissions", "GW Manifest", "Tools that a tenant or agent may not use are not in a run."),
    Requirement("policy.switches", "DESIGN §4", "Nothing passes the watermark after a switch has returned."),
    Requirement("policy.epoch", "DESIGN §4", "Whatever changes a verdict raises the authorization epoch."),
    Requirement("policy.explain", "issue Policy", "Of each of the fourteen steps: what it saw, and what decided."),
    Requirement("policy.replay", "issue Policy", "A draft over recorded calls says which verdicts change."),
    Requirement("policy.dry_run", "issue Policy", "A dry run foresees each call and writes nothing."),
    Requirement("house.direction", "STYLE §1", "Imports and foreign keys point down only, without a cycle."),
    Requirement("house.light_web", "STYLE §1", "Importing the web process never imports the MCP SDK."),
    Requirement("house.files", "STYLE §2", "Files keep their size, their names and their first words."),
)

_EGRESS: Final = (
    Requirement("egress.destinations", "DESIGN §8", "A destination is on the exact allowlist and has one reading."),
    Requirement("egress.default_deny", "corpus B53", "Without an egress policy nothing is dialled, tests included."),
    Requirement("egress.addresses", "DESIGN §8", "An address that is not public is refused, however it is written."),
    Requirement("egress.pinned", "DESIGN §8", "The address that was checked is dialled; one bad answer refuses all."),
    Requirement("egress.redirects", "DESIGN §8", "No redirect is followed, not even to the same origin."),
    Requirement("egress.ambient", "DESIGN §8", "Proxies and passwords of the environment are not used."),
    Requirement("egress.bounded", "DESIGN §8", "Head, framing, body and time are bounded; no answer is decoded."),
    Requirement("egress.once", "corpus B33", "A request whose answer was lost is never sent again by the transport."),
    Requirement("egress.counted", "issue 3", "Each exchange is counted once, by how it ended."),
    Requirement("web.declared", "TS Names", "web.fetch reads the network under the pinned target, with one GET."),
    Requirement("web.hosts", "issue 3", "web.fetch exists only where an operator lists hosts, and asks only those."),
    Requirement("web.text", "issue 3", "Text is returned as received in its charset; what is no text is refused."),
    Requirement("web.failures", "TS ToolFailureKind", "Each way of not getting a page has its kind and its reason."),
    Requirement("web.bounded", "TS Output", "What is read past the hard ceiling is kept and the call has failed."),
)

_FAULTS: Final = (
    Requirement("faults.b01", "reported fault B01", "A reference that leads nowhere costs its tool alone."),
    Requirement("faults.b03", "reported fault B03", "A root that is no object schema is refused with that reason."),
    Requirement("faults.b06", "reported fault B06", "Patterns are those of one named engine; others cost one tool."),
    Requirement("faults.b08", "reported fault B08", "A schema that holds itself is never expanded, nor recursed into."),
    Requirement("faults.b10", "reported fault B10", "No pattern and no value pins a core."),
    Requirement("faults.b11", "reported fault B11", "A remote name is kept as it came; ours is derived."),
    Requirement("faults.b13", "reported fault B13", "Odd names are stable, and those that become equal are dropped."),
    Requirement("faults.b15", "reported fault B15", "An error result is not judged by the schema of answers."),
    Requirement("faults.b18", "reported fault B18", "A result is never shown as empty text."),
    Requirement("faults.b19", "reported fault B19", "Binary content is an artifact and never cut as text."),
    Requirement("faults.b21", "reported fault B21", "No character stops a result from being kept."),
    Requirement(
        "faults.b23",
        "reported fault B23",
        "A lost session is opened once more, by class of the call.",
    ),
    Requirement("faults.b25", "reported fault B25", "A stream that closes without an answer is noticed at once."),
    Requirement(
        "faults.b27",
        "reported fault B27",
        "An empty cursor is followed once, and no list is endless.",
    ),
    Requirement("faults.b29", "reported fault B29", "Stray messages are ignored, and too many of them end the call."),
    Requirement("faults.b31", "reported fault B31", "An event stream means the same however it is cut and ended."),
    Requirement("faults.b33", "reported fault B33", "A write whose answer was lost is sent once."),
    Requirement("faults.b41", "reported fault B41", "Children of servers, and theirs, do not pile up."),
    Requirement("faults.b43", "reported fault B43", "Ordinary errors of a tool bar no other call."),
    Requirement("faults.b45", "reported fault B45", "A full pool is no unknown tool."),
    Requirement("faults.b50", "reported fault B50", "What another tenant has looks as if it did not exist."),
    Requirement("faults.b53", "reported fault B53", "Without a policy no server is registered or dialled."),
    Requirement(
        "faults.b55",
        "reported fault B55",
        "One exchange serves all that wait; a failed one keeps the login.",
    ),
    Requirement("faults.table", "issue 4", "Each of the 28 reported faults has a test that holds its right value."),
    Requirement("faults.b35", "reported fault B35", "What a killed worker had popped is found without the queue."),
    Requirement("faults.b37", "reported fault B37", "A worker is told of what is committed, and of nothing else."),
    Requirement("faults.b39", "reported fault B39", "An identity that a caller gives is visible, plain and bounded."),
    Requirement("faults.b47", "reported fault B47", "What was approved is what is sent, or nothing is."),
    Requirement(
        "faults.b52", "reported fault B52", "Nothing serves under a role that row-level security does not bind."
    ),
)

_MCP_ADMINISTRATION: Final = (
    Requirement("mcp.classified_by_operators", "TS Mapping", "Only operators say what a server is believed to do."),
    Requirement("mcp.overrides", "DESIGN §7", "A tenant's word tightens; the operators' holds for what they saw."),
    Requirement("mcp.check", "issue 4 Import", "A check names the rung where a server breaks, and the fix."),
    Requirement("mcp.import", "issue 4 Import", "What is imported is disabled, unclassified and without its secrets."),
    Requirement("mcp.pages", "issue 4 Pages", "Each role sees and does with servers what is its own, and no more."),
    Requirement("mcp.one_validator", "issue 4", "Every door refuses the same configuration for the same reason."),
    Requirement("catalog.quarantine", "DESIGN §7", "Where a tenant asks, changed tools wait for a review."),
    Requirement("mcp.rotation_retries", "issue 4", "A failure of another credential or endpoint does not delay a try."),
    Requirement("roles.platform", "DESIGN §2", "Roles of the platform are given and taken by operators only."),
    Requirement("egress.allowlist", "DESIGN §8", "A tenant's servers are dialled where its allowlist says."),
)

REQUIREMENTS: Final = {
    row.id: row
    for row in (
        *_GATES, *_TYPES, *_REGISTRY, *_CALLS, *_OUTPUT, *_DATABASE, *_API, *_EGRESS, *_FAULTS, *_MCP_ADMINISTRATION,
    )
}  # fmt: skip


def gate[F: Callable[..., object]](*identifiers: str) -> Callable[[F], F]:
    """Bind a test to the requirements that it proves. Write the ids as literals: they are read from the source."""
    unknown = [identifier for identifier in identifiers if identifier not in REQUIREMENTS]
    if unknown or not identifiers:
        raise LookupError(f"no such requirement: {', '.join(unknown) or 'none named'}")

    def bind(test: F) -> F:
        return test

    return bind
