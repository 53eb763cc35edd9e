"""What people see and decide: approvals, the inbox, the console's pages, the outbox."""

from typing import Final

from tests.spec.requirement import Requirement

ROWS: Final = (
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
    Requirement(
        "decision.defaults", "notes console §2.1", "What a tool's defaults put in is told from what was given."
    ),
    Requirement(
        "decision.fingerprints", "notes console §2.1", "Redacted values are told apart by a keyed digest of a tenant."
    ),
    Requirement("decision.normalized", "notes console §2.1", "A text that was sent in another form than NFC says so."),
    Requirement("decision.rate", "notes console §2.1", "How often an agent called a tool in the last hour is shown."),
    Requirement("inbox.pace", "notes console §2.1", "How fast people decide is shown, and counted without names."),
    Requirement("inbox.lapses", "notes console §2.1", "What expired undecided is shown as a share, by rule."),
    Requirement("console.get", "issue 5 Approvals", "Nothing acts on GET."),
    Requirement("inbox.queries", "issue 5 Figures", "The inbox asks a fixed number of queries, however many wait."),
    Requirement(
        "inbox.order", "notes console §2.1", "What expires first comes first, then what is of the highest risk."
    ),
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
    Requirement("approvals.events", "DESIGN §1", "Each end of a held call is one event, before that of the call."),
    Requirement("events.payload", "TS Events", "An event carries identity and classification, and no value."),
    Requirement("approvals.access", "issue Approvals", "Whoever is refused can ask for access, once and bounded."),
)
