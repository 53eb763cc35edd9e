"""MCP servers as tools: discovery, catalogs, logins, connections, calls, and the people who look after them."""

from typing import Final

from tests.spec.requirement import Requirement

ROWS: Final = (
    Requirement(
        "discovery.reconnection", "TS Advertisement", "A reconnection calls nothing that is no longer the pin."
    ),
    Requirement(
        "discovery.not_applied", "TS Advertisement", "A changed catalog is recorded and not applied mid-session."
    ),
    Requirement(
        "discovery.forgotten", "TS MCP", "After a failed look the next opening looks anew; the last good catalog stays."
    ),
    Requirement("discovery.difference", "issue 4", "What changed in a catalog is kept in words for a reviewer."),
    Requirement(
        "mcp.real_servers", "issue 4", "Real servers of PyPI and npm are listed and called over both transports."
    ),
    Requirement(
        "mcp.corpus", "issue 4", "Each recorded tool of 20 real servers is offered by name or refused by reason."
    ),
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
    Requirement(
        "mcp.check_progress", "issue 4", "A check shows its rungs as they are passed, and how far a dead one came."
    ),
    Requirement("mcp.slow_start", "issue 4", "A server that is slow to start is not mistaken for one of another era."),
    Requirement("slots.shared", "issue 4", "One tenant's stalled servers leave preparation slots to the others."),
    Requirement(
        "history.bounded", "issue 4", "What a server that keeps changing its catalog can have us keep is bounded."
    ),
    Requirement(
        "history.retention",
        "issue 4",
        "What was listed and never pinned goes with age; what a session pinned stays.",
    ),
    Requirement("skills.loaded", "TS Control tools", "skill.load hands a text on as labelled data, and nothing else."),
    Requirement("fixed.declared", "XP Decision", "A fixed server's catalog is declared here; the peer is never asked."),
    Requirement("fixed.closed", "XP Requirements", "Whatever does not fit a fixed contract ends with its reason code."),
    Requirement("fixed.nested", "XP Decision", "A contract types and closes every value in it, at whatever depth."),
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
    Requirement("docs.tls", "issue 4", "A worker speaks TLS with whom its deployment trusts, and asks nobody else."),
    Requirement("discovery.turns", "DESIGN §9", "One tenant's slow servers leave a worker's threads to the others."),
    Requirement("discovery.warm_up", "TS Discovery", "A worker that starts looks at every server before anybody asks."),
    Requirement("discovery.pinned", "TS Events", "A session that takes a remembered discovery says so."),
    Requirement("connections.released", "TS MCP", "A session that ends releases its connections promptly."),
    Requirement("connections.rested", "TS MCP", "While a session's runs wait for people, only what remembers is held."),
    Requirement("connections.told", "TS Events", "Each connection that ends is an event with a known reason."),
    Requirement("connections.shutdown", "TS Discovery", "A worker that stops forces what does not leave in its time."),
    Requirement("connections.slots", "TS Discovery", "Eight preparations, listing included, two process starts."),
    Requirement("timeouts.separate", "TS MCP", "Connect, request and idle are three bounds; the shortest counts."),
    Requirement("affinity.routed", "DESIGN §7", "A session's calls go to the worker that holds its connection."),
    Requirement("affinity.moved", "DESIGN §7", "A lost worker's sessions go on elsewhere, and an event says so."),
    Requirement("connections.idle", "TS MCP", "An unused connection closes itself; a call in flight keeps it."),
    Requirement(
        "connections.resolved_anew", "TS MCP", "Who connects again resolves again; pin, ladder and end outlive it."
    ),
    Requirement("mcp.programs", "TS MCP", "Only operators offer programs, by the names that the deployment has."),
    Requirement("mcp.mapping", "TS Mapping", "Each field of a spec is derived or forced; the default is strictest."),
    Requirement("mcp.version", "TS Mapping", "A tool's version is the hash of its catalog, and of nothing else."),
    Requirement("auth.applied", "TS Authentication", "A credential goes where its scheme says; without one, nobody."),
    Requirement("catalog.history", "TS Schema additions", "What was listed once is kept as it was, or withdrawn."),
    Requirement("discovery.reuse", "TS Discovery", "A listing is remembered for one configuration, and for a time."),
    Requirement("mcp.clauses", "issue 4", "Each clause of the MCP part names requirements that have tests."),
    Requirement("mcp.classified_by_operators", "TS Mapping", "Only operators say what a server is believed to do."),
    Requirement("mcp.overrides", "DESIGN §7", "A tenant's word tightens; the operators' holds for what they saw."),
    Requirement("mcp.check", "issue 4 Import", "A check names the rung where a server breaks, and the fix."),
    Requirement("mcp.import", "issue 4 Import", "What is imported is disabled, unclassified and without its secrets."),
    Requirement("mcp.pages", "issue 4 Pages", "Each role sees and does with servers what is its own, and no more."),
    Requirement("mcp.one_validator", "issue 4", "Every door refuses the same configuration for the same reason."),
    Requirement("catalog.api", "DESIGN §6", "People review catalogs over the API as on the pages; keys are refused."),
    Requirement("catalog.quarantine", "DESIGN §7", "Where a tenant asks, changed tools wait for a review."),
    Requirement("mcp.rotation_retries", "issue 4", "A failure of another credential or endpoint does not delay a try."),
)
