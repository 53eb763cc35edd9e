"""Defects of the pipeline, its steps, the domain and the edges."""

from typing import Final

from tests.sabotage.defect import Defect, Edit, defect

PIPELINE, STEPS, PORTS = "toolsys/pipeline.py", "toolsys/steps.py", "toolsys/ports.py"
ATTEMPTS: Final = "toolsys/attempts.py"
DRAWN: Final = "tests/model/test_search.py::test_drawn_schedules_break_no_invariant"
ENDS: Final = "tests/model/test_search.py::test_a_call_that_may_not_be_repeated_ends_by_where_its_worker_died"
RACES: Final = "tests/model/test_design_races.py::"
SOURCE: Final = "tests/architecture/test_pipeline_source.py::"
DESIGN: Final = "tests/races/test_design_races.py::"
RECOVERY: Final = "tests/integration/test_recovery.py::"
ATTEMPTED: Final = "tests/integration/test_attempts.py::"
CALLS: Final = "tests/integration/test_pipeline.py::"
COUNTERS: Final = (
    "tests/integration/test_telemetry.py::test_a_result_that_counts_without_end_makes_a_bounded_number_of_series"
)

PIPELINE_DEFECTS: Final = (
    defect(
        "no watermark", "the watermark is committed before anything is sent", PIPELINE,
        "fence = store.commit_watermark(claim)  # 10",
        'from toolsys.ports import Fence; fence = Fence(held=True, why="held")  # 10',
        DRAWN, ENDS, RECOVERY + "test_after_the_watermark_a_non_idempotent_call_is_uncertain_and_never_sent_again",
    ),
    Defect(
        "watermark after the effect", "the watermark comes first",
        (
            Edit(
                PIPELINE,
                "        if case.classification.side_effect is not SideEffectClass.NONE:\n",
                "        case.result = runtime.execution.execute(case.tool, case.arguments, context)\n"
                "        if case.classification.side_effect is not SideEffectClass.NONE:\n",
            ),
            Edit(
                PIPELINE,
                "        case.result = runtime.execution.execute(case.tool, case.arguments, context)  # 10 the world",
                "        # 10 the world",
            ),
        ),
        (DRAWN, ENDS, SOURCE + "test_steps_and_commits_stand_where_the_specification_puts_them"),
    ),
    defect(
        "fence not asked", "a fence that does not hold stops the call", PIPELINE,
        "if not (fence.held and runtime.execution.may_send(claim)):", "if fence.why is None:",
        DRAWN, RACES + "test_a_change_after_the_epoch_was_read_is_judged_afresh",
        RECOVERY + "test_a_switch_turned_off_before_the_watermark_stops_the_call",
    ),
    defect(
        "no boottime check", "a process frozen after the watermark does not send late", PIPELINE,
        "if not (fence.held and runtime.execution.may_send(claim)):", "if not fence.held:",
        RACES + "test_a_process_frozen_after_the_watermark_does_not_send_late",
        SOURCE + "test_the_watermark_comes_before_the_effect_for_everything_but_none",
    ),
    defect(
        "recovery not asked", "the recovery table is asked before the watermark is passed again", PIPELINE,
        "if attempts.is_unrepeatable(case):", "if False:",
        DRAWN, ENDS, RACES + "test_a_thaw_after_the_resolution_changes_nothing",
    ),
    defect(
        "transaction not guarded", "no transaction is open while a tool runs", PIPELINE,
        '        assert not is_transaction_open(), "no transaction may be open while a tool runs"\n', "",
        SOURCE + "test_the_line_before_asserts_that_no_transaction_is_open",
    ),
    defect(
        "cancelled call is left", "a call cancelled before its watermark is ended", PIPELINE,
        'if why == "cancelled":', 'if why == "never":',
        RECOVERY + "test_a_run_cancelled_before_the_watermark_stops_the_call",
    ),
    defect(
        "facts kept after a lost fence", "after a lost fence the call is judged by fresh facts", PIPELINE,
        'if why in {"authz_epoch", "switch"} and runtime', 'if why == "never" and runtime',
        RECOVERY + "test_a_switch_turned_off_before_the_watermark_stops_the_call",
        RACES + "test_changes_without_end_spend_the_claims_and_send_nothing",
    ),
    defect(
        "replay runs again", "a terminal row gives its recorded outcome again", STEPS,
        "if row.status.is_terminal:", "if row.status is InvocationStatus.PROPOSED:",
        CALLS + "test_the_same_submission_again_is_a_replay_and_runs_nothing",
        CALLS + "test_two_deliveries_of_one_job_execute_once",
    ),
    defect(
        "new key per attempt", "every send of a call carries the same key", STEPS,
        "idempotency_key=case.normalized.idempotency_key,",
        'idempotency_key=f"{case.normalized.idempotency_key}-{claim.epoch}",',
        DRAWN, "tests/model/test_search.py::test_a_call_that_may_be_repeated_is_repeated_and_succeeds",
    ),
    defect(
        "unknown outcome retried", "an unknown outcome is uncertain and ends the call", STEPS,
        "    if kind is ToolFailureKind.OUTCOME_UNKNOWN or unanswered:", "    if False:",
        RACES + "test_an_answer_that_leaves_the_outcome_unknown_is_never_retried",
        RECOVERY + "test_a_write_that_times_out_after_the_watermark_is_uncertain",
    ),
    defect(
        "expired approval accepted", "an approval has a time to be used", STEPS,
        "if approval.status is ApprovalStatus.APPROVED and not approval.is_consumable:", "if False:",
        RACES + "test_an_approval_that_is_used_too_late_sends_nothing",
        CALLS + "TestApproval::test_an_approval_not_used_in_time_denies",
    ),
    defect(
        "digest not compared", "what was approved is what is done", STEPS,
        " or approval.digest != approval_digest(case):", ":",
        CALLS + "TestApproval::test_an_approval_of_something_else_is_void",
    ),
    defect(
        "digest without arguments", "an approval is bound to the arguments", "toolsys/domain/binding.py",
        '"arguments": arguments_hash, ', "",
        "tests/unit/test_approval_binding.py::test_whatever_changes_makes_another_digest",
    ),
    defect(
        "weaker approval accepted", "an approval covers no stricter verdict than its own", STEPS,
        "if not seats.covers(approval.held, asked):", "if False:",
        "tests/unit/test_approval_binding.py::test_an_expert_s_approval_does_not_cover_what_now_needs_the_client",
    ),
    defect(
        "revoked key accepted", "a key that is revoked meanwhile denies", STEPS,
        "if not case.facts.key.is_live:", "if False:",
        CALLS + "TestAuthorization::test_a_change_between_proposal_and_execution_is_seen_by_the_worker",
    ),
    defect(
        "scopes of the key only", "key and principal must both hold a scope", "toolsys/domain/calls.py",
        "return self.key.scopes & self.principal.scopes", "return self.key.scopes",
        CALLS + "TestAuthorization::test_a_scope_that_the_principal_lacks_denies",
    ),
    defect(
        "unknown tool is harmless", "an unknown tool counts as the strictest class", PORTS,
        "live = self.tool.spec.classification if self.tool is not None else STRICTEST",
        'live = self.tool.spec.classification if self.tool is not None else Classification(side_effect="none")',
        CALLS + "test_an_unknown_tool_resolves_to_the_strictest_class_and_is_denied",
        "tests/contract/store/test_proposal.py::test_a_refused_call_is_one_terminal_row_and_closes_its_step",
    ),
    defect(
        "live class ignored", "of snapshot and live class the stricter counts", PORTS,
        "return live if self.row is None else live.stricter(self.row.classification)",
        "return live if self.row is None else self.row.classification",
        RACES + "test_a_class_made_stricter_after_the_send_is_the_one_that_counts",
    ),
    defect(
        "snapshot forgotten", "of snapshot and live class the stricter counts", PORTS,
        "return live if self.row is None else live.stricter(self.row.classification)", "return live",
        RACES + "test_a_class_made_looser_after_the_intent_does_not_take_its_watermark_away",
    ),
    defect(
        "fence by the live class alone", "what was authorized as a write is fenced as a write", PIPELINE,
        "if case.classification.side_effect is not SideEffectClass.NONE:",
        "if case.spec.side_effect is not SideEffectClass.NONE:",
        RACES + "test_a_class_made_looser_after_the_intent_does_not_take_its_watermark_away",
    ),
    defect(
        "epoch read after the facts", "the epoch is read before what it stands for", "toolsys/store.py",
        "        return facts_from(call.tenant_id, found, self._standing(call, found))\n",
        "        standing = self._standing(call, found)\n"
        "        again = (call.tenant_id, call.run_id, call.step.number, call.call_id)\n"
        '        later = database.call("SELECT toolsys_facts(%s, %s, %s, %s)", again)[0][0]\n'
        '        found = found | {"authz_epoch": database.from_json(later)["authz_epoch"]}\n'
        "        return facts_from(call.tenant_id, found, standing)\n",
        DESIGN + "test_who_acts_changed_while_the_facts_were_read",
    ),
    defect(
        "heartbeat begins with the effect", "a lease is renewed from the claim on", "toolsys/execution.py",
        "            self._loop.run(_contained(prepare, context), self._left(context))\n",
        "            claim = self._claims[context.invocation_id]\n"
        "            self._keeper.drop(claim)\n"
        "            self._loop.run(_contained(prepare, context), self._left(context))\n"
        "            self._keeper.hold(claim)\n",
        DESIGN + "test_a_lease_is_kept_through_a_preparation_that_outlasts_it",
        RACES + "test_a_slow_preparation_keeps_its_lease_while_the_process_lives",
    ),
    defect(
        "lease not asked at the socket", "whoever writes the first byte asks for the lease", "toolsys/egress.py",
        "if self._may_send is not None and not self._may_send():", "if False:",
        DESIGN + "test_a_connection_that_took_longer_than_the_lease_sends_nothing",
    ),
    defect(
        "cancelled run keeps its calls", "who cancels a run marks each call of it", "toolsys/services.py",
        "            _request_cancel(tenant_id, Invocation.objects.filter(run=run, completed_at=None))\n",
        "            pass\n",
        "tests/integration/api/test_cancel.py::test_a_run_that_is_cancelled_marks_each_open_call_of_it",
    ),
    defect(
        "known step not compared", "the same step with another body is a conflict", STEPS,
        "case.facts.step.body_hash != case.call.step.body_hash:", "False:",
        "tests/unit/test_dedup.py::test_another_body_is_a_conflict_whatever_became_of_the_first",
    ),
    defect(
        "uncertain call proposed again", "what nobody knows of is not proposed again", "toolsys/domain/repetition.py",
        "if any(alarm.outcome_status is OutcomeStatus.UNCERTAIN for alarm in own):", "if False:",
        "tests/unit/test_repetition.py::test_an_uncertain_call_is_never_proposed_again",
        "tests/integration/test_breakers.py::"
        "test_an_uncertain_call_is_not_proposed_again_until_it_is_known_not_to_have_happened",
    ),
    defect(
        "trust told by the step alone", "what the run was told caps the trust of its next step", PORTS,
        "return self.call.step.origin_trust.stricter(self.facts.run.delivered_trust)",
        "return self.call.step.origin_trust",
        "tests/contract/store/test_settlement.py::test_a_step_written_later_is_capped_by_what_the_run_was_told",
    ),
    defect(
        "recovery row flipped", "what was sent and may not be repeated is uncertain", "toolsys/domain/recovery.py",
        "(IdempotencyClass.NON_IDEMPOTENT, True): RecoveryAction.UNCERTAIN",
        "(IdempotencyClass.NON_IDEMPOTENT, True): RecoveryAction.RE_EXECUTE",
        "tests/unit/test_recovery.py::test_the_table_is_that_of_the_specification", DRAWN, ENDS,
    ),
    defect(
        "key place ignored", "without a way to pass the key nothing is conditional", "toolsys/domain/recovery.py",
        "    if declared is IdempotencyClass.CONDITIONALLY_IDEMPOTENT and not passes_key:\n"
        "        return IdempotencyClass.NON_IDEMPOTENT\n", "",
        "tests/unit/test_recovery.py::test_without_a_way_to_pass_the_key_conditional_counts_as_non_idempotent",
    ),
    defect(
        "earlier attempt forgotten", "an ending without a result does not forget an earlier attempt", ATTEMPTS,
        "if recovery.unrecorded_ending_is_uncertain(case.classification, effect_sent=_effect_sent(case)):", "if False:",
        DRAWN, RACES + "test_no_ending_without_a_result_forgets_the_watermark_of_an_earlier_attempt",
        RECOVERY + "test_a_denial_after_an_earlier_attempt_was_sent_is_uncertain",
    ),
    defect(
        "any class tried again", "a known failure is tried again only where a repeat is permitted", ATTEMPTS,
        ' or _is_final(case, effect_sent=case.classification.side_effect.value != "none"):', ":",
        RACES + "test_a_known_failure_is_tried_again_only_where_a_repeat_is_permitted",
    ),
    defect(
        "attempts without end", "a call is tried a bounded number of times", ATTEMPTS,
        "if claim.attempt_number >= limits.max_attempts or wait", "if wait",
        RACES + "test_a_known_failure_is_tried_again_only_where_a_repeat_is_permitted",
        RACES + "test_absence_for_now_is_tried_again_and_a_bounded_number_of_times",
    ),
    defect(
        "drain ignored", "a draining worker gives back what it has not sent", PIPELINE,
        "if runtime.execution.is_draining:", "if False:",
        "tests/model/test_search.py::test_one_change_at_every_point_breaks_no_invariant",
        RACES + "test_a_draining_worker_gives_back_what_it_has_not_sent",
    ),
    defect(
        "older database believed", "a row of an older database epoch counts as sent", "toolsys/domain/calls.py",
        "return self.effect_sent_at is not None or self.predates_database_epoch",
        "return self.effect_sent_at is not None",
        RACES + "test_a_watermark_that_a_restore_erased_counts_as_set",
    ),
    defect(
        "pin ignored", "a session is offered exactly its pin", "toolsys/registry.py",
        "pinned = self.pinned(facts).get(name)",
        "pinned = getattr(self._builtins.get(name), 'spec', None) or self.pinned(facts).get(name)",
        "tests/unit/test_pinned_resolution.py::test_a_tool_of_the_build_that_was_not_advertised_is_not_offered",
        "tests/unit/test_pinned_resolution.py::test_another_version_than_the_pinned_one_is_withdrawn",
    ),
    defect(
        "remote references fetched", "no schema opens a connection", "toolsys/validation.py",
        "retriever=_refuse, ", "",
        "tests/unit/test_validation.py::test_no_schema_ever_opens_a_connection",
    ),
    defect(
        "body not capped", "a body is bounded while it is read", "toolsys/egress.py",
        "if left is not None and len(chunk) > left:", "if left is not None and len(chunk) < 0:",
        "tests/integration/test_bounded_body.py::test_what_is_kept_of_a_body_ends_at_its_bound",
    ),
    defect(
        "rung before the commit", "the bell is rung after the commit", "toolsys/decisions.py",
        "transaction.on_commit(ring, robust=True)", "ring()",
        "tests/integration/approvals/test_deciding.py::"
        "test_an_approval_is_recorded_with_its_vote_and_event_and_the_call_goes_on",
    ),
    defect(
        "cancelled by the web's clock", "what is compared with the database's clock was written by it",
        "toolsys/services.py", "    now = database.now()\n    Invocation",
        "    now = datetime.now().astimezone() + timedelta(hours=1)\n    Invocation",
        "tests/integration/api/test_cancel.py::test_a_cancelled_call_is_due_by_the_database_s_clock",
    ),
    defect(
        "run timed by the web's clock", "a run's deadline is the database's time", "toolsys/services.py",
        "deadline_at=database.now() + timedelta(",
        "deadline_at=datetime.now().astimezone() + timedelta(hours=1) + timedelta(",
        "tests/integration/api/test_cancel.py::test_a_run_s_deadline_is_the_database_s_time",
    ),
    defect(
        "lock waits without end", "no wait for the database is without an end", "config/databases.py",
        '"lock_timeout": "30s", ', "",
        "tests/architecture/test_database.py::test_the_server_ends_what_would_wait_for_ever",
    ),
    defect(
        "preparation has time of its own", "one deadline for preparation and execution", "toolsys/execution.py",
        "left = claim.claimed_at_boottime + claim.remaining_seconds - self._clock.boottime()",
        "left = claim.remaining_seconds",
        "tests/unit/test_deadlines.py::test_what_preparation_took_execution_does_not_have",
    ),
    defect(
        "unstored write passed over", "a write that cannot be recorded fails its run", "toolsys/store.py",
        "if not case.classification.side_effect.is_write:", "if case.classification is not None:",
        ATTEMPTED + "test_a_write_that_cannot_be_recorded_fails_its_run_and_ends_uncertain",
        ATTEMPTED + "test_a_result_that_cannot_be_stored_at_first_is_stored_within_the_lease",
    ),
    defect(
        "Retry-After not honoured", "nobody is asked again earlier than they said", ATTEMPTS,
        "(claim.attempt_number - 1), asked_seconds or 0.0)", "(claim.attempt_number - 1), 0.0)",
        ATTEMPTED + "test_the_wait_grows_and_is_never_shorter_than_asked",
    ),
    defect(
        "no proof about the worker", "'did not happen' needs proof that the old worker is dead",
        "toolsys/resolutions.py", "if resolution is Resolution.NOT_HAPPENED and worker_proof is None:", "if False:",
        "tests/integration/test_breakers.py::test_that_it_did_not_happen_needs_a_proof_about_the_worker",
    ),
    defect(
        "unknown watermark believed", "a watermark of unknown commit is read back before sending", "toolsys/store.py",
        "            database.discard_connection()\n            answer = self._call(\"watermark\", claim.tool_name, "
        "statement, parameters)\n",
        '            answer = "held"\n',
        ATTEMPTED + "test_a_watermark_whose_commit_is_unknown_is_read_back_or_nothing_is_sent",
    ),
    defect(
        "renewal counted from its answer", "a lease is counted from before it was asked for", "toolsys/leases.py",
        "each.renewed(before)", "each.renewed(self._clock.boottime())",
        "tests/unit/test_leases.py::test_a_renewal_counts_from_before_it_was_asked_for",
    ),
    defect(
        "claim counted from its answer", "a lease is counted from before it was asked for", "toolsys/store.py",
        "return self._claim(case, row, answer, before)", "return self._claim(case, row, answer, self.clock.boottime())",
        ATTEMPTED + "test_a_lease_is_counted_from_before_it_was_asked_for",
    ),
    defect(
        "origin trust told anew", "origin trust is fixed when the step row is written", PORTS,
        "        if self.facts.step is not None:\n            return self.facts.step.origin_trust\n", "",
        "tests/contract/store/test_settlement.py::test_a_step_keeps_the_trust_that_it_was_written_with",
    ),
    defect(
        "writes join a group", "a step runs in parallel only if every call of it may", "toolsys/batches.py",
        "        and not spec.side_effect.is_write\n", "",
        "tests/unit/test_deadlines.py::test_each_condition_of_a_group_stands_alone",
    ),
    defect(
        "lease kept by a dead keeper", "a process trusts only the lease that it renewed itself", "toolsys/leases.py",
        "Held(claim, claim.claimed_at_boottime + claim.lease_seconds)", 'Held(claim, float("inf"))',
        RACES + "test_a_process_frozen_after_the_watermark_does_not_send_late",
    ),
    defect(
        "row security off on one table", "every tenant's table is protected", "toolsys/rowsecurity.py",
        'f"ALTER TABLE {table} ENABLE ROW LEVEL SECURITY",',
        "f\"ALTER TABLE {table} {'DISABLE' if table == 'artifacts' else 'ENABLE'} ROW LEVEL SECURITY\",",
        "tests/architecture/test_row_security.py::test_another_tenant_s_rows_are_neither_read_nor_changed",
        "tests/architecture/test_row_security.py::test_without_a_tenant_there_are_no_rows",
    ),
    defect(
        "sealed bytes open anywhere", "sealed bytes are bound to where they belong", "toolsys/envelope.py",
        "(tenant_id.encode(), kind.encode(), row.bytes, key)", "(kind.encode(), key)",
        "tests/unit/test_envelope.py::test_a_value_moved_elsewhere_does_not_open",
    ),
    defect(
        "dead connection kept", "no thread works over a connection that the server has ended",
        "toolsys/postgres/base.py", "and is_ended(self.connection):", "and False:",
        "tests/races/test_dead_connections.py::test_a_thread_that_kept_its_connection_takes_another",
    ),
    defect(
        "transaction over two connections", "a transaction is never carried on over another connection",
        "toolsys/postgres/base.py", "not self.in_atomic_block and is_ended", "is_ended",
        "tests/races/test_dead_connections.py::test_a_transaction_does_not_go_on_over_another_connection",
    ),
    defect(
        "unreadable call kept", "a call whose stored body does not open ends", "toolsys/steps.py",
        'raise Refused("tool.unreadable")', "pass",
        "tests/integration/test_unreadable.py::test_a_call_whose_body_was_changed_ends_unsent",
    ),
    defect(
        "lost for want of a key", "what another process has the key of is left to it", "toolsys/services.py",
        "if is_open and isinstance(fault, UnknownKey):", "if not is_open and isinstance(fault, UnknownKey):",
        "tests/integration/test_unreadable.py::test_a_worker_with_another_key_performs_nothing",
        "tests/integration/test_unreadable.py::test_what_nobody_has_the_key_of_ends_with_its_run",
    ),
    defect(
        "stop by exception alone", "a stop is heard, whoever caught what its signal raised",
        "toolsys/worker.py", "        self._stopping.set()\n", "",
        "tests/integration/test_queue.py::test_a_stop_is_heard_although_somebody_caught_what_its_signal_raised",
    ),
    defect(
        "counters of a tool without bound", "a tool's own counters make a bounded number of series",
        "toolsys/labels.py", "and len(self._seen) >= self._maximum:", "and False:", COUNTERS,
    ),
    defect(
        "counters of a call without bound", "one call's counters are looked at up to a bound", "toolsys/telemetry.py",
        "islice(metrics.items(), MAXIMUM_COUNTERS)", "metrics.items()", COUNTERS,
    ),
    defect(
        "builtin unwatched", "what a builtin resolved is in nothing that it leaves", "toolsys/registry.py",
        "watched(self.get(name, pinned.version))", "self.get(name, pinned.version)",
        "tests/integration/test_scrubbing.py::test_what_a_builtin_resolved_is_in_nothing_that_it_leaves",
    ),
    defect(
        "write asked for less", "a write that said too much invites no second one", "toolsys/outputs.py",
        "if _has_effect(spec) else", "if False else",
        "tests/unit/test_outputs.py::test_a_write_that_said_too_much_has_run_and_invites_no_second",
    ),
    defect(
        "start unasked", "nothing serves before its role could be asked for", "config/checks.py",
        "if time.monotonic() >= until:", "if True:\n                return []\n            if False:",
        "tests/integration/test_reported_faults.py::test_nothing_serves_before_its_role_could_be_asked_for",
    ),
    defect(
        "role alone", "what the role may become counts", "config/checks.py",
        "pg_has_role(current_user, r.oid, 'MEMBER')", "r.rolname = current_user",
        "tests/integration/test_reported_faults.py::test_nothing_serves_under_a_role_that_may_become_such_a_one",
    ),
)  # fmt: skip
