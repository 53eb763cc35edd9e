"""Defects of the commit points and of the sweep: one condition out of a statement."""

from typing import Final

from tests.sabotage.defect import Defect, Edit, defect

COMMITS, SWEEP = "toolsys/sql/30_commits.sql", "toolsys/sql/40_definers.sql"
PROPOSAL: Final = "tests/contract/store/test_proposal.py::"
APPROVED: Final = "tests/contract/store/test_approved_intent.py::"
CLAIM: Final = "tests/contract/store/test_claim.py::"
WATERMARK: Final = "tests/contract/store/test_watermark.py::"
SETTLEMENT: Final = "tests/contract/store/test_settlement.py::"
SWEPT: Final = "tests/contract/store/test_sweep.py::"
DESIGN: Final = "tests/races/test_design_races.py::"
LOCKS: Final = "tests/integration/test_lock_order.py::"


def _commit(name: str, says: str, old: str, new: str, *tests: str) -> Defect:
    return defect(name, says, COMMITS, old, new, *tests)


SQL_DEFECTS: Final = (
    _commit(
        "step body not compared", "the same step with another body is a conflict",
        "IF v_step.body_hash <> p->'step'->>'body_hash' THEN", "IF false THEN",
        PROPOSAL + "test_the_same_step_with_another_body_is_a_conflict_and_writes_nothing",
    ),
    _commit(
        "cancelled run takes calls", "a cancelled run takes no intent and no hold",
        "IF v_run.cancel_requested_at IS NOT NULL AND", "IF false AND",
        PROPOSAL + "test_a_cancelled_run_takes_no_intent_and_no_hold",
    ),
    _commit(
        "approval not consumed", "an approval is used once", "SET status = 'consumed', consumed_at = v_now",
        "SET consumed_at = v_now",
        APPROVED + "test_an_approved_intent_consumes_the_request_and_the_run_goes_on",
    ),
    _commit(
        "any digest consumed", "an approval is used for what it was given for", " AND digest = p->>'digest'", "",
        APPROVED + "test_an_approval_of_something_else_is_not_consumed",
    ),
    _commit(
        "late approval consumed", "an approval is used in its time",
        "      AND consume_by > clock_timestamp() AND toolsys", "      AND toolsys",
        APPROVED + "test_an_approval_past_its_time_of_use_is_not_consumed",
    ),
    _commit(
        "cancelled call approved", "a cancelled call consumes nothing",
        "IF v.status <> 'waiting_for_approval' OR v.cancel_requested_at IS NOT NULL THEN",
        "IF v.status <> 'waiting_for_approval' THEN",
        APPROVED + "test_a_call_cancelled_meanwhile_consumes_nothing",
    ),
    _commit(
        "claim makes a row young", "a claim keeps the row's database epoch",
        "started_at = coalesce(i.started_at, v_now), authz_epoch = p_authz_epoch, dispatch_after = NULL,\n",
        "started_at = coalesce(i.started_at, v_now), authz_epoch = p_authz_epoch, dispatch_after = NULL,\n"
        "        database_epoch = (SELECT database_epoch FROM platform_state),\n",
        CLAIM + "test_a_claim_does_not_make_a_row_of_an_older_database_younger",
    ),
    _commit(
        "live lease claimed", "a live lease keeps others away",
        "(i.status = 'running' AND i.lease_expires_at <= clock_timestamp()))\n      -- A further",
        "i.status = 'running')\n      -- A further",
        CLAIM + "test_a_live_lease_keeps_others_away_even_with_the_present_epoch",
        "tests/integration/test_recovery.py::test_the_claim_statement_itself_refuses_a_live_lease",
    ),
    _commit(
        "claims without end", "a call is claimed a bounded number of times",
        " AND i.claim_epoch = p_epoch AND i.claim_epoch < p_max_claims", " AND i.claim_epoch = p_epoch",
        CLAIM + "test_claims_are_bounded_and_the_last_refusal_settles",
    ),
    _commit(
        "no cap per tenant", "one tenant's calls do not fill the workers",
        "      AND p_cap > (SELECT", "      AND 9999 > (SELECT",
        CLAIM + "test_a_tenant_has_a_cap_of_running_calls_and_a_passed_lease_frees_a_place",
    ),
    _commit(
        "authorization epoch not compared", "stale facts let nothing out",
        " AND authz_epoch = p_authz_epoch FOR SHARE;", " FOR SHARE;",
        WATERMARK + "test_a_changed_authorization_epoch_does_not_hold",
        "tests/integration/test_recovery.py::test_a_switch_turned_off_before_the_watermark_stops_the_call",
    ),
    _commit(
        "fence waits for no switch", "a switch that is written and not committed is waited for",
        " AND authz_epoch = p_authz_epoch FOR SHARE;", " AND authz_epoch = p_authz_epoch;",
        DESIGN + "test_a_switch_whose_commit_is_under_way_is_waited_for",
    ),
    _commit(
        "unrecorded write keeps its run", "a write that could not be recorded fails its run",
        "    PERFORM toolsys_fail_run(p_tenant, v_run, 'audit.persistence_failed');\n", "",
        "tests/integration/test_attempts.py::test_a_write_that_cannot_be_recorded_fails_its_run_and_ends_uncertain",
    ),
    _commit(
        "restarts without end", "new evidence restarts a count so many times in a run",
        "AND id = i.run_id AND evidence_restarts < 32;", "AND id = i.run_id;",
        "tests/integration/test_breakers.py::test_restarts_are_capped_in_a_run",
    ),
    _commit(
        "platform switch ignored", "a platform that is off sends nothing",
        "PERFORM 1 FROM platform_state WHERE is_execution_enabled;", "PERFORM 1 FROM platform_state;",
        WATERMARK + "test_a_platform_that_is_switched_off_does_not_hold",
    ),
    _commit(
        "run cancellation ignored by the fence", "a cancelled run sends nothing",
        " AND r.cancel_requested_at IS NULL AND r.id = (", " AND r.id = (",
        WATERMARK + "test_a_run_cancelled_without_its_calls_does_not_hold",
    ),
    _commit(
        "fence without a lease", "a claim whose lease has passed sends nothing",
        "AND id = p_id AND claim_epoch = p_epoch AND status = 'running'\n"
        "      AND lease_expires_at > clock_timestamp() AND operation_deadline",
        "AND id = p_id AND claim_epoch = p_epoch AND status = 'running'\n      AND operation_deadline",
        WATERMARK + "test_a_passed_lease_does_not_hold",
    ),
    _commit(
        "fence without an epoch", "an older claim sends nothing",
        "AND id = p_id AND claim_epoch = p_epoch AND status = 'running'\n"
        "      AND lease_expires_at > clock_timestamp() AND operation_deadline",
        "AND id = p_id AND status = 'running'\n      AND lease_expires_at > clock_timestamp() AND operation_deadline",
        WATERMARK + "test_an_older_claim_does_not_hold_while_the_next_one_runs",
    ),
    _commit(
        "watermark moves", "the watermark keeps its first time",
        "SET effect_sent_at = coalesce(effect_sent_at, clock_timestamp())", "SET effect_sent_at = clock_timestamp()",
        WATERMARK + "test_the_watermark_keeps_its_first_time",
    ),
    _commit(
        "renewed for ever", "no lease is renewed past the operation's deadline",
        " AND i.operation_deadline > clock_timestamp()", "",
        WATERMARK + "test_no_lease_is_renewed_past_the_operation_deadline",
    ),
    _commit(
        "heartbeat waits for a row", "a heartbeat waits for nobody", " OF i SKIP LOCKED) AS free", " OF i) AS free",
        LOCKS + "test_a_cancellation_and_a_heartbeat_do_not_wait_in_a_circle",
    ),
    _commit(
        "approval's clock stands while it waits", "a wait for a lock counts as time to use an approval",
        "AND consume_by > clock_timestamp() AND toolsys", "AND consume_by > v_now AND toolsys",
        LOCKS + "test_a_wait_for_the_run_counts_as_time_to_use_an_approval",
    ),
    defect(
        "switch locks tenants as they come", "who changes several tenants locks them in order",
        "toolsys/sql/10_guards.sql", "    PERFORM 1 FROM tenants ORDER BY id FOR NO KEY UPDATE;\n", "",
        LOCKS + "test_who_changes_several_tenants_locks_them_in_order",
    ),
    defect(
        "switch starved by watermarks", "a change that waits goes before the next watermark", COMMITS,
        "    PERFORM toolsys_wait_for_changes(p_tenant);\n", "",
        LOCKS + "test_a_change_that_waits_for_a_watermark_goes_before_the_next_one",
    ),
    defect(
        "change waits unannounced", "a change that waits goes before the next watermark", "toolsys/sql/10_guards.sql",
        "        PERFORM pg_advisory_xact_lock(1952542305, hashtext(p_tenant));\n", "",
        LOCKS + "test_a_change_that_waits_for_a_watermark_goes_before_the_next_one",
    ),
    defect(
        "person's tenants as they come", "who changes several tenants locks them in order",
        "toolsys/sql/45_people.sql",
        "WHERE m.user_id = NEW.id ORDER BY 1)", "WHERE m.user_id = NEW.id ORDER BY 1 DESC)",
        LOCKS + "test_who_changes_several_tenants_locks_them_in_order",
    ),
    defect(
        "recovery fence unseen by who is at work", "a raised database epoch sends every claim back to step 6",
        "toolsys/migrations/0026_locks_in_order.py", "BOTH = TRIGGER.format(columns=\", database_epoch\", condition=",
        "BOTH = TRIGGER.format(columns=\"\", condition=",
        WATERMARK + "test_a_raised_database_epoch_does_not_hold",
        DESIGN + "test_a_recovery_fence_behind_a_worker_s_facts_is_seen_at_the_watermark",
    ),
    _commit(
        "passed lease renewed", "only a live lease is renewed",
        "      AND i.lease_expires_at > clock_timestamp() AND i.operation_deadline", "      AND i.operation_deadline",
        WATERMARK + "test_a_passed_lease_is_not_renewed",
    ),
    _commit(
        "released claim keeps its lease", "what is given back is free at once",
        "SET status = 'authorized', claimed_by = NULL, lease_expires_at = NULL,\n        operation_deadline = NULL, ",
        "SET status = 'authorized', ",
        WATERMARK + "test_a_released_call_is_free_at_once",
    ),
    _commit(
        "no epoch in the result", "an older claim persists nothing",
        " AND claim_epoch = (p->>'epoch')::int\n      AND status = p->>'from'", "\n      AND status = p->>'from'",
        SETTLEMENT + "test_a_late_result_of_an_older_claim_is_refused_while_the_next_one_runs",
        "tests/integration/test_recovery.py::"
        "test_a_late_result_of_an_older_claim_is_refused_while_the_new_one_runs",
    ),
    _commit(
        "no status in the result", "nothing ends twice", "      AND status = p->>'from'\n", "",
        SETTLEMENT + "test_a_row_ends_once",
    ),
    _commit(
        "running call ended from outside", "who holds no claim ends nothing whose lease lives",
        "(status <> 'running' OR (p->>'holds_claim')::boolean OR lease_expires_at <= clock_timestamp())", "true",
        SETTLEMENT + "test_a_running_call_is_not_ended_from_outside_while_its_lease_lives",
    ),
    _commit(
        "event not written", "every ending has its event in the same statement",
        "    PERFORM toolsys_emit(v, CASE v.status WHEN 'succeeded' THEN 'tool.call.completed'\n"
        "        ELSE 'tool.call.' || v.status END, 'settled:' || v.id);\n", "",
        SETTLEMENT + "test_a_result_ends_the_row_with_payload_event_and_step",
        "tests/integration/test_pipeline.py::test_a_read_is_handed_off_executed_and_recorded",
    ),
    _commit(
        "trust not lowered", "what a run was told lowers its trust",
        "IF (p->>'lowers_trust')::boolean THEN", "IF false THEN",
        SETTLEMENT + "test_a_result_lowers_what_the_run_has_been_told_and_never_raises_it",
    ),
    _commit(
        "call locked before its run", "what changes the run locks it first",
        "FROM tool_invocations i WHERE i.tenant_id = p_tenant AND i.id = p_id) FOR NO KEY UPDATE;",
        "FROM tool_invocations i WHERE false) FOR NO KEY UPDATE;",
        LOCKS + "test_a_cancellation_and_a_result_do_not_wait_in_a_circle",
        LOCKS + "test_a_cancellation_and_an_approved_intent_do_not_wait_in_a_circle",
    ),
    _commit(
        "call locked before its request", "the end of a held call locks its request first",
        "a.invocation_id = p_id FOR NO KEY UPDATE;", "false;",
        LOCKS + "test_a_decision_and_the_end_of_a_held_call_do_not_wait_in_a_circle",
    ),
    _commit(
        "two share a run to change it", "what changes the run takes its lock at once",
        "IF p->'row'->>'status' = 'waiting_for_approval' OR", "IF",
        LOCKS + "test_two_holds_of_one_run_do_not_wait_in_a_circle",
    ),
    _commit(
        "fence locks the call first", "the fence locks the run first",
        "    PERFORM 1 FROM runs r WHERE r.tenant_id = p_tenant AND r.cancel",
        "    PERFORM 1 FROM tool_invocations WHERE tenant_id = p_tenant AND id = p_id FOR UPDATE;\n"
        "    PERFORM 1 FROM runs r WHERE r.tenant_id = p_tenant AND r.cancel",
        LOCKS + "test_a_cancellation_and_a_watermark_do_not_wait_in_a_circle",
    ),
    _commit(
        "attempts not counted", "a claim given back after a failure counts its attempt",
        "attempt_number = p_attempt, ", "",
        WATERMARK + "test_a_release_counts_the_attempt_that_comes_next",
    ),
    _commit(
        "fence's clock stands while it waits", "a wait of the fence counts as time passed",
        "      AND lease_expires_at > clock_timestamp() AND operation_deadline > clock_timestamp();",
        "      AND lease_expires_at > now() AND operation_deadline > now();",
        LOCKS + "test_a_fence_that_waited_until_its_claim_was_over_does_not_hold",
    ),
    _commit(
        "fence past the deadline", "the fence does not hold past the operation's deadline",
        " AND operation_deadline > clock_timestamp();\n    RETURN CASE", ";\n    RETURN CASE",
        "tests/integration/test_attempts.py::test_the_fence_does_not_hold_past_the_deadline_although_the_lease_does",
    ),
    _commit(
        "successor's lease renewed", "a lost claim renews nothing", "WHERE i.claim_epoch = held.epoch AND", "WHERE",
        WATERMARK + "test_a_lost_claim_renews_nothing_of_its_successor",
    ),
    _commit(
        "lost claim released", "only the present claim gives its call back",
        "AND id = p_id AND claim_epoch = p_epoch AND status = 'running';\n    RETURN FOUND;",
        "AND id = p_id AND status = 'running';\n    RETURN FOUND;",
        WATERMARK + "test_only_the_present_claim_of_a_running_call_is_released",
    ),
    _commit(
        "lost claim fails its run", "only the present claim fails its run for want of a record",
        "AND claim_epoch = p_epoch AND status = 'running'\n    RETURNING run_id",
        "AND status = 'running'\n    RETURNING run_id",
        "tests/integration/test_attempts.py::test_who_has_lost_the_claim_fails_no_run_for_want_of_a_record",
    ),
    _commit(
        "artifacts of another attempt", "a result adopts what its own attempt wrote",
        "AND invocation_id = v.id\n            AND claim_epoch = v.claim_epoch;", "AND invocation_id = v.id;",
        "tests/integration/test_orphans.py::"
        "test_a_result_adopts_what_its_own_attempt_wrote_and_nothing_of_an_earlier_one",
    ),
    _commit(
        "retry begun early", "a further attempt waits as long as it was asked to",
        "      AND (i.not_before IS NULL OR i.not_before <= clock_timestamp())\n", "",
        "tests/integration/test_attempts.py::test_ringing_again_and_again_does_not_shorten_the_wait",
    ),
    _commit(
        "no cap per group", "so many calls of a group run at a time", "OR p_group_cap > (SELECT", "OR 9999 > (SELECT",
        "tests/contract/store/test_groups.py::test_a_group_runs_as_many_as_its_cap_and_a_result_frees_a_place",
    ),
    _commit(
        "suspended call claimed", "a suspended call is nobody's to claim",
        "      AND i.suspended_kind IS NULL AND i.cancel", "      AND i.cancel",
        CLAIM + "test_a_suspended_row_is_not_claimed",
    ),
    _commit(
        "cancelled call claimed", "a cancelled call is not claimed",
        " AND i.cancel_requested_at IS NULL\n      AND (i.status", "\n      AND (i.status",
        CLAIM + "test_a_cancelled_call_is_settled_by_who_would_have_claimed_it",
    ),
    _commit(
        "operation outlives its run", "the execution deadline lies within the run's",
        "least(p_deadline, clock_timestamp() + make_interval(secs => i.timeout_seconds))",
        "clock_timestamp() + make_interval(secs => i.timeout_seconds)",
        CLAIM + "test_the_operation_ends_no_later_than_its_run",
    ),
    _commit(
        "hold outlives its run", "holds are bounded by the run's deadline",
        "'expires_at', least(v_run.deadline_at,", "'expires_at', greatest(v_run.deadline_at,",
        PROPOSAL + "test_a_request_expires_no_later_than_its_run",
    ),
    defect(
        "any finding lifts the breaker", "only what is known not to have happened alarms no more",
        "toolsys/sql/20_facts.sql", "IS DISTINCT FROM 'not_happened')", "IS NULL)",
        "tests/contract/store/test_repetition.py::"
        "test_an_uncertain_call_stays_so_and_alarms_until_it_is_known_not_to_have_happened",
    ),
    defect(
        "first finding counts", "a later finding takes back an earlier one", "toolsys/sql/20_facts.sql",
        "ORDER BY u.id DESC LIMIT 1)", "ORDER BY u.id LIMIT 1)",
        "tests/contract/store/test_repetition.py::test_a_later_finding_takes_back_an_earlier_one",
    ),
    defect(
        "denials hide the unknown", "no number of denials hides an unknown outcome", "toolsys/sql/20_facts.sql",
        "ORDER BY n.status = 'uncertain' DESC, n.identical_count >= 4 DESC, n.id DESC", "ORDER BY n.id DESC",
        "tests/contract/store/test_repetition.py::test_no_number_of_denials_hides_what_alone_stops_a_call",
    ),
    defect(
        "run expired with an open call", "a run is expired when its calls are over", "toolsys/sql/79_run_expiry.sql",
        "AND s.completed_at IS NULL)", "AND false)",
        "tests/integration/api/test_run_expiry.py::test_a_run_with_an_open_call_waits_for_it",
    ),
    defect(
        "step closed early", "a step ends when every call of it has a terminal row", "toolsys/sql/10_guards.sql",
        "AND completed_at IS NULL AND v.call_count = (", "AND completed_at IS NULL AND v.call_count >= (",
        PROPOSAL + "test_a_step_is_closed_by_its_last_call_only",
    ),
    defect(
        "expired holds not swept", "a request that nobody decided in time is found", SWEEP,
        "a.status <> 'pending' OR a.expires_at <= clock_timestamp()", "a.status <> 'pending'",
        SWEPT + "test_a_held_call_is_named_once_its_request_has_expired",
    ),
    defect(
        "cancelled holds not swept", "a held call of a cancelled run is found", SWEEP,
        "\n                OR i.cancel_requested_at IS NOT NULL)))", ")))",
        SWEPT + "test_a_held_call_whose_run_is_cancelled_is_named",
    ),
    defect(
        "table of any schema", "a definer function names the schema of every table", SWEEP,
        "SELECT s.id FROM public.run_steps s", "SELECT s.id FROM run_steps s",
        "tests/architecture/test_database.py::test_definer_functions_name_the_schema_of_every_table",
    ),
    defect(
        "lost steps not swept", "a step whose next call was never written is found", SWEEP,
        "WHERE s.completed_at IS NULL AND c.open", "WHERE false AND c.open",
        SWEPT + "test_a_step_whose_next_call_was_never_written_is_named",
    ),
    defect(
        "steps rung without end", "a step that nobody goes on with is named less and less often", SWEEP,
        "AND (s.rung_at IS NULL OR s.rung_at", "AND (true OR s.rung_at",
        SWEPT + "test_a_step_that_nobody_goes_on_with_is_named_less_and_less_often",
    ),
    Defect(
        "stuck steps hide the others", "what nobody can go on with hides no other",
        (
            Edit(SWEEP, "AND (s.rung_at IS NULL OR s.rung_at", "AND (true OR s.rung_at"),
            Edit(SWEEP, "ORDER BY s.rung_at NULLS FIRST, s.created_at LIMIT", "ORDER BY s.created_at LIMIT"),
        ),
        (SWEPT + "test_steps_that_nobody_can_go_on_with_hide_no_other",),
    ),
    defect(
        "step's wait goes on", "a step that was gone on with is named at once", SWEEP,
        "SELECT coalesce(max(i.completed_at), s.created_at) AS since,", "SELECT s.created_at AS since,",
        SWEPT + "test_a_step_that_was_gone_on_with_is_named_at_once_when_the_next_worker_dies",
    ),
    defect(
        "suspended calls swept", "a suspended call is not rung for", SWEEP,
        " AND i.suspended_kind IS NULL", "",
        SWEPT + "test_a_suspended_call_is_not_named",
    ),
    defect(
        "lost calls rung without end", "who is lost is named at once, and then less and less often", SWEEP,
        "          AND (i.dispatch_after IS NULL OR i.dispatch_after <= clock_timestamp())\n", "",
        SWEPT + "test_a_lost_call_is_named_at_once_and_then_waits_until_somebody_claims_it",
    ),
    _commit(
        "claim keeps the old wait", "who is lost is named at once, whatever the call had waited for",
        "authz_epoch = p_authz_epoch, dispatch_after = NULL,", "authz_epoch = p_authz_epoch,",
        SWEPT + "test_a_lost_call_is_named_at_once_and_then_waits_until_somebody_claims_it",
    ),
    _commit(
        "budget not counted under the lock", "of two calls that each read one left, one begins",
        "IF p ? 'is_counted' AND v_run.calls_begun", "IF false AND v_run.calls_begun",
        PROPOSAL + "test_of_two_calls_that_each_read_one_left_one_begins",
    ),
    defect(
        "decisions not swept", "a decided request is found when its bell is lost", SWEEP,
        "AND (a.status <> 'pending' OR a.expires_at <= clock_timestamp()", "AND (a.expires_at <= clock_timestamp()",
        SWEPT + "test_a_held_call_is_named_once_it_is_decided",
    ),
)  # fmt: skip
