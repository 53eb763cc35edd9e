"""Defects of deciding: who may, what a vote is worth, and what a grant stands in for."""

from typing import Final

from tests.sabotage.defect import defect

BALLOTS, SEATING, SERVICES = "approvals/ballots.py", "approvals/seating.py", "approvals/services.py"
MAY: Final = "tests/integration/approvals/test_authorisation.py::test_who_may_decide"
GUESSES, SITE = "toolsys/guesses.py", "config/admin_site.py"
EVIDENCE: Final = "tests/integration/approvals/test_evidence.py::"
GUESSED: Final = "tests/integration/test_guesses.py::"
RACES: Final = "tests/integration/approvals/test_races.py::"
GRANTS: Final = "tests/integration/approvals/test_grants.py::"
CONFIGURED: Final = "tests/integration/console/test_configuration.py::"
PAIRS: Final = RACES + "test_of_two_people_or_moments_one_wins_and_the_loser_is_told"
STANDS: Final = RACES + "test_nothing_is_sent_when_the_approval_stops_standing_before_the_watermark"

APPROVAL_DEFECTS: Final = (
    defect(
        "vote: proposer decides", "whoever proposed a call cannot decide it", BALLOTS,
        "is_proposer=principal in names,", "is_proposer=False,", MAY,
    ),
    defect(
        "vote: key owner decides", "whoever owns the key cannot decide what it proposed", BALLOTS,
        "owns_key=found.api_key.owner_id == user.pk,", "owns_key=False,", MAY,
    ),
    defect(
        "vote: rule author decides", "whoever wrote the rule cannot decide what it holds", BALLOTS,
        "wrote_policy=_wrote_policy(row, user),", "wrote_policy=False,", MAY,
    ),
    defect(
        "vote: one person, two seats", "one person fills one seat", SEATING,
        "any(vote.user_id == voter.user_id for vote in ballot.counted)", "bool(ballot is None)", MAY,
    ),
    defect(
        "vote: first word counts", "a vote that was taken back does not count", BALLOTS,
        'ApprovalVote.objects.filter(request=row).order_by("number")}',
        'ApprovalVote.objects.filter(request=row).order_by("-number")}', MAY,
    ),
    defect(
        "vote: who left still counts", "a vote counts while its person is entitled to it", BALLOTS,
        "if (vote.user_id, Seat(vote.seat).role) in entitled]", "if entitled is not None]", MAY,
    ),
    defect(
        "vote: no password asked", "high risk takes the password again", SERVICES,
        "if is_approval and ballot.is_weighty and not is_reauthenticated:", "if False:", MAY,
    ),
    defect(
        "vote: stale form decides", "what was shown is what is decided", SERVICES,
        "if ballot.digest != digest:", "if False:", MAY,
    ),
    defect(
        "approval: outlives its people", "an approval stands while its people are entitled to it",
        "toolsys/sql/50_decisions.sql", " AND u.is_active\n", "\n", PAIRS,
    ),
    defect(
        "approval: deactivation unseen", "who is deactivated changes what was approved before the watermark",
        "toolsys/sql/45_people.sql", "SET authz_epoch = t.authz_epoch + 1", "SET authz_epoch = t.authz_epoch", STANDS,
    ),
    defect(
        "approval: another seat not asked", "an approval covers what the fresh verdict asks",
        "toolsys/steps.py", "for asked in (approval.seats, needed):", "for asked in (approval.seats,):", STANDS,
    ),
    defect(
        "evaluation: not kept", "every evaluation is stored", "toolsys/sql/30_commits.sql",
        "    IF p_decision IS NOT NULL THEN", "    IF false THEN",
        RACES + "test_every_evaluation_is_stored_also_one_that_changes_nothing",
    ),
    defect(
        "approval: rewritten after it", "what is sent is made from the approved bytes", "toolsys/steps.py",
        "    case.arguments = canonical.parse_strict(case.normalized.canonical)\n", "",
        RACES + "test_what_is_sent_is_made_from_what_was_approved_and_not_from_what_became_of_it",
    ),
    defect(
        "grant: last use not locked", "of calls at once one takes the last use", "toolsys/sql/55_grants.sql",
        "RETURN FOUND AND g.uses < g.maximum_uses AND", "RETURN FOUND AND",
        GRANTS + "test_what_happens_to_a_grant_between_judging_and_intent_is_seen",
    ),
    defect(
        "grant: outlived by its call", "a loosened rule does not stand in for a grant that ended", "toolsys/steps.py",
        "if case.row.verdict.needs_approval and decision.grant is None:",
        "if is_open and case.row.verdict.needs_approval and decision.grant is None:",
        GRANTS + "test_a_rule_that_was_loosened_meanwhile_does_not_stand_in_for_a_grant_that_ended",
    ),
    defect(
        "grant: not asked under a milder verdict", "a grant that stands still stands in", "approvals/gate.py",
        "needs = decision.verdict.needs_approval or _was_granted(facts)", "needs = decision.verdict.needs_approval",
        GRANTS + "test_a_rule_that_was_loosened_meanwhile_does_not_stand_in_for_a_grant_that_ended",
    ),
    defect(
        "permission: withdrawal unseen", "a withdrawn permission stops what has not passed the watermark",
        "approvals/migrations/0002_policy_rules.py",
        'RaisesAuthzEpoch("ToolPermission", ["agent_id", "tools", "is_enabled"], on_insert=True)',
        'RaisesAuthzEpoch("ToolPermission", ["created_at"])',
        "tests/integration/approvals/test_switch_races.py::"
        "test_a_permission_that_is_withdrawn_stops_what_has_not_passed_the_watermark",
    ),
    defect(
        "grant: for any tool of the name", "a grant is for the very tool it was given for", "approvals/grantmatch.py",
        "return digest == self.tool_digest and all(", "return bool(digest) and all(",
        GRANTS + "test_a_grant_is_for_the_very_tool_and_for_no_less_trusted_room",
    ),
    defect(
        "grant: proposer confirms", "who proposes a grant never confirms it", "approvals/grants.py",
        "grant.proposed_by_id != user.pk, \"approval.own_call\"", "True, \"approval.own_call\"",
        GRANTS + "test_a_grant_takes_two_people_and_neither_key_nor_rule_of_theirs",
    ),
    defect(
        "API: cookie without a token", "a cookie alone decides nothing", "toolsys/api/people.py",
        "        if request.method not in SAFE:\n", "        if request.method == \"NONE\":\n",
        "tests/integration/approvals/test_api.py::test_a_cookie_alone_decides_nothing",
    ),
    defect(
        "grant: altered call confirmed", "what was altered since it was proposed is confirmed by nobody",
        "approvals/grants.py", "if evidence.grant_alterations(grant, sealer):", "if False:",
        EVIDENCE + "test_no_standing_grant_is_confirmed_that_was_altered_after_it_was_proposed",
    ),
    defect(
        "grant: its call not asked", "a grant stands on the call that it was drawn from", "approvals/evidence.py",
        "    found = alterations(grant.request, sealer)\n", "    found: list[Alteration] = []\n",
        EVIDENCE + "test_no_standing_grant_is_confirmed_whose_call_was_altered_after_it_was_proposed",
    ),
    defect(
        "grant: uses not bound", "everything that a grant says is bound", "approvals/evidence.py",
        '"maximum_uses": grant.maximum_uses, ', "",
        EVIDENCE + "test_no_standing_grant_is_confirmed_that_was_altered_after_it_was_proposed",
    ),
    defect(
        "grant: altered and used", "a grant that was altered stands for nothing", "approvals/policy_selectors.py",
        "if evidence.is_reworded(row, sealer):", "if False:",
        GRANTS + "test_a_grant_that_was_altered_after_it_was_confirmed_stands_for_nothing",
    ),
    defect(
        "grant: alteration unseen", "whoever alters a grant has every process read it anew",
        "toolsys/migrations/0032_altered_grants.py",
        'RaisesAuthzEpoch("StandingGrant", [*COLUMNS, *WORDS], on_insert=True)',
        'RaisesAuthzEpoch("StandingGrant", COLUMNS, on_insert=True)',
        GRANTS + "test_a_grant_that_was_altered_after_it_was_confirmed_stands_for_nothing",
        GRANTS + "test_a_grant_that_is_altered_before_the_watermark_lets_nothing_out",
        GRANTS + "test_every_word_of_a_grant_raises_the_epoch",
    ),
    defect(
        "grant: uses given back", "what counts a grant's uses only rises", "toolsys/migrations/0032_altered_grants.py",
        "WHEN (NEW.uses < OLD.uses)", "WHEN (NEW.uses < 0)", GRANTS + "test_no_use_of_a_grant_is_given_back",
    ),
    defect(
        "outbox: long queue first", "a long queue of one endpoint hides no message of another",
        "approvals/sql/10_outbox.sql", "ORDER BY d.due_at LIMIT 1) first", "ORDER BY d.due_at LIMIT p_limit) first",
        "tests/integration/approvals/test_outbox.py::"
        "test_a_long_queue_of_one_endpoint_hides_no_message_of_another",
    ),
    defect(
        "outbox: clock asked of every row", "what is due is found through an index", "approvals/sql/10_outbox.sql",
        "AND d.due_at <= statement_timestamp()", "AND d.due_at <= clock_timestamp()",
        "tests/integration/approvals/test_outbox.py::test_what_is_due_is_found_through_an_index",
    ),
    defect(
        "guesses: one too many", "attempts beyond the bound wait", GUESSES,
        "if count > bound.limit else 0", "if count > bound.limit + 1 else 0",
        GUESSED + "test_attempts_beyond_the_bound_wait_for_the_end_of_the_window",
        GUESSED + "test_signing_in_is_bounded_and_says_how_long_to_wait",
    ),
    defect(
        "guesses: window without an end", "a window ends by itself", GUESSES,
        '        _command("EXPIRE", bound.key, bound.window_seconds)\n', "",
        GUESSED + "test_a_window_ends_by_itself_whenever_its_process_died",
    ),
    defect(
        "guesses: a count for each process", "guesses are counted across processes", GUESSES,
        "return PREFIX + hashlib", "return f\"{__import__('os').getpid()}\" + hashlib",
        GUESSED + "test_another_process_counts_the_same_guesses",
    ),
    defect(
        "guesses: uncounted ones pass", "what cannot be counted is not judged", GUESSES,
        "        return UNCOUNTED_SECONDS\n", "        return 0\n",
        GUESSED + "test_nobody_guesses_where_nobody_can_count",
    ),
    defect(
        "guesses: no bound of the account", "an account is bounded from everywhere", SITE,
        'Bound(f"login of {account}", ACCOUNT_LIMIT, window)', 'Bound(f"login of {account}", 10**9, window)',
        GUESSED + "test_an_account_is_bounded_from_everywhere_and_one_that_is_not_there_reads_the_same",
    ),
    defect(
        "guesses: nothing is forgotten", "the right password forgets what was mistyped", SITE,
        "        guesses.forget(account)\n", "", GUESSED + "test_the_right_password_forgets_what_was_mistyped",
    ),
    defect(
        "guesses: an own account forgets all", "no login forgets guesses at others", SITE,
        "guesses.take_back([shared])", "guesses.forget([shared])",
        GUESSED + "test_an_account_of_one_s_own_forgets_no_guess_at_others_from_one_address",
    ),
    defect(
        "guesses: signing in counts as one", "the right password is no guess", SITE,
        "        guesses.take_back([shared])\n", "",
        GUESSED + "test_many_who_sign_in_from_one_address_use_up_nothing",
    ),
    defect(
        "guesses: credit kept", "nothing is taken back from a window that has ended", GUESSES,
        '            if int(_command("DECR", bound.key)) < 0:  # its window had ended\n'
        '                _command("DEL", bound.key)\n',
        '            _command("DECR", bound.key)\n',
        GUESSED + "test_what_is_taken_back_from_a_window_that_has_ended_leaves_no_credit",
    ),
    defect(
        "policy: doubt not asked", "a rule that may match and asks for more is asked",
        "approvals/ruleset.py", "(rule.demand > self._reached and rule.may_doubt(self._subject.reading))", "False",
        "tests/unit/test_policy_matchers.py::"
        "test_a_rule_that_only_may_match_is_asked_however_many_are_listed_before_it",
    ),
    defect(
        "policy: open literal in a union", "an expression takes no neighbour with it", "approvals/screens.py",
        r'if r"\Q" not in pattern:', "if pattern:",
        "tests/unit/test_policy_screens.py::test_an_expression_whose_text_never_ends_takes_no_neighbour_with_it",
    ),
    defect(
        "policy: any name is written", "a name that no tool can have is refused", "toolsys/domain/names.py",
        "    if _GLOB.match(found) is None:\n", "    if found is None:\n",
        "tests/integration/approvals/test_policy.py::"
        "test_a_name_that_only_looks_like_a_tool_s_is_not_written_and_capitals_are_no_other_tool",
        CONFIGURED + "test_a_name_that_only_looks_like_a_tool_s_enables_nothing_silently",
    ),
    defect(
        "agent: globs as written", "what an agent enables is written as tools are called", "toolsys/provisioning.py",
        "found.append(normalize_glob(glob))", "found.append(glob if normalize_glob(glob) else glob)",
        CONFIGURED + "test_capitals_of_a_glob_enable_what_they_mean",
    ),
)  # fmt: skip
