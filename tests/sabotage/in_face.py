"""Defects of the MCP face: numbering, collecting, whose session it is, and what stands outside of an envelope."""

from typing import Final

from tests.sabotage.defect import Defect, Edit, defect

NUMBERS: Final = "toolsys/sql/75_mcp_face.sql"
CONVERSATIONS: Final = "toolsys/conversations.py"
FACE: Final = "tests/integration/api/test_mcp_face.py::"
RETENTION: Final = "tests/integration/api/test_mcp_retention.py::"
REVIEWS: Final = "tests/integration/api/test_reviews.py::"
CRASHES: Final = "tests/crash/test_face.py::"
FORGETS: Final = "toolsys/sql/77_mcp_retention.sql"
MESSAGES: Final = "tests/integration/api/test_mcp_messages.py::"

FACE_DEFECTS: Final[tuple[Defect, ...]] = (
    defect(
        "face: same call never attached", "the same call while uncollected is the same step", NUMBERS,
        "AND fingerprint = p_fingerprint AND collected_at IS NULL", "AND false",
        FACE + "test_two_of_the_same_call_at_once_are_one",
        FACE + "test_a_held_call_is_collected_by_the_same_call_later",
        FACE + "test_who_dies_between_number_and_step_is_followed_by_the_same_call",
    ),
    defect(
        "face: collected call attached", "a call after its outcome was collected is a new one", NUMBERS,
        "AND fingerprint = p_fingerprint AND collected_at IS NULL", "AND fingerprint = p_fingerprint",
        FACE + "test_a_call_is_one_step_of_one_call_and_its_outcome_is_collected_once",
    ),
    defect(
        "face: arguments ignored", "only the same name and arguments are the same call", "toolsys/api/mcp_calls.py",
        "canonical.canonical_bytes([name, message.raw_hash or arguments])", "canonical.canonical_bytes([name])",
        FACE + "test_other_arguments_another_order_of_keys_and_another_conversation",
    ),
    Defect(
        "face: numbering unlocked", "one lock on the conversation makes two of a call one",
        (
            Edit(NUMBERS, "id = p_session FOR NO KEY UPDATE;", "id = p_session;"),
            # Long enough for all of them to have looked, on a busy machine too.
            Edit(NUMBERS, "    IF c.id IS NULL THEN\n", "    IF c.id IS NULL THEN\n        PERFORM pg_sleep(3);\n"),
        ),
        (FACE + "test_two_of_the_same_call_at_once_are_one",),
    ),
    defect(
        "face: collected with the first byte", "who hangs up has collected nothing", "toolsys/api/mcp_messages.py",
        "        yield data[:-1]\n        collect(reply.collects)\n",
        "        collect(reply.collects)\n        yield data[:-1]\n",
        FACE + "test_an_answer_that_nobody_reads_to_its_end_is_not_collected",
    ),
    defect(
        "face: session of any key", "a session id opens nothing for another key", CONVERSATIONS,
        'select_related("run").filter(api_key_id=party.api_key_id, closed_at=None)\n        found = rows.filter(pk=',
        'select_related("run").filter(closed_at=None)\n        found = rows.filter(pk=',
        FACE + "test_anothers_session_is_not_found_and_a_key_opens_only_its_own",
    ),
    defect(
        "face: task of any key", "a task belongs to the key that proposed it", CONVERSATIONS,
        "rows = rows.filter(client_session__api_key_id=party.api_key_id)", "rows = rows.all()",
        FACE + "test_a_task_is_cancelled_by_its_id_and_belongs_to_its_key",
    ),
    defect(
        "face: any request cancels", "only the request that asked last may cancel", CONVERSATIONS,
        "client_session_id=conversation.id, request_id=request_id, collected_at=None",
        "client_session_id=conversation.id, collected_at=None",
        FACE + "test_a_cancelled_request_ends_its_call_and_only_the_one_that_asked_last_may",
    ),
    defect(
        "face: refused place kept", "a proposal that wrote nothing gives its place back", "toolsys/api/mcp_calls.py",
        "        conversations.forget(conversation.tenant_id, numbered.id, house.runtime.probe)\n        raise",
        "        raise",
        FACE + "test_a_run_that_a_breaker_failed_takes_nothing_until_its_client_was_silent",
    ),
    defect(
        "face: failed run replaced", "a breaker holds until the client was silent", CONVERSATIONS,
        "run.status == RunStatus.COMPLETED", "run.status != RunStatus.RUNNING",
        FACE + "test_a_run_that_a_breaker_failed_takes_nothing_until_its_client_was_silent",
    ),
    defect(
        "face: structured from outside", "what is from outside stands in its envelope only",
        "toolsys/api/mcp_render.py",
        " and view.output_trust != TrustLevel.EXTERNAL_UNTRUSTED:", ":",
        "tests/integration/mcp/test_hostile_text.py::"
        "test_words_of_a_server_stay_enveloped_on_their_way_to_an_mcp_client",
    ),
    defect(
        "face: any origin", "a script of a foreign page is not answered", "toolsys/api/mcp_view.py",
        "        mcp_revisions.check_origin(self.request)\n", "",
        MESSAGES + "test_the_way_a_message_comes_is_judged_before_it_is_read",
    ),
    defect(
        "face: headers not compared", "headers that a middlebox routes by say what the message says",
        "toolsys/api/mcp_revisions.py",
        '    _same("Mcp-Method", headers.get("HTTP_MCP_METHOD"), message.method)\n', "",
        MESSAGES + "test_an_envelope_that_disagrees_with_itself_is_refused",
    ),
    Defect(
        "face: ended in two transactions", "who dies while a conversation ends has ended nothing",
        (
            Edit(
                CONVERSATIONS,
                'with _committing("close", party.tenant_id, house.runtime.probe), tenant_transaction(party.tenant_id):',
                "with tenant_transaction(party.tenant_id):",
            ),
            Edit(
                CONVERSATIONS,
                '        for run_id in list(open_runs.order_by("id").values_list("id", flat=True)):\n    ',
                '        left = list(open_runs.order_by("id").values_list("id", flat=True))\n'
                '    with _committing("close", party.tenant_id, house.runtime.probe):\n        pass\n'
                "    for run_id in left:\n",
            ),
        ),
        (CRASHES + "test_who_dies_while_a_conversation_ends_has_ended_all_of_it_or_nothing",),
    ),
    defect(
        "face: commit not told", "each commit of the face is a crash point", CONVERSATIONS,
        '    with _committing("collect", tenant_id, probe):\n        database.call(',
        "    if True:\n        database.call(",
        "tests/crash/test_face_points.py::test_every_commit_of_the_face_is_reported_and_has_a_crash_point_on_each_side",
    ),
    defect(
        "face: moved twice", "of two who end a silence the first one's run counts", CONVERSATIONS,
        "filter(pk=found.pk, run_id=found.run_id, closed_at=None)", "filter(pk=found.pk, closed_at=None)",
        CRASHES + "test_a_silence_that_two_web_processes_end_at_once_is_one_new_run",
    ),
    defect(
        "face: open call forgotten", "a call that is under way keeps its step", FORGETS,
        "              AND i.completed_at IS NULL)\n        ORDER", "              AND false)\n        ORDER",
        RETENTION + "test_a_call_that_is_still_under_way_is_kept_with_its_conversation",
    ),
    defect(
        "face: young calls forgotten", "whoever asks, what is younger than a day stays", FORGETS,
        "WHERE c.created_at < statement_timestamp() - make_interval(secs => greatest(p_seconds, 86400))",
        "WHERE c.created_at < statement_timestamp() - make_interval(secs => p_seconds)",
        RETENTION + "test_whoever_calls_the_functions_cannot_forget_what_is_younger_than_a_day",
    ),
    defect(
        "face: locked rows waited for", "retention goes by what somebody asks for now", FORGETS,
        "FOR UPDATE OF c SKIP LOCKED", "FOR UPDATE OF c NOWAIT",
        RETENTION + "test_what_somebody_asks_for_at_this_moment_is_passed_over",
    ),
    defect(
        "face: no bound on conversations", "a tenant opens a bounded number", CONVERSATIONS,
        "    if count == bound:\n", "    if False:\n",
        RETENTION + "test_a_tenant_opens_a_bounded_number_and_its_open_ones_go_on",
    ),
    defect(
        "face: silent ones counted", "who was silent for a day takes no place", CONVERSATIONS,
        "closed_at=None, last_call_at__gt=since)", "closed_at=None)",
        RETENTION + "test_who_was_silent_for_a_day_takes_no_place_and_returns",
    ),
    defect(
        "face: any role accepts", "readers of a catalog do not accept it", "mcpcatalog/api.py",
        "person, body = self.one_of(*REVIEWERS), self.body(AcceptanceRequest)",
        "person, body = self.one_of(*READERS), self.body(AcceptanceRequest)",
        REVIEWS + "test_readers_see_admins_and_operators_accept_and_admins_ask",
    ),
    defect(
        "face: keys read reviews", "a key is told nothing of what waits", "toolsys/api/people.py",
        '        if not isinstance(user, Person):\n            raise Problem("auth.forbidden")\n        return user',
        "        return user",
        REVIEWS + "test_a_key_is_told_nothing_and_a_cookie_alone_changes_nothing",
    ),
)  # fmt: skip
