"""What becomes of a call: canonical form, the pipeline, recovery, breakers, workers, queue and races."""

from typing import Final

from tests.spec.requirement import Requirement

ROWS: Final = (
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
    Requirement(
        "sweep.backoff", "DESIGN §4", "What nobody goes on with is named less and less often, and hides nothing."
    ),
    Requirement("lease.kept", "DESIGN §4", "A process believes in no lease longer than the database has given it."),
    Requirement("clock.database", "DESIGN §4", "What is compared with the database's clock was written by it."),
    Requirement("wait.bounded", "COMMON", "No wait for a lock, a statement or the server is without an end."),
    Requirement("recovery.bound", "issue 3", "A killed worker's call is claimed again within lease and one sweep."),
    Requirement("egress.departure", "DESIGN §4", "The lease is asked for once more before the first byte leaves."),
    Requirement(
        "recovery.evidence", "DESIGN §4", "An uncertain call is listed with its last step, first byte and read."
    ),
    Requirement("recovery.resolution", "DESIGN §4", "A resolution is a row with evidence; the call stays uncertain."),
    Requirement("parallel.admission", "TS admission check", "A step runs in parallel only if every call of it may."),
    Requirement("parallel.cap", "TS Parallel calls", "Eight calls of a step run at a time; the others queue."),
    Requirement("parallel.siblings", "TS Parallel calls", "A failing call ends no sibling."),
    Requirement("queue.bells", "DESIGN §13", "A job is its id; what is no bell never stops a worker."),
    Requirement("wakeups.one_channel", "DESIGN §13", "A process is woken only by what something in it waits for."),
    Requirement("run.expiry", "DESIGN §2", "A run that nobody ended is expired when its calls are over."),
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
    Requirement(
        "store.unreadable", "DESIGN §3, §8", "A call whose stored body does not open ends, and is never acted on."
    ),
    Requirement("lost.database", "issue 3", "A database that goes away at any moment loses and doubles no call."),
    Requirement(
        "run.budget", "DESIGN §6", "No more calls of a run begin than its budget allows, whoever asks at once."
    ),
    Requirement("log.types", "STYLE §6", "What fails beside the call path is logged by its type, never by its text."),
    Requirement("pool.places", "DESIGN §13", "No thread of a worker waits for a connection that another one idles on."),
    Requirement("failures.vendor", "GW failure mode 4", "A vendor's error fails its call alone, in words of ours."),
    Requirement("trace.steps", "issue 2", "A call can be shown with its fourteen steps and their times."),
)
